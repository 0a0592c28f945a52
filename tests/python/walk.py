"""Walks the examples with the official Python MCP client, over stdio.

    python walk.py --interlock target/debug/interlock --examples target/debug/examples [WALK …]

Each walk is one client and one server process. It prints one line per check and ends at its
first failed one, because what follows would be judged in the wrong state; the other walks go on.
The last line is `N passed, M failed`; the exit code is 1 if anything failed.

What the examples promise stands in the tables below; the code under them knows nothing of refunds
and doors.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import anyio
from mcp import Client, MCPError
from mcp.client.stdio import PROCESS_TERMINATION_TIMEOUT

from harness import Report, Wire, run, text

# --- What the examples promise ---------------------------------------------------------------

HANDSHAKE = "2025-11-25"
STATELESS = "2026-07-28"
WORKFLOW_META = "dev.interlock/workflow"
REFUSAL_META = "dev.interlock/refusal"
NO_SUCH_WORKFLOW, NO_WORKFLOW_GIVEN = 1021, 1022
NOT_IN_STATE, FINISHED = 1081, 1085
WORKFLOW_TOOLS = ("workflow_start", "workflow_status")
WALK_SECONDS = 60

TOOLS, RESOURCES, PROMPTS = "tools", "resources", "prompts"


@dataclass(frozen=True)
class State:
    """What the lists hold while the workflow is here, apart from what is always there."""

    tools: tuple[str, ...]
    resources: tuple[str, ...] = ()
    prompts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Call:
    """One step of a walk: a tool call and what has to come of it."""

    tool: str
    to: str
    arguments: dict[str, Any] = field(default_factory=dict)
    fails: bool = False
    # The result hands out a key…
    gives_key: bool = False
    # …and this argument of a later call is that key.
    with_key: str | None = None


@dataclass(frozen=True)
class Refused:
    """A tool call that the workflow must refuse here, changing nothing."""

    tool: str
    arguments: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Read:
    """A resource read that succeeds, or is refused, and does not move the workflow."""

    uri: str
    refused: bool = False


@dataclass(frozen=True)
class Prompt:
    """A prompt that can be had, or is refused, and does not move the workflow."""

    name: str
    arguments: dict[str, str] = field(default_factory=dict)
    refused: bool = False


@dataclass(frozen=True)
class Flow:
    """A workflow as a client sees it, and one way through it."""

    start: str
    states: dict[str, State]
    steps: tuple[Call | Refused | Read | Prompt, ...]
    # Where the walk ends for whoever does not begin anew.
    end: str | None = None
    # Listed in every state, and callable without a handle on 2026-07-28.
    always: tuple[str, ...] = ()
    # A call of one of those tools, to see that it works.
    always_call: tuple[str, dict[str, Any]] | None = None


ORDER = {"order": "A-1"}
PAYMENT = {"order": "A-1", "amount": 20}

REFUND = Flow(
    start="new",
    end="paid",
    always=("search_orders",),
    always_call=("search_orders", {"text": "A"}),
    states={
        "new": State(tools=("lookup_order",)),
        "found": State(tools=("refund",), resources=("note://rules",), prompts=("apologise",)),
    },
    steps=(
        Refused("refund", PAYMENT),
        Read("note://rules", refused=True),
        Prompt("apologise", {"who": "Ada"}, refused=True),
        Call("lookup_order", to="found", arguments=ORDER),
        Refused("lookup_order", ORDER),
        Read("note://rules"),
        Prompt("apologise", {"who": "Ada"}),
        # The last state is terminal: the workflow begins anew.
        Call("refund", to="new", arguments=PAYMENT),
        Refused("refund", PAYMENT),
    ),
)

DOOR = State(tools=("t_open_door_with_key", "t_pick_up_key"))
ROLLBACK = State(tools=("t_go_back", "t_open_door_with_key"))

CROSSROADS = Flow(
    start="C_entry",
    end="C_doorR",
    states={
        "C_entry": State(tools=("t_open_door",)),
        "C_crossroad": State(tools=("t_press_button", "t_choose_left_path", "t_choose_right_path")),
        "C_doorL": DOOR,
        "C_doorR": DOOR,
        "C_rollback_left": ROLLBACK,
        "C_rollback_right": ROLLBACK,
    },
    steps=(
        Refused("t_open_door_with_key", {"key": "any"}),
        Call("t_open_door", to="C_entry", fails=True),
        Call("t_open_door", to="C_crossroad"),
        Call("t_choose_left_path", to="C_crossroad", fails=True),
        Call("t_press_button", to="C_crossroad"),
        Call("t_choose_left_path", to="C_doorL"),
        Refused("t_go_back"),
        Call("t_open_door_with_key", to="C_rollback_left", arguments={"key": "wrong"}, fails=True),
        Refused("t_pick_up_key"),
        Call("t_go_back", to="C_crossroad"),
        Call("t_choose_right_path", to="C_doorR"),
        Call("t_pick_up_key", to="C_doorR", gives_key=True),
        # A terminal edge: the workflow begins anew.
        Call("t_open_door_with_key", to="C_entry", with_key="key"),
    ),
)


# --- The walks -------------------------------------------------------------------------------


async def refund(paths: Paths, report: Report) -> None:
    await walk(REFUND, paths.serve("examples/refund/interlock.yaml"), report)


async def crossroads(paths: Paths, report: Report) -> None:
    await walk(CROSSROADS, paths.serve("examples/crossroads/interlock.yaml"), report)


async def crossroads_in_rust(paths: Paths, report: Report) -> None:
    await walk(CROSSROADS, [os.path.join(paths.examples, "crossroads")], report)


async def modern(paths: Paths, report: Report) -> None:
    """The client's own default: probe with `server/discover`, find the stateless version, and use it."""
    async with connect(paths.serve("examples/refund/interlock.yaml"), "auto", report) as (client, wire):
        methods = [message["method"] for message in wire.sent()]
        report.equal("the first messages", methods, ["server/discover"])
        await stateless(REFUND, client, wire, report)


