"""Walks expenses, where a person must agree before money moves, with the official Python MCP client.

    python consent.py --interlock target/debug/interlock --examples target/debug/examples [WALK …]

The person is a callback of the client: asked while the call waits in the handshake era, and between
two requests of the same call in 2026-07-28. What is counted, and how, is as in `walk.py`.
"""

from __future__ import annotations

import sys
from typing import Any

from mcp import Client, MCPError, types

from harness import Report, Wire, text
from walk import (
    FINISHED,
    NOT_IN_STATE,
    REFUSAL_META,
    STATELESS,
    WORKFLOW_META,
    Call,
    Flow,
    Paths,
    Refused,
    State,
    changes_before_last_result,
    connect,
    constant_list,
    lists,
    main,
    started,
    stateless,
    through,
    turned_away,
)

PENDING, GUARDED, DENIED = 1071, 1082, 1083
INVALID_PARAMS = -32602
LEGACY = "legacy"

ASK = "elicitation/create"
KEY = "dev.interlock/approval"
RULES = ("note://rules",)
CLAIM = {"amount": 900, "purpose": "a flight"}
SMALL = {"amount": 40, "purpose": "a taxi"}
PAYMENT = {"amount": 900}
TO_ACCEPT, TO_PAY = "Accept 900 for a flight?", "Pay 900 of 900 for a flight?"

EXPENSES = Flow(
    start="draft",
    end="paid",
    states={
        "draft": State(tools=("file_claim",), resources=RULES),
        "review": State(tools=("accept_claim", "return_claim"), resources=RULES),
        "payable": State(tools=("pay",), resources=RULES),
    },
    steps=(
        Refused("pay", PAYMENT),
        Call("file_claim", to="review", arguments=CLAIM),
        # Nobody is asked for what is refused anyway.
        Refused("pay", PAYMENT),
        Call("accept_claim", to="payable"),
        Refused("accept_claim"),
        # The last state is terminal: the workflow begins anew.
        Call("pay", to="draft", arguments=PAYMENT),
    ),
)


class Person:
    """Somebody at the client who gives the same answer to every question, and remembers what was asked."""

    def __init__(self, action: str) -> None:
        self.asked: list[types.ElicitRequestParams] = []
        self._action = action

    async def __call__(self, _: Any, form: types.ElicitRequestParams) -> types.ElicitResult | types.ErrorData:
        self.asked.append(form)
        if self._action == "break":
            return types.ErrorData(code=-32603, message="the window did not open")
        return types.ElicitResult(action=self._action, content={} if self._action == "accept" else None)

    def questions(self) -> list[str]:
        return [form.message for form in self.asked]


def expenses(paths: Paths, mode: str, report: Report, person: Person | None) -> connect:
    """A client of the example whose user is this person; without one, it cannot ask anybody."""
    able = {} if person is None else {"elicitation_callback": person}
    return connect(paths.serve("examples/expenses/interlock.yaml"), mode, report, **able)


# --- The handshake era -----------------------------------------------------------------------


async def handshake_yes(paths: Paths, report: Report) -> None:
    """Who agrees gets through, and is asked once for each call."""
    person = Person("accept")
    async with expenses(paths, LEGACY, report, person) as (client, wire):
        await through(EXPENSES, client, wire, report)
        report.at = "what was asked"
        report.equal("the questions", person.questions(), [TO_ACCEPT, TO_PAY])
        report.equal("fields to fill in", [form.requested_schema["properties"] for form in person.asked], [{}, {}])
        report.equal("questions while their call waits", during_calls(wire), ["accept_claim", "pay"])


async def handshake_no(paths: Paths, report: Report) -> None:
    """Who does not agree stops that call, and nothing else."""
    for action in ("decline", "cancel"):
        person = Person(action)
        async with expenses(paths, LEGACY, report, person) as (client, wire):
            await filed(client, report)
            report.at = f"{action} in review"
            await stopped(DENIED, "review", await client.call_tool("accept_claim", {}), report)
            report.equal("list changes before the result", changes_before_last_result(wire), [])
            report.equal("the questions", person.questions(), [TO_ACCEPT])
            await lists(EXPENSES, "review", client, report)
            await goes_on(client, report)


