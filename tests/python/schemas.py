"""Every message on the wire, against the JSON Schemas of the protocol.

They are not ours to publish, so they are read from the folder that INTERLOCK_SCHEMAS names, one
file per version. Without it that is said; where nothing may be skipped, it is a problem.
"""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema.validators import validator_for

VARIABLE = "INTERLOCK_SCHEMAS"
NO_SKIP = "INTERLOCK_NO_SKIP"

Message = dict[str, Any]


def problems(log: list[tuple[str, Message]], version: str) -> list[str] | None:
    """What is wrong with the messages of one connection; `None` where there are no schemas."""
    folder = os.environ.get(VARIABLE)
    if not folder:
        return skipped()
    schema = Schema.load(Path(folder, f"{version}.json"))
    # Both sides number their requests, so whose request an answer is for depends on its way.
    methods = {(way, message["id"]): message["method"] for way, message in log if "method" in message and "id" in message}
    found = []
    for way, message in log:
        asked = methods.get((">" if way == "<" else "<", message.get("id")))
        found += [f"{way} {problem}" for problem in schema.problems(message, asked)]
    return found


@cache
def skipped() -> list[str] | None:
    """Says it once."""
    why = f"skipped: {VARIABLE} names no folder"
    print(why)
    return None if os.environ.get(NO_SKIP, "") in ("", "0") else [f"{why}, and nothing may be skipped"]


class Schema:
    """The schema of one version of the protocol."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._document = document
        self._place = "$defs" if "$defs" in document else "definitions"
        self._definitions: dict[str, Any] = document[self._place]
        self._by_method = {
            definition["properties"]["method"]["const"]: name
            for name, definition in self._definitions.items()
            # Unions of what a side may say can be of one member, which has a name of its own.
            if "const" in definition.get("properties", {}).get("method", {}) and not name.startswith(("Client", "Server"))
        }

    @staticmethod
    @cache
    def load(path: Path) -> Schema:
        text = path.read_text(encoding="utf-8")
        # A form may ask for a number (NumberSchema), and the answer may then be one; the generated
        # schema of the answer says integer.
        return Schema(json.loads(text, object_hook=_with_numbers))

    def problems(self, message: Message, asked: str | None) -> list[str]:
        """What is wrong with a message, if it is an answer then to a request of this method."""
        subject = message.get("method") or f"answer to {asked}"
        found = self._against("JSONRPCMessage", message)
        if "method" in message:
            name = self._by_method.get(message["method"])
            found += self._against(name, message) if name else ["no such method in this version"]
        elif "error" in message:
            name = "JSONRPCErrorResponse" if "JSONRPCErrorResponse" in self._definitions else "JSONRPCError"
            found += self._against(name, message)
        elif "result" in message and asked is not None:
            found += self._against(self._result(asked, message["result"]), message["result"])
        else:
            found.append("an answer to nothing that was asked")
        return [f"{subject}: {problem}" for problem in found]

    def _result(self, method: str, result: Any) -> str:
        """The definition of what this method answers."""
        if isinstance(result, dict) and result.get("resultType") == "input_required":
            return "InputRequiredResult"
        name = self._by_method.get(method, "").removesuffix("Request") + "Result"
        return name if name in self._definitions and name != "Result" else "EmptyResult"

    def _against(self, name: str, value: Any) -> list[str]:
        return [f"{name} {error.json_path}: {error.message[:300]}" for error in self._validator(name).iter_errors(value)]

    @cache
    def _validator(self, name: str) -> Any:
        document = {**self._document, "$ref": f"#/{self._place}/{name}"}
        return validator_for(document)(document)


def _with_numbers(part: dict[str, Any]) -> dict[str, Any]:
    if part.get("type") == ["string", "integer", "boolean"]:
        part["type"].append("number")
    return part