async def modern_unannounced(paths: Paths, report: Report) -> None:
    """A client that was told the version sends no probe: its first message is an ordinary request."""
    async with connect(paths.serve("examples/refund/interlock.yaml"), STATELESS, report) as (client, wire):
        await stateless(REFUND, client, wire, report)
        report.equal("probes", [m for m in wire.sent() if m["method"] == "server/discover"], [])


async def crossroads_by_handle(paths: Paths, report: Report) -> None:
    """What a handle leads to has a world of its own, too."""
    async with connect([os.path.join(paths.examples, "crossroads")], STATELESS, report) as (client, wire):
        await stateless(CROSSROADS, client, wire, report)


WALKS = (refund, crossroads, crossroads_in_rust, modern, modern_unannounced, crossroads_by_handle)


async def walk(flow: Flow, command: list[str], report: Report) -> None:
    """Goes through `flow` as a client that knows the handshake alone."""
    async with connect(command, "legacy", report) as (client, wire):
        await through(flow, client, wire, report)


async def through(flow: Flow, client: Client, wire: Wire, report: Report) -> None:
    """Goes through `flow` in the handshake era and judges every list, step and refusal on the way."""
    walker = Walker(flow, client, wire, report)
    await walker.begin()
    for step in flow.steps:
        await walker.go(step)
    await walker.end()


class Walker:
    """One client of the handshake era on its way through a workflow."""

    def __init__(self, flow: Flow, client: Client, wire: Wire, report: Report, name: str = "") -> None:
        self.state, self.key = flow.start, None
        self._flow, self._client, self._wire, self._report = flow, client, wire, report
        self._name = f"{name}, " if name else ""

    async def begin(self) -> None:
        self._report.equal("the version negotiated", self._client.protocol_version, HANDSHAKE)
        tools = self._client.server_capabilities.tools
        self._report.true("list changes of tools are announced", tools and tools.list_changed)
        await self.look()

    async def go(self, step: Call | Refused | Read | Prompt) -> None:
        """One step, and a look at the lists."""
        flow, client, wire, report = self._flow, self._client, self._wire, self._report
        report.at = f"{self._name}{self.state}, {type(step).__name__.lower()} {subject(step)}"
        match step:
            case Call():
                self.key = await called(flow, self.state, step, self.key, client, wire, report) or self.key
                self.state = step.to
            case Refused():
                await refused(flow, self.state, step, client, wire, report)
            case Read():
                with outcome(step.refused, self.state, report):
                    read = await client.read_resource(step.uri)
                    report.true("the resource has contents", read.contents)
            case Prompt():
                with outcome(step.refused, self.state, report):
                    prompt = await client.get_prompt(step.name, step.arguments)
                    report.true("the prompt has messages", prompt.messages)
        await self.look()

    async def look(self) -> None:
        """The lists hold what is callable where this client is."""
        self._report.at = f"{self._name}{self.state}"
        await lists(self._flow, self.state, self._client, self._report)

    async def end(self) -> None:
        if self._flow.always_call is not None:
            name, arguments = self._flow.always_call
            self._report.at = f"{self._name}{self.state}, {name}"
            result = await self._client.call_tool(name, arguments)
            self._report.equal("what is always there works", result.is_error, False)
            await self.look()
        self._report.at = f"{self._name}the end"
        self._report.equal("list changes out of place", stray(self._wire), [])


