"""Walks one server with several clients at once, over HTTP: none sees another's progress.

    python apart.py --crossroads URL [WALK …]

The clients are the official Python ones. What the example promises stands in `walk.py`. The last
line is `N passed, M failed`; the exit code is 1 if anything failed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from itertools import zip_longest
from typing import Any

import anyio
import httpx2
from mcp import Client, ClientSession
from mcp.client.streamable_http import streamable_http_client

from harness import Failed, Report, Wire, leaf, run
from walk import (
    CROSSROADS,
    FINISHED,
    REFUSAL_META,
    STATELESS,
    WALK_SECONDS,
    WORKFLOW_META,
    Call,
    Holder,
    Refused,
    Walker,
    turned_away,
)

CROWD = 8

# The other way through the same doors: the key is tried again where it did not fit.
OTHER_WAY = replace(
    CROSSROADS,
    end="C_doorR",
    steps=(
        Call("t_open_door", to="C_entry", fails=True),
        Refused("t_press_button"),
        Call("t_open_door", to="C_crossroad"),
        Call("t_choose_right_path", to="C_crossroad", fails=True),
        Call("t_press_button", to="C_crossroad"),
        Refused("t_open_door"),
        Call("t_choose_right_path", to="C_doorR"),
        Call("t_pick_up_key", to="C_doorR", gives_key=True),
        Call("t_open_door_with_key", to="C_rollback_right", arguments={"key": "wrong"}, fails=True),
        Call("t_open_door_with_key", to="C_rollback_right", arguments={"key": "wrong"}, fails=True),
        Call("t_open_door_with_key", to="C_entry", with_key="key"),
    ),
)


@asynccontextmanager
async def over_http(url: str, mode: str, *, leaves: bool = True) -> AsyncIterator[tuple[Client, Wire, set[str]]]:
    """A client, its wire, and the sessions that it was given. One that does not leave ends none."""
    sessions: set[str] = set()

    async def note(response: httpx2.Response) -> None:
        if session := response.headers.get("mcp-session-id"):
            sessions.add(session)

    async with AsyncExitStack() as stack:
        http = httpx2.AsyncClient(timeout=20, event_hooks={"response": [note]})
        http = await stack.enter_async_context(http)
        wire = Wire(streamable_http_client(url, http_client=http, terminate_on_close=leaves))
        try:
            # No cache: every list that is asked for crosses the wire.
            client = Client(wire, mode=mode, cache=None, read_timeout_seconds=20)
            yield await stack.enter_async_context(client), wire, sessions
        except BaseException:
            wire.show()
            raise


def in_turns(one: Any, two: Any) -> Iterator[tuple[int, Any]]:
    """The steps of two walks, one of each at a time, with the walk that it belongs to."""
    for steps in zip_longest(one, two):
        yield from ((whose, step) for whose, step in enumerate(steps) if step is not None)


# --- The walks -------------------------------------------------------------------------------


async def sessions(url: str, report: Report) -> None:
    """Two clients in sessions of their own: each list is looked at after each step of either."""
    async with over_http(url, "legacy") as (one, wire_of_one, first), over_http(url, "legacy") as (two, wire_of_two, second):
        walkers = (
            Walker(CROSSROADS, one, wire_of_one, report, "one"),
            Walker(OTHER_WAY, two, wire_of_two, report, "two"),
        )
        for walker in walkers:
            await walker.begin()
        apart = 0
        for whose, step in in_turns(CROSSROADS.steps, OTHER_WAY.steps):
            await walkers[whose].go(step)
            await walkers[1 - whose].look()
            apart += walkers[0].state != walkers[1].state
        for walker in walkers:
            await walker.end()
        report.at = ""
        report.equal("one session each", (len(first), len(second), len(first & second)), (1, 1, 0))
        report.true("they were in different places", apart > 5)


async def return_to_session(url: str, report: Report) -> None:
    """A client goes away in the middle; one that knows its session finds the place."""
    half = 6
    async with over_http(url, "legacy", leaves=False) as (client, wire, known):
        walker = Walker(CROSSROADS, client, wire, report, "before")
        await walker.begin()
        for step in CROSSROADS.steps[:half]:
            await walker.go(step)
        greeting = client.session.initialize_result
    state = walker.state
    report.at = "coming back"
    report.true("it went away in the middle", state not in (CROSSROADS.start, CROSSROADS.end))
    report.equal("its session", len(known), 1)
    headers = {"mcp-session-id": next(iter(known))}
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(httpx2.AsyncClient(timeout=20, headers=headers))
        read, write = await stack.enter_async_context(streamable_http_client(url, http_client=http))
        session = await stack.enter_async_context(ClientSession(read, write))
        # It knows what the handshake said, and makes none.
        session.adopt(greeting)
        key = None
        for step in CROSSROADS.steps[half:]:
            report.at = f"after, {state}, {step.tool}"
            listed = sorted(tool.name for tool in (await session.list_tools()).tools)
            report.equal("tools listed", listed, sorted(CROSSROADS.states[state].tools))
            arguments = {**step.arguments, **({step.with_key: key} if isinstance(step, Call) and step.with_key else {})}
            result = await session.call_tool(step.tool, arguments)
            if isinstance(step, Refused):
                report.true("it is refused", REFUSAL_META in result.meta)
                continue
            report.equal("isError", bool(result.is_error), step.fails)
            state = step.to
            report.equal("the state told", result.meta[WORKFLOW_META]["state"], state)
            if step.gives_key:
                key = result.structured_content["key"]


async def handles(url: str, report: Report) -> None:
    """Two clients of 2026-07-28: lists never vary, and each handle is where its holder left it."""
    async with over_http(url, STATELESS) as (one, wire_of_one, first), over_http(url, STATELESS) as (two, wire_of_two, second):
        holders = (
            Holder(CROSSROADS, one, wire_of_one, report, "one"),
            Holder(OTHER_WAY, two, wire_of_two, report, "two"),
        )
        for holder in holders:
            await holder.begin()
        report.at = ""
        report.equal("both see the same list", holders[0].everything, holders[1].everything)
        report.true("each has a handle of its own", holders[0].handle != holders[1].handle)
        for whose, step in in_turns(holders[0].steps, holders[1].steps):
            await holders[whose].go(step)
            await holders[1 - whose].look()
        for holder in holders:
            await holder.end()
        report.at = "what is finished"
        for client, holder in ((one, holders[1]), (two, holders[0])):
            result = await client.call_tool("t_open_door", {"workflow": holder.handle})
            reason = await turned_away(FINISHED, result, report)
            report.within("the way to a new one", ["workflow_start"], reason)
        report.equal("no session", first | second, set())


async def crowd(url: str, report: Report) -> None:
    """Many clients of both kinds at the same time, as fast as each of them can."""

    async def alone(number: int, mine: Report) -> None:
        flow = (CROSSROADS, OTHER_WAY)[number % 2]
        mode = ("legacy", STATELESS)[number // 2 % 2]
        try:
            async with over_http(url, mode) as (client, wire, _):
                walker = (Walker, Holder)[number // 2 % 2](flow, client, wire, mine)
                await walker.begin()
                for step in getattr(walker, "steps", flow.steps):
                    await walker.go(step)
                await walker.end()
        except Exception as error:
            raise Failed(f"client {number}, {mine.at}: {leaf(error)!r}") from error

    # Each has a report of its own, because a report knows one place at a time.
    reports = [Report() for _ in range(CROWD)]
    async with anyio.create_task_group() as group:
        for number, mine in enumerate(reports):
            mine.walk = f"{report.walk}, client {number}"
            group.start_soon(alone, number, mine)
    report.passed += sum(mine.passed for mine in reports)


WALKS = (sessions, return_to_session, handles, crowd)


def main() -> int:
    parser = argparse.ArgumentParser(description="walk one server with several clients at once")
    parser.add_argument("--crossroads", required=True, help="where the example crossroads serves HTTP")
    parser.add_argument("walks", nargs="*", metavar="WALK", help=", ".join(w.__name__ for w in WALKS))
    options = parser.parse_args()
    by_name = {each.__name__: each for each in WALKS}
    if unknown := [name for name in options.walks if name not in by_name]:
        parser.error(f"no such walk: {', '.join(unknown)}; there are: {', '.join(by_name)}")
    chosen = [by_name[name] for name in options.walks] or list(WALKS)
    walks = [(each.__name__, partial(each, options.crossroads)) for each in chosen]
    return anyio.run(run, walks, WALK_SECONDS).end()


if __name__ == "__main__":
    sys.exit(main())