async def handshake_cannot_ask(paths: Paths, report: Report) -> None:
    """Where no person can be asked, or the asking fails, it is for an operator to answer."""
    for what, person in (("no forms", None), ("a form that breaks", Person("break"))):
        async with expenses(paths, LEGACY, report, person) as (client, wire):
            await filed(client, report)
            for time in ("once", "and again"):
                report.at = f"{what}, {time}"
                await stopped(PENDING, "review", await client.call_tool("accept_claim", {}), report)
                report.equal("list changes before the result", changes_before_last_result(wire), [])
            # The second time, the question lies with the operator already.
            report.equal("questions to the client", len(requests_of(wire)), 0 if person is None else 1)
            await lists(EXPENSES, "review", client, report)
            await goes_on(client, report)


async def guards_come_first(paths: Paths, report: Report) -> None:
    """What the guard forbids is not asked for."""
    person = Person("accept")
    async with expenses(paths, LEGACY, report, person) as (client, _):
        await client.list_tools()
        await went("payable", await client.call_tool("file_claim", SMALL), report)
        report.at = "more than was spent"
        await stopped(GUARDED, "payable", await client.call_tool("pay", {"amount": 41}), report)
        report.equal("the questions", person.questions(), [])


# --- 2026-07-28 ------------------------------------------------------------------------------


async def stateless_yes(paths: Paths, report: Report) -> None:
    """The client's own rounds: the question comes in a result, the answer in the call made again."""
    person = Person("accept")
    async with expenses(paths, STATELESS, report, person) as (client, wire):
        await stateless(EXPENSES, client, wire, report)
        report.at = "what was asked"
        report.equal("the questions", person.questions(), [TO_ACCEPT, TO_PAY])
        report.equal("requests of the server", requests_of(wire), [])
        asking = [result for result in results(wire) if result.get("resultType") == "input_required"]
        report.equal("under which key", [list(result["inputRequests"]) for result in asking], [[KEY], [KEY]])
        brought = [m["params"] for m in wire.sent() if "requestState" in m.get("params", {})]
        states = [result["requestState"] for result in asking]
        report.equal("what was brought back", [params["requestState"] for params in brought], states)


async def stateless_no(paths: Paths, report: Report) -> None:
    for action in ("decline", "cancel"):
        person = Person(action)
        async with expenses(paths, STATELESS, report, person) as (client, _):
            everything = await constant_list(EXPENSES, client, report)
            handle = await started(EXPENSES, client, report)
            await filed(client, report, workflow=handle)
            report.at = f"{action} in review"
            await stopped(DENIED, "review", await client.call_tool("accept_claim", {"workflow": handle}), report)
            report.equal("the questions", person.questions(), [TO_ACCEPT])
            await stands(client, handle, "review", report)
            await goes_on(client, report, workflow=handle)
            report.equal("tools listed", await constant_list(EXPENSES, client, report), everything)


async def stateless_cannot_ask(paths: Paths, report: Report) -> None:
    async with expenses(paths, STATELESS, report, None) as (client, _):
        handle = await started(EXPENSES, client, report)
        await filed(client, report, workflow=handle)
        for time in ("once", "and again"):
            report.at = f"no forms, {time}"
            await stopped(PENDING, "review", await client.call_tool("accept_claim", {"workflow": handle}), report)
        await stands(client, handle, "review", report)
        await goes_on(client, report, workflow=handle)


async def a_yes_works_once(paths: Paths, report: Report) -> None:
    """What was sealed is for one call of one instance as it was: by hand, for the client's own rounds never try."""
    person = Person("accept")
    async with expenses(paths, STATELESS, report, person) as (client, _):
        handle, other = [await started(EXPENSES, client, report) for _ in range(2)]
        for each in (handle, other):
            await filed(client, report, workflow=each)
        here = {"workflow": handle}

        report.at = "a question that is left open"
        old = await asked("accept_claim", here, client, report)
        await client.call_tool("return_claim", here)
        await filed(client, report, **here)
        report.at = "a yes from before the workflow moved"
        await stopped(DENIED, "review", await again("accept_claim", here, old, client), report)

        report.at = "a yes for another instance"
        state = await asked("accept_claim", here, client, report)
        await not_its_own("accept_claim", {"workflow": other}, state, client, report)
        await stands(client, other, "review", report)

        report.at = "a state that was bent"
        middle = len(state) // 2
        bent = state[:middle] + ("A" if state[middle] != "A" else "B") + state[middle + 1 :]
        await not_its_own("accept_claim", here, bent, client, report)
        await stands(client, handle, "review", report)

        report.at = "a yes that was used"
        await went("payable", await again("accept_claim", here, state, client), report)
        await stopped(NOT_IN_STATE, "payable", await again("accept_claim", here, state, client), report)

        report.at = "a yes for other arguments"
        state = await asked("pay", {**here, **PAYMENT}, client, report)
        await not_its_own("pay", {**here, "amount": 1}, state, client, report)
        await stands(client, handle, "payable", report)

        report.at = "a payment, twice"
        await went("paid", await again("pay", {**here, **PAYMENT}, state, client), report)
        reason = await turned_away(FINISHED, await again("pay", {**here, **PAYMENT}, state, client), report)
        report.within("the way to a new one", ["workflow_start"], reason)
        report.equal("questions of the client's own rounds", person.questions(), [])