async def called(
    flow: Flow, state: str, step: Call, key: str | None, client: Client, wire: Wire, report: Report
) -> str | None:
    """One permitted call. Returns the key that it handed out, if it did."""
    arguments = dict(step.arguments)
    if step.with_key is not None:
        report.true("a key was picked up", key)
        arguments[step.with_key] = key
    result = await client.call_tool(step.tool, arguments)
    report.equal("isError", bool(result.is_error), step.fails)
    report.true("the call was not refused", REFUSAL_META not in (result.meta or {}))
    told = (result.meta or {}).get(WORKFLOW_META, {})
    report.true("the instance has a name", isinstance(told.get("instance"), str) and told["instance"])
    report.equal("the state told", told.get("state"), step.to)
    report.within("what is next", flow.states[step.to].tools, names(told.get("next")))
    before, after = flow.states[state], flow.states[step.to]
    changed = [kind for kind in (TOOLS, RESOURCES, PROMPTS) if getattr(before, kind) != getattr(after, kind)]
    report.equal("list changes before the result", changes_before_last_result(wire), sorted(changed))
    return key_of(result) if step.gives_key else None


def key_of(result: Any) -> str:
    """The key that a result hands out, as structured content or as the last word of its text."""
    if result.structured_content is not None:
        return result.structured_content["key"]
    return text(result).split()[-1]


async def refused(flow: Flow, state: str, step: Refused, client: Client, wire: Wire, report: Report) -> None:
    """One call out of order: a tool error that says where we are and what may be done."""
    result = await client.call_tool(step.tool, step.arguments)
    report.equal("isError", result.is_error, True)
    report.within("the text names the state and what is allowed", (state, *flow.states[state].tools), text(result))
    refusal = (result.meta or {}).get(REFUSAL_META, {})
    report.equal("the code", refusal.get("code"), NOT_IN_STATE)
    report.equal("the state told", refusal.get("state"), state)
    report.within("what is allowed", flow.states[state].tools, names(refusal.get("allowed")))
    report.equal("list changes before the result", changes_before_last_result(wire), [])


async def lists(flow: Flow, state: str, client: Client, report: Report) -> None:
    here = flow.states[state]
    tools = [tool.name for tool in (await client.list_tools()).tools]
    report.equal("tools listed", sorted(tools), sorted((*flow.always, *here.tools)))
    if any(s.resources for s in flow.states.values()):
        resources = [str(resource.uri) for resource in (await client.list_resources()).resources]
        report.equal("resources listed", sorted(resources), sorted(here.resources))
    if any(s.prompts for s in flow.states.values()):
        prompts = [prompt.name for prompt in (await client.list_prompts()).prompts]
        report.equal("prompts listed", sorted(prompts), sorted(here.prompts))


async def stateless(flow: Flow, client: Client, wire: Wire, report: Report) -> None:
    """Goes through the tools of `flow` as a 2026-07-28 client does: by handles, with lists that never vary."""
    holder = Holder(flow, client, wire, report)
    await holder.begin()
    first = holder.steps[0]
    report.at = "without a handle"
    await turned_away(NO_WORKFLOW_GIVEN, await client.call_tool(first.tool, first.arguments), report)
    other = await started(flow, client, report)
    report.true("each start has a handle of its own", holder.handle != other)
    for step in holder.steps:
        await holder.go(step)
    await holder.end()
    status = (await client.call_tool("workflow_status", {"workflow": other})).structured_content
    report.equal("the other one has not moved", (status["state"], status["finished"]), (flow.start, False))


