"""What the scripts here share: a wire that remembers, and checks that are counted."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import anyio
from mcp import StdioServerParameters
from mcp.client.stdio import stdio_client

# --- The wire, in the order of arrival -------------------------------------------------------


class Wire:
    """A transport that remembers every message in the order in which it crossed the wire.

    The client runs notification callbacks in tasks of their own, so the order in which callbacks
    and results surface proves nothing. Its read stream has no buffer and one reader, so the order
    in which messages come out of it is the order of the server's lines.
    """

    def __init__(self, transport: Any, errlog: Any = None) -> None:
        self.log: list[tuple[str, dict[str, Any]]] = []
        self._inner, self._errlog = transport, errlog
        self._grown = anyio.Event()

    @classmethod
    def stdio(cls, command: list[str]) -> Wire:
        """A server process of our own, and its standard error to show if things go wrong."""
        errlog = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")
        parameters = StdioServerParameters(command=command[0], args=command[1:])
        return cls(stdio_client(parameters, errlog=errlog), errlog)

    async def __aenter__(self) -> tuple[Tap, Tap]:
        read, write = await self._inner.__aenter__()
        return Tap(read, self), Tap(write, self)

    async def __aexit__(self, *exc: Any) -> bool | None:
        return await self._inner.__aexit__(*exc)

    def record(self, way: str, item: Any) -> None:
        if isinstance(item, Exception):
            self.log.append((way, {"unreadable": str(item)}))
        else:
            self.log.append((way, item.message.model_dump(by_alias=True, exclude_unset=True, mode="json")))
        self._grown.set()
        self._grown = anyio.Event()

    async def grown(self) -> None:
        """Waits for the next message."""
        await self._grown.wait()

    def sent(self) -> list[dict[str, Any]]:
        return [message for way, message in self.log if way == ">"]

    def received(self) -> list[dict[str, Any]]:
        return [message for way, message in self.log if way == "<"]

    def show(self) -> None:
        """The end of the talk, and of what the server had to say besides."""
        for way, message in self.log[-8:]:
            print(f"     {way} {json.dumps(message)[:600]}")
        if self._errlog is not None:
            self._errlog.seek(0)
            for line in self._errlog.read().splitlines()[-20:]:
                print(f"     stderr: {line}")


class Tap:
    """One stream of the transport; everything that passes is recorded first."""

    def __init__(self, inner: Any, wire: Wire) -> None:
        self._inner, self._wire = inner, wire

    async def receive(self) -> Any:
        item = await self._inner.receive()
        self._wire.record("<", item)
        return item

    async def send(self, item: Any) -> None:
        self._wire.record(">", item)
        await self._inner.send(item)

    def __aiter__(self) -> Tap:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Tap:
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *exc: Any) -> bool | None:
        return await self._inner.__aexit__(*exc)


# --- Judging ---------------------------------------------------------------------------------


class Failed(Exception):
    """A check that did not hold; it ends its walk."""


class Report:
    """Counts checks and prints one line for each."""

    def __init__(self) -> None:
        self.passed = self.failed = 0
        self.walk = self.at = ""

    def equal(self, what: str, actual: Any, expected: Any) -> None:
        self._judge(what, actual == expected, f"expected {expected!r}, got {actual!r}")

    def true(self, what: str, actual: Any) -> None:
        self._judge(what, bool(actual), f"got {actual!r}")

    def within(self, what: str, parts: Sequence[str], whole: Any) -> None:
        missing = [part for part in parts if part not in whole]
        self._judge(what, not missing, f"{missing!r} not in {whole!r}")

    def fail(self, why: str) -> None:
        self.failed += 1
        print(f"FAIL {self._place()}: {why}", flush=True)

    def _judge(self, what: str, held: bool, why: str) -> None:
        if not held:
            raise Failed(f"{what}: {why}")
        self.passed += 1
        print(f"ok   {self._place()}: {what}", flush=True)

    def _place(self) -> str:
        return f"{self.walk}: {self.at}" if self.at else self.walk

    def end(self) -> int:
        """Prints the last line; returns the exit code."""
        print(f"{self.passed} passed, {self.failed} failed")
        return 0 if self.passed and not self.failed else 1


async def run(walks: Sequence[tuple[str, Callable[[Report], Awaitable[None]]]], seconds: float) -> Report:
    """Goes on each walk. One that breaks off is one failure; the others go on."""
    report = Report()
    for name, walk in walks:
        report.walk, report.at = name, ""
        try:
            with anyio.fail_after(seconds):
                await walk(report)
        except Exception as error:
            cause = leaf(error)
            if isinstance(cause, TimeoutError):
                report.fail(f"not done within {seconds} s")
            else:
                why = str(cause) if isinstance(cause, Failed) else repr(cause)
                report.fail(" ".join(why.split()))
    return report


def leaf(error: BaseException) -> BaseException:
    """The first cause in a group: task groups wrap what happens inside them."""
    while (inner := getattr(error, "exceptions", None)) is not None:
        error = inner[0]
    return error


def text(result: Any) -> str:
    return "\n".join(block.text for block in result.content if block.type == "text")
