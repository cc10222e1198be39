"""What `/openapi.json` says of routes whose bodies FastAPI does not parse."""

from __future__ import annotations

from typing import Any

from fastapi import Response

from optimizer.export.schema import AnnotatedGraph
from optimizer.importers.json_graph import GraphDocument
from optimizer.option_text import OptionInfo, option_infos

_TYPES = {bool: "boolean", int: "integer", float: "number", str: "string"}


def _option_schema(info: OptionInfo) -> dict[str, Any]:
    if info.kind is dict:
        shape = {"type": "array", "items": {"type": "integer", "minimum": 1}}
        return {"type": "object", "additionalProperties": shape, "description": info.help}
    kind = _TYPES[info.kind]
    schema: dict[str, Any] = {"type": [kind, "null"] if info.nullable else kind, "description": info.help}
    if info.choices:
        schema["enum"] = [*info.choices, None] if info.nullable else list(info.choices)
    return {**schema, "default": info.default}


def _query_parameter(info: OptionInfo) -> dict[str, Any]:
    """In the query a shape is text, and may be given for several inputs."""
    schema = _option_schema(info)
    if info.kind is dict:
        schema = {"type": "array", "items": {"type": "string", "examples": [info.example]}}
    return {"name": info.name, "in": "query", "required": False, "description": info.help, "schema": schema}


OPTIONS_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {info.name: _option_schema(info) for info in option_infos()},
    "additionalProperties": False,
}

PROBLEM_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["type", "title", "status", "detail", "instance", "code"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "instance": {"type": "string"},
        "code": {"type": "string"},
        "node": {"type": ["string", "null"], "description": "the place in the model, the option, or `body`"},
        "limit": {"description": "the limit that was hit"},
        "alternatives": {"type": "array", "items": {"type": "string"}, "description": "what would be accepted"},
    },
}


def _graph_schema() -> dict[str, Any]:
    return _inlined(GraphDocument.model_json_schema(by_alias=True))


def _inlined(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema without `$defs`: references resolved in place, as OpenAPI has no place for them here."""
    definitions = schema.pop("$defs", {})

    def resolve(part: Any) -> Any:
        if isinstance(part, list):
            return [resolve(p) for p in part]
        if not isinstance(part, dict):
            return part
        if "$ref" in part:
            return resolve(definitions[part["$ref"].rpartition("/")[2]])
        return {k: resolve(v) for k, v in part.items()}

    resolved: dict[str, Any] = resolve(schema)
    return resolved


def _problems(**descriptions: str) -> dict[int | str, dict[str, Any]]:
    content = {"application/problem+json": {"schema": PROBLEM_SCHEMA}}
    return {int(code[1:]): {"description": text, "content": content} for code, text in descriptions.items()}


_WRAPPED = {
    "type": "object",
    "required": ["graph"],
    "additionalProperties": False,
    "properties": {"graph": _graph_schema(), "options": OPTIONS_SCHEMA},
}
_FORM = {
    "type": "object",
    "required": ["file"],
    "properties": {"file": {"type": "string", "format": "binary"}, "options": OPTIONS_SCHEMA},
}

_NAME = {
    "name": "name",
    "in": "query",
    "required": False,
    "description": "what the result calls the model (default: the form's file name, else `model`)",
    "schema": {"type": "string"},
}

OPTIMIZE: dict[str, Any] = {
    "summary": "Choose layouts for a model",
    "description": "The body is an ONNX model (any content type but the two below), a JSON graph, alone or with "
    "options, or a multipart form. Options in the query count more than options in the body. The answer is the "
    "`graph.json` of `ttopt optimize`.",
    "response_class": Response,
    "responses": {
        200: {
            "description": "The annotated graph",
            "content": {"application/json": {"schema": _inlined(AnnotatedGraph.model_json_schema(by_alias=True))}},
        },
        **_problems(
            _400="the body is not a model or document",
            _403="an option that the operator does not let clients choose",
            _408="the body does not keep the least pace",
            _413="the body or the graph exceeds a limit, or the work on it the memory of a worker",
            _415="the body is compressed",
            _422="the model or an option cannot be accepted, or no plan exists",
            _429="every worker is busy and the queue is full, or too many bodies are on their way",
            _500="a defect, or a plan that failed verification",
            _503="the worker process ended, or the spool folder cannot be written",
            _504="the time limit of a request",
        ),
    },
    "openapi_extra": {
        "parameters": [_NAME, *(_query_parameter(info) for info in option_infos())],
        "requestBody": {
            "required": True,
            "content": {
                "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
                "application/json": {"schema": {"anyOf": [_graph_schema(), _WRAPPED]}},
                "multipart/form-data": {"schema": _FORM, "encoding": {"options": {"contentType": "application/json"}}},
            },
        },
    },
}
"""Keyword arguments of the route's decorator."""