class Holder:
    """One client of 2026-07-28 on its way through the tools of a workflow, by a handle of its own."""

    handle: str
    everything: list[Any]

    def __init__(self, flow: Flow, client: Client, wire: Wire, report: Report, name: str = "") -> None:
        steps = [step for step in flow.steps if isinstance(step, Call | Refused)]
        # Whoever has a handle is at the end after the last call.
        last = max(at for at, step in enumerate(steps) if isinstance(step, Call))
        self.steps = steps[: last + 1]
        self.state, self.key = flow.start, None
        self._flow, self._client, self._wire, self._report = flow, client, wire, report
        self._name = f"{name}, " if name else ""

    async def begin(self) -> None:
        self._report.equal("the version", self._client.protocol_version, STATELESS)
        self.everything = await constant_list(self._flow, self._client, self._report)
        self._report.at = f"{self._name}with a handle that was made up"
        first = self.steps[0]
        made_up = {**first.arguments, "workflow": "wf_" + "A" * 30}
        await turned_away(NO_SUCH_WORKFLOW, await self._client.call_tool(first.tool, made_up), self._report)
        self.handle = await started(self._flow, self._client, self._report)

    async def go(self, step: Call | Refused) -> None:
        """One step, and a look at the list, which is what it always was."""
        report = self._report
        report.at = f"{self._name}{self.state}, {type(step).__name__.lower()} {subject(step)}"
        arguments = {**step.arguments, "workflow": self.handle}
        match step:
            case Refused():
                await turned_away(NOT_IN_STATE, await self._client.call_tool(step.tool, arguments), report)
            case Call():
                if step.with_key is not None:
                    report.true("a key was picked up", self.key)
                    arguments[step.with_key] = self.key
                result = await self._client.call_tool(step.tool, arguments)
                report.equal("isError", bool(result.is_error), step.fails)
                report.true("the call was not refused", REFUSAL_META not in (result.meta or {}))
                self.state = self._flow.end if step is self.steps[-1] else step.to
                told = (result.meta or {}).get(WORKFLOW_META, {})
                report.equal("the instance told", told.get("instance"), self.handle)
                report.equal("the state told", told.get("state"), self.state)
                if step.gives_key:
                    self.key = key_of(result)
        await self.look()

    async def look(self) -> None:
        """The list is what it always was, and the instance is where this client left it."""
        report = self._report
        report.at = f"{self._name}{self.state}"
        report.equal("tools listed", await constant_list(self._flow, self._client, report), self.everything)
        status = (await self._client.call_tool("workflow_status", {"workflow": self.handle})).structured_content
        report.equal("where it stands", status["state"], self.state)

    async def end(self) -> None:
        flow, client, report = self._flow, self._client, self._report
        report.at = f"{self._name}the end"
        status = (await client.call_tool("workflow_status", {"workflow": self.handle})).structured_content
        report.equal("where it stands", (status["state"], status["finished"]), (flow.end, True))
        first = self.steps[0]
        again = {**first.arguments, "workflow": self.handle}
        reason = await turned_away(FINISHED, await client.call_tool(first.tool, again), report)
        report.within("the way to a new one", ["workflow_start"], reason)
        if flow.always_call is not None:
            name, arguments = flow.always_call
            report.at = f"{self._name}{name}"
            result = await client.call_tool(name, arguments)
            report.equal("what is always there works", bool(result.is_error), False)
        report.at = f"{self._name}the end"
        requests = [message for message in self._wire.sent() if "id" in message]
        versions = {m["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] for m in requests}
        report.equal("versions sent", versions, {STATELESS})
        report.equal("list changes sent to a client that does not listen", list_changes(self._wire), [])


async def constant_list(flow: Flow, client: Client, report: Report) -> list[Any]:
    """Every tool there is, and those of handles: whatever was called before."""
    tools = (await client.list_tools()).tools
    bound = {tool for state in flow.states.values() for tool in state.tools}
    report.equal("tools listed", sorted(tool.name for tool in tools), sorted([*flow.always, *bound, *WORKFLOW_TOOLS]))
    return [tool.model_dump() for tool in tools]


async def started(flow: Flow, client: Client, report: Report) -> str:
    """A workflow of its own. Returns its handle."""
    report.at = "workflow_start"
    result = await client.call_tool("workflow_start", {})
    report.equal("isError", bool(result.is_error), False)
    report.equal("where it begins", result.structured_content["state"], flow.start)
    report.within("what is next", flow.states[flow.start].tools, result.structured_content["next"])
    return result.structured_content["workflow"]


async def turned_away(code: int, result: Any, report: Report) -> str:
    """A tool error with this code and a reason, which is returned."""
    report.equal("isError", result.is_error, True)
    report.equal("the code", (result.meta or {}).get(REFUSAL_META, {}).get("code"), code)
    report.true("the refusal gives a reason", text(result))
    return text(result)


# --- What was announced, and when ------------------------------------------------------------


def list_changes(wire: Wire) -> list[str]:
    return [kind for message in wire.received() if (kind := changed_list(message))]


def changes_before_last_result(wire: Wire) -> list[str]:
    """The kinds announced between the last tool call and its answer, each as often as it came."""
    start, end = calls(wire)[-1]
    return sorted(kind for _, message in wire.log[start:end] if (kind := changed_list(message)))


def stray(wire: Wire) -> list[str]:
    """The kinds announced at any other time than between a tool call and its answer."""
    spans = calls(wire)
    return [
        kind
        for at, (_, message) in enumerate(wire.log)
        if (kind := changed_list(message)) and not any(start < at < end for start, end in spans)
    ]


def calls(wire: Wire) -> list[tuple[int, int]]:
    """Where in the log each tool call went out and its answer came in."""
    log = wire.log
    asked = [(at, m["id"]) for at, (way, m) in enumerate(log) if way == ">" and m.get("method") == "tools/call"]
    answered = {m["id"]: at for at, (way, m) in enumerate(log) if way == "<" and "method" not in m and "id" in m}
    return [(at, answered[number]) for at, number in asked if number in answered]


class connect:
    """A client on a server process of its own; on failure the talk and the server's stderr are shown."""

    def __init__(self, command: list[str], mode: str, report: Report, **able: Any) -> None:
        self._wire = Wire.stdio(command)
        self._mode, self._report, self._able = mode, report, able
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> tuple[Client, Wire]:
        self._report.at = "connecting"
        try:
            # No cache: every list that is asked for crosses the wire.
            client = Client(self._wire, mode=self._mode, cache=None, read_timeout_seconds=20, **self._able)
            return await self._stack.enter_async_context(client), self._wire
        except BaseException:
            self._wire.show()
            raise

    async def __aexit__(self, kind: Any, error: Any, trace: Any) -> None:
        began = time.monotonic()
        try:
            await self._stack.__aexit__(kind, error, trace)
            self._report.at = "closing"
            self._report.true(
                "the server ends by itself when its input does",
                time.monotonic() - began < PROCESS_TERMINATION_TIMEOUT,
            )
        except BaseException:
            self._wire.show()
            raise


class outcome:
    """Around a request that has to succeed, or to be refused with 1081 as a JSON-RPC error."""

    def __init__(self, refused: bool, state: str, report: Report) -> None:
        self._refused, self._state, self._report = refused, state, report

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        if not self._refused or not (error is None or isinstance(error, MCPError)):
            return False
        self._report.true("it is refused", error)
        self._report.equal("the error", error.code, -32602)
        refusal = (error.error.data or {}).get("refusal", {})
        self._report.equal("the code", refusal.get("code"), NOT_IN_STATE)
        self._report.equal("the state told", refusal.get("state"), self._state)
        return True


def subject(step: Call | Refused | Read | Prompt) -> str:
    match step:
        case Call() | Refused():
            return step.tool
        case Read():
            return step.uri
        case Prompt():
            return step.name


def changed_list(message: dict[str, Any]) -> str | None:
    """Which list a message says has changed, if it says so."""
    _, _, rest = message.get("method", "").partition("notifications/")
    kind, _, what = rest.partition("/")
    return kind if what == "list_changed" else None


def names(entries: Any) -> list[str]:
    """The names in a list of names, or of objects with a name."""
    return [entry["name"] if isinstance(entry, dict) else entry for entry in entries or []]


@dataclass(frozen=True)
class Paths:
    interlock: str
    examples: str

    def serve(self, file: str) -> list[str]:
        return [self.interlock, "serve", file, "--stdio"]


def main(walks: tuple[Callable[[Paths, Report], Awaitable[None]], ...], about: str) -> int:
    """Goes on these walks, or on those of them that the command line names."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--interlock", required=True, help="the interlock binary")
    parser.add_argument("--examples", required=True, help="the folder of built Rust examples")
    parser.add_argument("walks", nargs="*", metavar="WALK", help=", ".join(w.__name__ for w in walks))
    options = parser.parse_args()
    by_name = {each.__name__: each for each in walks}
    if unknown := [name for name in options.walks if name not in by_name]:
        parser.error(f"no such walk: {', '.join(unknown)}; there are: {', '.join(by_name)}")
    chosen = [by_name[name] for name in options.walks] or list(walks)
    paths = Paths(options.interlock, options.examples)
    bound = [(each.__name__, partial(each, paths)) for each in chosen]
    return anyio.run(run, bound, WALK_SECONDS).end()


if __name__ == "__main__":
    sys.exit(main(WALKS, "walk the examples with the Python MCP client"))
