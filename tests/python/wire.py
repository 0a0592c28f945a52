"""Does everything that the official Python MCP client can do, over HTTP and stdio.

    python wire.py --conformance URL --echo-url URL --echo PROGRAM [WALK …]

Each walk is one client, or a few. It prints one line per check and ends at its first failed one;
the other walks go on. Where INTERLOCK_SCHEMAS names a folder, every message is held against the
JSON Schema of its version. The last line is `N passed, M failed`.
"""

from __future__ import annotations

import argparse
import base64
import json
import sys
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

import anyio
import httpx2
import mcp_types as types
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import ResourceUpdated, ToolsListChanged
from mcp.shared.exceptions import MCPDeprecationWarning

import schemas
from harness import Report, Wire, run, text

HANDSHAKE = "2025-11-25"
STATELESS = "2026-07-28"
LEGACY = "legacy"
WALK_SECONDS = 60

INVALID_PARAMS = -32602
NOT_FOUND = -32002
MISSING_CAPABILITY = -32021
CLIENTS_OWN = -32000

# --- What the examples promise ---------------------------------------------------------------

TOOLS = (
    "test_simple_text",
    "test_image_content",
    "test_audio_content",
    "test_embedded_resource",
    "test_multiple_content_types",
    "test_tool_with_logging",
    "test_tool_with_progress",
    "test_error_handling",
    "test_structured_content",
    "json_schema_2020_12_tool",
)
WATCHED = "test://watched-resource"
RESOURCES = ("test://static-text", "test://static-binary", WATCHED)
TEMPLATE = "test://template/{id}/data"
PROMPTS = (
    "test_simple_prompt",
    "test_prompt_with_arguments",
    "test_prompt_with_embedded_resource",
    "test_prompt_with_image",
)
ROOT = "file:///one"
PNG = b"\x89PNG"

# What a person, or a model, answers to whatever a tool may want to know.
VALUES: dict[str, Any] = {"name": "Ada", "color": "green", "context": "some context", "ok": True}