WALKS = (
    handshake_yes,
    handshake_no,
    handshake_cannot_ask,
    guards_come_first,
    stateless_yes,
    stateless_no,
    stateless_cannot_ask,
    a_yes_works_once,
)


# --- Steps and what comes of them ------------------------------------------------------------


async def filed(client: Client, report: Report, **handle: str) -> None:
    """A large claim, which a manager must look at."""
    report.at = "a large claim"
    # The client looks up what it calls, and afterwards this is not listed any more.
    await client.list_tools()
    await went("review", await client.call_tool("file_claim", {**CLAIM, **handle}), report)


async def goes_on(client: Client, report: Report, **handle: str) -> None:
    """The next call works."""
    report.at = "the next call"
    await went("draft", await client.call_tool("return_claim", handle), report)


async def went(state: str, result: Any, report: Report) -> None:
    report.true("the call was not refused", REFUSAL_META not in (result.meta or {}))
    report.equal("isError", bool(result.is_error), False)
    report.equal("the state told", result.meta[WORKFLOW_META]["state"], state)


async def stopped(code: int, state: str, result: Any, report: Report) -> None:
    """A refusal that leaves the workflow where it is."""
    await turned_away(code, result, report)
    report.equal("the state told", result.meta[REFUSAL_META].get("state"), state)


async def stands(client: Client, handle: str, state: str, report: Report) -> None:
    status = (await client.call_tool("workflow_status", {"workflow": handle})).structured_content
    report.equal("where it stands", (status["state"], status["finished"]), (state, False))


async def asked(tool: str, arguments: dict[str, Any], client: Client, report: Report) -> str:
    """The first round of a call. Returns what has to be brought back."""
    result = await client.session.call_tool(tool, arguments, allow_input_required=True)
    report.true("the call asks", isinstance(result, types.InputRequiredResult))
    report.equal("what it asks for", [each.method for each in result.input_requests.values()], [ASK])
    return result.request_state


async def again(tool: str, arguments: dict[str, Any], state: str, client: Client) -> Any:
    """The second round of a call, with a yes."""
    answers = {KEY: types.ElicitResult(action="accept", content={})}
    return await client.session.call_tool(
        tool, arguments, input_responses=answers, request_state=state, allow_input_required=True
    )


async def not_its_own(tool: str, arguments: dict[str, Any], state: str, client: Client, report: Report) -> None:
    """What was sealed for another call, or by nobody, is an error of the protocol."""
    try:
        result = await again(tool, arguments, state, client)
    except MCPError as error:
        report.equal("the error", error.code, INVALID_PARAMS)
    else:
        report.true(f"it is refused, and not {text(result)!r}", False)


# --- What crossed the wire -------------------------------------------------------------------


def requests_of(wire: Wire) -> list[dict[str, Any]]:
    """What the server asked of us."""
    return [message for message in wire.received() if "method" in message and "id" in message]


def results(wire: Wire) -> list[dict[str, Any]]:
    return [message["result"] for message in wire.received() if "result" in message]


def during_calls(wire: Wire) -> list[str]:
    """The tools whose calls were out when the server asked something."""
    out: dict[Any, str] = {}
    asking = []
    for way, message in wire.log:
        if way == ">" and message.get("method") == "tools/call":
            out[message["id"]] = message["params"]["name"]
        elif way == "<" and message.get("method") == ASK:
            asking.extend(out.values())
        elif way == "<" and "method" not in message:
            out.pop(message.get("id"), None)
    return asking


if __name__ == "__main__":
    sys.exit(main(WALKS, "walk expenses with the Python MCP client and a person who is asked"))
