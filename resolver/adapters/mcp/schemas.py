"""The output schemas of the MCP tools: the members of the JSON object in `structuredContent`.

A schema permits additional members, because later versions may add members to a result. Each schema also
describes the result for an error.
"""

from __future__ import annotations

from typing import Any, TypeAlias

Schema: TypeAlias = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_TEXT_OR_NULL: Schema = {"type": ["string", "null"]}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_COUNT_OR_NULL: Schema = {"type": ["integer", "null"], "minimum": 0}
_TIME: Schema = {"type": ["string", "null"], "description": "RFC 3339, or null if unknown"}


def _make_array(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _object(properties: Schema, required: str) -> Schema:
    return {"type": "object", "properties": properties, "required": required.split()}


_FINDINGS = _make_array(
    _object({"rule": _TEXT, "action": {"enum": ["allow", "warn", "refuse"]}, "detail": _TEXT}, "rule action")
)
_ENTRY: Schema = {
    "name": _TEXT,
    "url": {**_TEXT_OR_NULL, "description": "can be passed to fetch or list"},
    "kind": {**_TEXT, "description": "document, directory, article, group, search, link, error, …"},
    "size": _COUNT_OR_NULL,
    "modified": _TIME,
    "title": _TEXT_OR_NULL,
    "extra": {"type": "object", "description": "further facts of the scheme"},
}
_PAGE: Schema = {
    "position": {**_COUNT, "description": "index of the first character, entry or byte of this page"},
    "total": {**_COUNT, "description": "characters, entries or bytes of all pages"},
    "next_cursor": {**_TEXT_OR_NULL, "description": "pass it as cursor for the next page; null on the last"},
    "next": {**_TEXT, "description": "how to get the next page; absent on the last page"},
    "entries": _make_array(_object(_ENTRY, "name url kind size modified title")),
    "complete": {"type": "boolean", "description": "false if further entries were left out"},
}
_ERROR: Schema = {
    "url": _TEXT_OR_NULL,
    "error": _object({"code": _TEXT, "message": _TEXT, "rule": _TEXT}, "code message"),
    "exit": {**_COUNT, "description": "exit status of the command resolve for this error"},
    "retryable": {"type": "boolean"},
    "shortened": {"type": "boolean", "description": "whether long texts were truncated"},
}


#: The members of a page of `fetch` and of a page of `list`. A cursor is valid for both tools.
_PAGE_MEMBERS = "url form position total next_cursor", "url complete entries position total next_cursor"


def _result(properties: Schema, *required: str) -> Schema:
    """Return the output schema of a tool: the members of each kind of success, and of an error."""
    return {
        "type": "object",
        "properties": {**_ERROR, **properties},
        "anyOf": [{"required": members.split()} for members in (*required, "error exit")],
    }


OUTPUT_SCHEMAS: dict[str, Schema] = {
    "fetch": _result(
        {
            "requested_url": _TEXT,
            "kind": _TEXT,
            "media_type": _TEXT_OR_NULL,
            "charset": _TEXT_OR_NULL,
            "size": {**_COUNT, "description": "bytes of the resource"},
            "modified": _TIME,
            "title": _TEXT_OR_NULL,
            "target": _TEXT_OR_NULL,
            "verified": {**_make_array(_TEXT), "description": "checks that proved the complete body"},
            "findings": _FINDINGS,
            "chain": {**_make_array({}), "description": "the redirects"},
            "form": {"enum": ["text", "entries", "binary"]},
            "format": {"enum": ["markdown", "source"], "description": "of a text: converted, or as received"},
            **_PAGE,
        },
        *_PAGE_MEMBERS,
    ),
    "list": _result(_PAGE, *_PAGE_MEMBERS),
    "info": _result(_ENTRY, "name url kind size modified title"),
    "explain": _result(
        {
            "scheme": _TEXT_OR_NULL,
            "verdict": {"enum": ["allow", "warn", "refuse"]},
            "proxy": {"description": "the proxy of the connections, or null"},
            "steps": {**_make_array({"type": "object"}), "description": "connections and bytes, in order"},
            "findings": _FINDINGS,
        },
        "url verdict steps",
    ),
    "check": _result(
        {"action": {"enum": ["allow", "warn", "refuse"]}, "findings": _FINDINGS}, "action findings"
    ),
}