async def answer_form(_: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
    if isinstance(params, types.ElicitRequestURLParams):
        return types.ElicitResult(action="accept")
    fields = params.requested_schema["properties"]
    content = {name: VALUES.get(name, field.get("default", "anything")) for name, field in fields.items()}
    return types.ElicitResult(action="accept", content=content)


async def answer_sampling(_: Any, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
    content = types.TextContent(type="text", text="Paris")
    return types.CreateMessageResult(role="assistant", content=content, model="test", stop_reason="endTurn")


async def answer_roots(_: Any) -> types.ListRootsResult:
    return types.ListRootsResult(roots=[types.Root(uri=ROOT, name="one")])


ABLE: dict[str, Any] = {
    "elicitation_callback": answer_form,
    "sampling_callback": answer_sampling,
    "list_roots_callback": answer_roots,
}

# --- Connections -----------------------------------------------------------------------------


class Link:
    """One client, what crossed its wire, and its HTTP exchanges if it has any."""

    client: Client
    wire: Wire
    version: str

    def __init__(self, report: Report) -> None:
        self.report = report
        self.exchanges: list[tuple[httpx2.Request, httpx2.Response]] = []

    async def note(self, response: httpx2.Response) -> None:
        self.exchanges.append((response.request, response))

    def results(self) -> list[dict[str, Any]]:
        return [message["result"] for message in self.wire.received() if "result" in message]

    def asked(self, method: str) -> list[dict[str, Any]]:
        """What the server asked of us."""
        return [message["params"] for message in self.wire.received() if message.get("method") == method and "id" in message]

    def told(self, method: str) -> list[dict[str, Any]]:
        """What the server told us without being asked."""
        return [
            message.get("params", {})
            for message in self.wire.received()
            if message.get("method") == method and "id" not in message
        ]

    async def call(self, tool: str, arguments: dict[str, Any] | None = None, **options: Any) -> types.CallToolResult:
        return await self.client.call_tool(tool, arguments, **options)

    async def until(self, what: str, condition: Callable[[], Any]) -> None:
        """Waits for what happens beside the call that caused it."""
        with anyio.move_on_after(10):
            while not condition():
                await self.wire.grown()
        self.report.true(what, condition())

    async def refused(self, what: str, code: int, attempt: Awaitable[Any]) -> MCPError:
        """A request that has to be answered by an error with this code."""
        try:
            result = await attempt
        except MCPError as error:
            self.report.equal(what, error.code, code)
            return error
        self.report.equal(what, result, f"an error {code}")
        raise AssertionError("not reached")


@asynccontextmanager
async def linked(wire: Wire, link: Link, mode: str, **options: Any) -> AsyncIterator[Link]:
    """Connects, and judges the whole talk against the schemas once it is over."""
    link.wire = wire
    try:
        # No cache: whatever is asked for crosses the wire.
        settings: dict[str, Any] = {"mode": mode, "cache": None, "read_timeout_seconds": 20, **options}
        async with Client(wire, **settings) as link.client:
            link.version = link.client.protocol_version
            yield link
        found = schemas.problems(wire.log, link.version)
        if found is not None:
            link.report.equal("every message is what the protocol says", found, [])
    except BaseException:
        wire.show()
        raise


@asynccontextmanager
async def over_http(url: str, report: Report, mode: str, **options: Any) -> AsyncIterator[Link]:
    link = Link(report)
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(httpx2.AsyncClient(timeout=20, event_hooks={"response": [link.note]}))
        wire = Wire(streamable_http_client(url, http_client=http))
        yield await stack.enter_async_context(linked(wire, link, mode, **options))


@asynccontextmanager
async def over_stdio(program: str, report: Report, mode: str, **options: Any) -> AsyncIterator[Link]:
    wire = Wire.stdio([program, "--stdio", "--hazards", "--tool-timeout", "2s"])
    async with linked(wire, Link(report), mode, **options) as link:
        yield link


# --- Walks in every version ------------------------------------------------------------------


async def tools(link: Link) -> None:
    report, client = link.report, link.client
    listed = (await client.list_tools()).tools
    report.within("the tools listed", TOOLS, [tool.name for tool in listed])
    report.true("every tool says what it does", all(tool.description for tool in listed))
    schema = next(tool for tool in listed if tool.name == "json_schema_2020_12_tool").input_schema
    report.equal("a schema keeps its definitions", schema["$defs"]["address"]["$anchor"], "addressDef")

    simple = await link.call("test_simple_text")
    report.equal("text, without arguments", text(simple), "This is a simple text response for testing.")
    image = (await link.call("test_image_content")).content[0]
    report.equal("an image", (image.type, image.mime_type), ("image", "image/png"))
    report.true("the image is a PNG", base64.b64decode(image.data).startswith(PNG))
    audio = (await link.call("test_audio_content")).content[0]
    report.equal("audio", (audio.type, audio.mime_type), ("audio", "audio/wav"))
    report.true("the audio is a WAV", base64.b64decode(audio.data).startswith(b"RIFF"))
    embedded = (await link.call("test_embedded_resource")).content[0].resource
    report.equal("an embedded resource", (str(embedded.uri), embedded.mime_type), ("test://embedded-resource", "text/plain"))
    mixed = (await link.call("test_multiple_content_types")).content
    report.equal("mixed content", [item.type for item in mixed], ["text", "image", "resource"])
    report.true("the mixed resource is JSON", json.loads(mixed[2].resource.text))
    failing = await link.call("test_error_handling")
    report.equal("a tool that fails says so", failing.is_error, True)
    report.within("with its reason", ["This tool intentionally returns an error for testing"], text(failing))


async def structured(link: Link) -> None:
    listed = (await link.client.list_tools()).tools
    tool = next((tool for tool in listed if tool.name == "test_structured_content"), None)
    link.report.true("there is a tool with an output schema", tool and tool.output_schema)
    # The client itself holds the content against the schema.
    result = await link.call(tool.name)
    link.report.within("what the schema requires is there", tool.output_schema["required"], result.structured_content)
    link.report.equal("the text says the same", json.loads(text(result)), result.structured_content)


async def progress(link: Link) -> None:
    seen: list[tuple[float, float | None]] = []

    async def note(done: float, total: float | None, _: str | None) -> None:
        seen.append((done, total))

    await link.call("test_tool_with_progress", progress_callback=note)
    await link.until("three steps", lambda: len(seen) == 3)
    link.report.equal("the steps", seen, [(0, 100), (50, 100), (100, 100)])
    await link.call("test_tool_with_progress")
    link.report.equal("none for who did not ask", len(link.told("notifications/progress")), 3)


async def resources(link: Link) -> None:
    report, client = link.report, link.client
    listed = (await client.list_resources()).resources
    report.within("the resources listed", RESOURCES, [str(resource.uri) for resource in listed])
    plain = (await client.read_resource("test://static-text")).contents[0]
    report.equal("a text", (str(plain.uri), plain.mime_type), ("test://static-text", "text/plain"))
    report.true("the text is not empty", plain.text)
    binary = (await client.read_resource("test://static-binary")).contents[0]
    report.equal("a blob", (str(binary.uri), binary.mime_type), ("test://static-binary", "image/png"))
    report.true("the blob is a PNG", base64.b64decode(binary.blob).startswith(PNG))
    templates = (await client.list_resource_templates()).resource_templates
    report.within("the templates listed", [TEMPLATE], [template.uri_template for template in templates])
    filled = (await client.read_resource(TEMPLATE.replace("{id}", "123"))).contents[0]
    report.within("a filled template", ["123"], json.dumps(json.loads(filled.text)))
    code = NOT_FOUND if link.version == HANDSHAKE else INVALID_PARAMS
    await link.refused("a resource that is not there", code, client.read_resource("test://nowhere"))


async def prompts(link: Link) -> None:
    report, client = link.report, link.client
    listed = (await client.list_prompts()).prompts
    report.within("the prompts listed", PROMPTS, [prompt.name for prompt in listed])

    async def messages(name: str, **arguments: str) -> list[Any]:
        return [message.content for message in (await client.get_prompt(name, arguments)).messages]

    report.equal("a prompt", [content.type for content in await messages("test_simple_prompt")], ["text"])
    filled = await messages("test_prompt_with_arguments", arg1="one", arg2="two")
    report.equal("a prompt with arguments", filled[0].text, "Prompt with arguments: arg1='one', arg2='two'")
    resource, after = await messages("test_prompt_with_embedded_resource", resourceUri="test://example")
    report.equal("a prompt with a resource", (str(resource.resource.uri), after.type), ("test://example", "text"))
    image, below = await messages("test_prompt_with_image")
    report.equal("a prompt with an image", (image.mime_type, below.type), ("image/png", "text"))
    await link.refused("a prompt that is not there", INVALID_PARAMS, client.get_prompt("nowhere"))
    await link.refused("a prompt without its arguments", INVALID_PARAMS, client.get_prompt("test_prompt_with_arguments", {}))


async def completion(link: Link) -> None:
    prompt = types.PromptReference(type="ref/prompt", name="test_prompt_with_arguments")
    values = (await link.client.complete(prompt, {"name": "arg1", "value": "a"})).completion.values
    link.report.true("values for an argument of a prompt", isinstance(values, list))
    template = types.ResourceTemplateReference(type="ref/resource", uri=TEMPLATE)
    variable = await link.client.complete(template, {"name": "id", "value": "1"}, {"other": "x"})
    link.report.true("values for a variable of a template", len(variable.completion.values) <= 100)


async def pagination(link: Link) -> None:
    client = link.client
    for kind, ask in (
        ("tools", client.list_tools),
        ("resources", client.list_resources),
        ("prompts", client.list_prompts),
        ("resource_templates", client.list_resource_templates),
    ):
        seen: list[Any] = []
        cursor = None
        while True:
            page = await ask(cursor=cursor)
            entries = getattr(page, kind)
            link.report.true(f"a page of {kind} has something", entries)
            seen += [entry.name for entry in entries]
            cursor = page.next_cursor
            if cursor is None:
                break
        link.report.equal(f"no {kind} twice", len(seen), len(set(seen)))
        await link.refused(f"a cursor of {kind} that nobody gave out", INVALID_PARAMS, ask(cursor="made up"))


async def mistakes(link: Link) -> None:
    await link.refused("a tool that is not there", INVALID_PARAMS, link.call("nowhere"))
    wrong = await link.call("test_sampling", {"prompt": 7})
    link.report.equal("arguments of the wrong type are an error of the tool", wrong.is_error, True)


EVERYWHERE = (tools, structured, progress, resources, prompts, completion, pagination, mistakes)

# --- Walks that begin with a handshake -------------------------------------------------------


async def handshake(link: Link) -> None:
    report, client = link.report, link.client
    report.equal("the version", client.protocol_version, HANDSHAKE)
    report.true("the server has a name", client.server_info and client.server_info.name)
    can = client.server_capabilities
    report.true("capabilities", can.tools and can.resources and can.prompts and can.logging and can.completions)
    report.equal("subscriptions are announced", can.resources.subscribe, True)
    report.equal("list changes are announced", (can.tools.list_changed, can.prompts.list_changed), (True, True))
    await client.send_ping()
    await client.send_progress_notification("nobody's", 1)
    await client.send_roots_list_changed()
    await client.send_ping()
    sessions = {request.headers.get("mcp-session-id") for request, _ in link.exchanges[1:]}
    report.equal("the session is kept", len(sessions), 1)
    statuses = {response.status_code for _, response in link.exchanges if response.request.method == "POST"}
    report.equal("everything is taken", statuses, {200, 202})


async def logging(link: Link) -> None:
    await link.client.set_logging_level("debug")
    await link.call("test_tool_with_logging")
    await link.until("three messages", lambda: len(link.told("notifications/message")) == 3)
    link.report.equal("their level", {told["level"] for told in link.told("notifications/message")}, {"info"})
    await link.client.set_logging_level("error")
    await link.call("test_tool_with_logging")
    link.report.equal("none below the level", len(link.told("notifications/message")), 3)


async def questions(link: Link) -> None:
    """What a server asks of its client while a call runs."""
    report = link.report
    sampled = await link.call("test_sampling", {"prompt": "the capital of France?"})
    report.within("sampling", ["Paris"], text(sampled))
    report.equal("what is sampled", link.asked("sampling/createMessage")[0]["maxTokens"], 100)
    elicited = await link.call("test_elicitation", {"message": "Who are you?"})
    report.within("a form", ["accept"], text(elicited))
    form = link.asked("elicitation/create")[0]["requestedSchema"]
    report.equal("what the form requires", sorted(form["required"]), ["email", "username"])
    filled = await link.call("test_elicitation_sep1034_defaults")
    report.within("defaults", ["active", "95.5"], text(filled))
    url = await link.call("test_elicitation_url")
    report.within("a link", ["accept"], text(url))
    report.equal("the mode of a link", link.asked("elicitation/create")[-1].get("mode"), "url")
    await link.until("it is said to be complete", lambda: link.told("notifications/elicitation/complete"))
    listed = await link.call("test_list_roots")
    report.within("roots", [ROOT], text(listed))


async def unasked(link: Link) -> None:
    for tool, arguments in (("test_sampling", {"prompt": "?"}), ("test_elicitation", {"message": "?"}), ("test_list_roots", {})):
        try:
            failed = (await link.call(tool, arguments)).is_error
        except MCPError:
            failed = True
        link.report.true(f"{tool} fails where the client cannot be asked", failed)
    link.report.equal("nothing is asked of it", [m for m in link.wire.received() if "method" in m and "id" in m], [])


async def subscriptions(link: Link) -> None:
    client, updates = link.client, partial(link.told, "notifications/resources/updated")
    await link.call("test_trigger_resource_update")
    link.report.equal("no updates without a subscription", updates(), [])
    await client.subscribe_resource(WATCHED)
    await link.call("test_trigger_resource_update")
    await link.until("an update", updates)
    link.report.equal("of that resource", updates()[0]["uri"], WATCHED)
    await client.unsubscribe_resource(WATCHED)
    await link.call("test_trigger_resource_update")
    await client.send_ping()
    link.report.equal("none after that", len(updates()), 1)
    await link.refused("a resource that is not there", NOT_FOUND, client.subscribe_resource("test://nowhere"))


async def list_changes(link: Link) -> None:
    for kind in ("tool", "prompt"):
        await link.call(f"test_trigger_{kind}_change")
        await link.until(f"a change of {kind}s", partial(link.told, f"notifications/{kind}s/list_changed"))


async def resumption(link: Link) -> None:
    result = await link.call("test_reconnection")
    link.report.true("the result comes by another stream", not result.is_error and text(result))
    resumed = [(q, a) for q, a in link.exchanges if q.method == "GET" and "last-event-id" in q.headers]
    link.report.equal("the stream was resumed", [answer.status_code for _, answer in resumed], [200])


async def ended(url: str, report: Report) -> None:
    """A session ends with its client, and is gone then."""
    async with over_http(url, report, LEGACY) as link:
        await link.client.send_ping()
    request, response = link.exchanges[-1]
    report.equal("the client says so", request.method, "DELETE")
    report.true("the server agrees", response.is_success)
    async with httpx2.AsyncClient(timeout=20) as http:
        headers = {name: request.headers[name] for name in ("mcp-session-id", "mcp-protocol-version")}
        headers["accept"] = "application/json, text/event-stream"
        again = await http.post(url, headers=headers, json={"jsonrpc": "2.0", "id": 1, "method": "ping"})
    report.equal("afterwards it is unknown", again.status_code, 404)


# --- Walks without one -----------------------------------------------------------------------


async def discover(link: Link) -> None:
    report, client = link.report, link.client
    report.equal("the version", client.protocol_version, STATELESS)
    report.equal("the first message", link.wire.sent()[0]["method"], "server/discover")
    report.within("the versions", [STATELESS], client.session.discover_result.supported_versions)
    report.true("the server has a name", client.server_info and client.server_info.name)
    can = client.server_capabilities
    report.true("capabilities", can.tools and can.resources and can.prompts and can.completions)
    await client.list_tools()
    report.equal("no session", [q for q, a in link.exchanges if "mcp-session-id" in (q.headers | a.headers)], [])
    hints = [result for result in link.results() if "tools" in result]
    report.true("a list says how long it holds", all(result["ttlMs"] >= 0 for result in hints))
    report.true("and for whom", all(result["cacheScope"] in ("public", "private") for result in hints))


async def headers(link: Link) -> None:
    listed = (await link.client.list_tools()).tools
    marked = [
        (tool.name, name)
        for tool in listed
        for name, field in tool.input_schema.get("properties", {}).items()
        if "x-mcp-header" in field and field.get("type") == "string"
    ]
    link.report.true("there is a tool with an argument in a header", marked)
    tool, argument = marked[0]
    for value in ("plain", "zwölf ☃", " padded "):
        result = await link.call(tool, {argument: value})
        link.report.within(f"{value!r} arrives", [value], text(result))
    sent = link.exchanges[-1][0].headers
    link.report.equal("the headers", (sent["mcp-method"], sent["mcp-name"]), ("tools/call", tool))


async def input_required(link: Link) -> None:
    report, client = link.report, link.client
    prefix = "test_input_required_result"
    report.within("a form", ["Hello, Ada!"], text(await link.call(f"{prefix}_elicitation")))
    report.within("sampling", ["Paris"], text(await link.call(f"{prefix}_sampling")))
    for tool in ("list_roots", "multiple_inputs", "multi_round"):
        result = await link.call(f"{prefix}_{tool}")
        report.true(tool, not result.is_error and text(result))
    report.within("the state comes back", ["state-ok"], text(await link.call(f"{prefix}_request_state")))
    prompt = await client.get_prompt(f"{prefix}_prompt")
    report.within("for a prompt", ["some context"], prompt.messages[0].content.text)
    report.equal("nothing is asked but in results", [m for m in link.wire.received() if "method" in m and "id" in m], [])

    asked = await client.session.call_tool(f"{prefix}_tampered_state", {}, allow_input_required=True)
    report.equal("by hand", asked.result_type, "input_required")
    answers = {key: types.ElicitResult(action="accept", content={"ok": True}) for key in asked.input_requests}
    state = asked.request_state
    changed = state[:-1] + ("A" if state[-1] != "A" else "B")
    repeat = partial(client.session.call_tool, f"{prefix}_tampered_state", {}, input_responses=answers)
    try:
        report.equal("a state that was changed", await repeat(request_state=changed), "an error")
    except MCPError as error:
        report.true("a state that was changed is refused", error.code)
    report.true("the true one is taken", not (await repeat(request_state=state)).is_error)


async def unable(link: Link) -> None:
    error = await link.refused("a tool that needs sampling", MISSING_CAPABILITY, link.call("test_missing_capability"))
    link.report.equal("what it needs", error.error.data["requiredCapabilities"], {"sampling": {}})


async def logs(url: str, report: Report) -> None:
    async with over_http(url, report, STATELESS) as link:
        await link.call("test_logging_tool")
        report.equal("nothing is logged unless asked for", link.told("notifications/message"), [])
    async with over_http(url, report, STATELESS, log_level="debug") as link:
        await link.call("test_logging_tool")
        report.true("and something if it is", link.told("notifications/message"))


async def listening(link: Link) -> None:
    report, client = link.report, link.client
    async with client.listen(tools_list_changed=True, resource_subscriptions=[WATCHED]) as subscription:
        report.equal("what is honoured", subscription.honored.tools_list_changed, True)
        report.equal("for which resources", subscription.honored.resource_subscriptions, [WATCHED])
        await link.call("test_trigger_prompt_change")
        await link.call("test_trigger_tool_change")
        report.equal("a change of tools", await anext(subscription), ToolsListChanged())
        await link.call("test_trigger_resource_update")
        report.equal("an update", await anext(subscription), ResourceUpdated(WATCHED))
        report.equal("nothing that was not asked for", link.told("notifications/prompts/list_changed"), [])
    before = len(link.told("notifications/tools/list_changed"))
    await link.call("test_trigger_tool_change")
    report.equal("nothing comes after that", len(link.told("notifications/tools/list_changed")), before)


# --- Walks with the example `echo` -----------------------------------------------------------


async def echo(version: str, link: Link) -> None:
    report = link.report
    report.equal("the version", link.version, version)
    listed = [tool.name for tool in (await link.client.list_tools()).tools]
    report.within("the tools", ["echo", "panic", "hang", "block", "slow"], listed)
    report.true("and twenty others", len(listed) >= 25)
    for given in ("", "line\nbreak\r\n", 'tab\t"quoted"\\', "zwölf ☃ 🚂", "\u2028\x00\x7f", "data: x\n\nid: 1\n\n", "x" * (1 << 18)):
        report.true(f"{given[:20]!r} comes back", text(await link.call("echo", {"text": given})) == given)
    echoes: dict[int, str] = {}

    async def one(number: int) -> None:
        echoes[number] = text(await link.call("echo", {"text": str(number)}))

    async with anyio.create_task_group() as group:
        for number in range(100):
            group.start_soon(one, number)
    report.equal("a hundred calls at once, each its own", echoes, {number: str(number) for number in range(100)})


async def cancellation(link: Link) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(link.call, "slow", {"ms": 300})
        meanwhile = await link.call("echo", {"text": "meanwhile"})
        link.report.equal("a slow call holds up no other", text(meanwhile), "meanwhile")
        group.cancel_scope.cancel()
    (cancelled,) = (m["id"] for m in link.wire.sent() if m.get("params", {}).get("name") == "slow")
    # As long again, so that an answer that was on its way would have come.
    link.report.true("another one is not cancelled", not (await link.call("slow", {"ms": 600})).is_error)
    # Over HTTP the client makes an error of its own when the exchange ends without an answer.
    ours = [m for m in link.wire.received() if m.get("error", {}).get("code") != CLIENTS_OWN]
    answers = [m for m in ours if "method" not in m and m.get("id") == cancelled]
    link.report.equal("a cancelled call is never answered", answers, [])


async def hazards(link: Link) -> None:
    async def fails(tool: str) -> bool:
        try:
            return bool((await link.call(tool)).is_error)
        except MCPError as error:
            return error.code == -32603

    link.report.true("a panic is an error of its call", await fails("panic"))
    link.report.true("what hangs ends at its deadline", await fails("hang"))
    try:
        link.report.true("a client that does not wait gives up", await link.call("hang", read_timeout_seconds=0.1) is None)
    except MCPError as error:
        link.report.true("a client that does not wait gives up", error.code)
    link.report.equal("the server still serves", text(await link.call("echo", {"text": "still here"})), "still here")


# --- All of them -----------------------------------------------------------------------------

Walk = Callable[[Report], Awaitable[None]]


def walks(options: argparse.Namespace) -> dict[str, Walk]:
    found: dict[str, Walk] = {}
    conformance = partial(over_http, options.conformance)

    def add(name: str, walk: Callable[[Link], Awaitable[None]], connect: Any, mode: str, **settings: Any) -> None:
        async def go(report: Report) -> None:
            async with connect(report, mode, **settings) as link:
                await walk(link)

        found[name] = go

    for walk in EVERYWHERE:
        add(f"handshake_{walk.__name__}", walk, conformance, LEGACY)
        add(f"stateless_{walk.__name__}", walk, conformance, STATELESS)
    for walk in (handshake, questions):
        add(walk.__name__, walk, conformance, LEGACY, **ABLE)
    for walk in (logging, unasked, subscriptions, list_changes, resumption):
        add(walk.__name__, walk, conformance, LEGACY)
    found["ended"] = partial(ended, options.conformance)
    add("discover", discover, conformance, "auto")
    for walk in (headers, unable, listening):
        add(walk.__name__, walk, conformance, STATELESS)
    add("input_required", input_required, conformance, STATELESS, **ABLE)
    found["logs"] = partial(logs, options.conformance)
    for place, connect in (("stdio", partial(over_stdio, options.echo)), ("http", partial(over_http, options.echo_url))):
        for era, mode, version in (("handshake", LEGACY, HANDSHAKE), ("stateless", STATELESS, STATELESS), ("auto", "auto", STATELESS)):
            add(f"{place}_{era}_echo", partial(echo, version), connect, mode)
        for era, mode in (("handshake", LEGACY), ("stateless", STATELESS)):
            add(f"{place}_{era}_cancellation", cancellation, connect, mode)
            add(f"{place}_{era}_hazards", hazards, connect, mode)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="do everything that the Python MCP client can do")
    parser.add_argument("--conformance", required=True, help="where the example conformance serves")
    parser.add_argument("--echo-url", required=True, help="where the example echo serves")
    parser.add_argument("--echo", required=True, help="the example echo, to start for stdio")
    parser.add_argument("walks", nargs="*", metavar="WALK")
    options = parser.parse_args()
    # What the newest version has given up is still used with the older ones.
    warnings.simplefilter("ignore", MCPDeprecationWarning)
    by_name = walks(options)
    if unknown := [name for name in options.walks if name not in by_name]:
        parser.error(f"no such walk: {', '.join(unknown)}; there are: {', '.join(by_name)}")
    chosen = [(name, by_name[name]) for name in options.walks or by_name]
    return anyio.run(run, chosen, WALK_SECONDS).end()


if __name__ == "__main__":
    sys.exit(main())
