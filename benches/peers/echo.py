"""The same server with the official Python SDK, for `cargo xtask bench --peers`.

Answers are plain JSON where the SDK can, which is its faster way.
"""

import argparse
import logging

import uvicorn
from mcp.server.mcpserver import MCPServer

KINDS = [str] * 7 + [float] * 3 + [int] * 4 + [bool, float | None, list[str], list[float], list[str], dict]


def server(tools: int) -> MCPServer:
    mcp = MCPServer("echo", log_level="ERROR")

    @mcp.tool(description="Says it again", structured_output=False)
    async def echo(text: str) -> str:
        return text

    for number in range(1, tools):
        mcp.add_tool(
            taking(KINDS[(number - 1) % len(KINDS)]),
            name=f"tool_{number:02}",
            description="Takes something and says it again",
            structured_output=False,
        )
    return mcp


def taking(kind: type):
    async def again(value) -> str:
        return str(value)

    again.__annotations__["value"] = kind
    return again


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--stdio", action="store_true")
    parser.add_argument("--http")
    # Sessions and requests without one are served at the same address.
    parser.add_argument("--stateless", action="store_true")
    parser.add_argument("--tools", type=int, default=21)
    wanted = parser.parse_args()
    logging.disable(logging.WARNING)
    mcp = server(wanted.tools)
    if wanted.http is None:
        mcp.run("stdio")
        return
    host, port = wanted.http.rsplit(":", 1)
    app = mcp.streamable_http_app(json_response=True)
    uvicorn.run(app, host=host, port=int(port), log_level="error", access_log=False)


if __name__ == "__main__":
    main()
