"""What `/openapi.json` says of routes whose bodies FastAPI does not parse."""

from __future__ import annotations

from typing import Any

from fastapi import Response

from api.forms import Fields
from api.jobs.documents import JobDocument
from optimizer.export.schema import AnnotatedGraph
from optimizer.importers.json_graph import GraphDocument
from optimizer.options import OptionInfo, option_infos

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


def _parameter(name: str, description: str, schema: dict[str, Any], where: str = "query") -> dict[str, Any]:
    return {"name": name, "in": where, "required": False, "description": description, "schema": schema}


_PRIORITY = _parameter(
    "priority", "jobs of a higher one go first", {"type": "integer", "minimum": -10, "maximum": 10, "default": 0}
)
_WAIT = _parameter(
    "wait",
    "seconds after which a job is answered instead of its result, at most what the service allows",
    {"type": "number", "minimum": 0},
)
_IDEMPOTENCY = _parameter(
    "Idempotency-Key",
    "the same key with the same request again: the same job; with another request: an error",
    {"type": "string", "minLength": 1, "maxLength": 255},
    where="header",
)
_ANY_CALL = {
    "_401": "the service wants an API key",
    "_403": "a page of another site has a browser ask without a key, or an option is not for clients to choose",
    "_429": "the caller asks too often, the queue is full, or too many bodies are on their way",
    "_500": "a defect",
    "_503": "the store cannot be used, or the service is about to end",
}
_BODY_PROBLEMS = _problems(
    _400="the body is not a model or document",
    _408="the body does not keep the least pace",
    _413="the body or the graph exceeds a limit, or the work on it the memory of a worker",
    _415="the body is compressed",
    _422="the model or an option cannot be accepted, or no plan exists",
    **_ANY_CALL,
)
JOB_PROBLEMS = _problems(
    _404="there is no such job of the caller's",
    _410="what this needs is not kept any more",
    _409="the job is not in a state for that; `error` says why one has failed",
    _422="a parameter cannot be accepted",
    **_ANY_CALL,
)
CALL_PROBLEMS = _problems(**_ANY_CALL)
_JOB = {"application/json": {"schema": _inlined(JobDocument.model_json_schema(by_alias=True))}}
_LOCATION = {"Location": {"description": "path of the job", "schema": {"type": "string"}}}
_GRAPH = {"application/json": {"schema": _inlined(AnnotatedGraph.model_json_schema(by_alias=True))}}
_MODEL_BODY = {
    "required": True,
    "content": {
        "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
        "application/json": {"schema": {"anyOf": [_graph_schema(), _WRAPPED]}},
        "multipart/form-data": {"schema": _FORM, "encoding": {"options": {"contentType": "application/json"}}},
    },
}
_BODIES = (
    "The body is an ONNX model (any content type but the two below), a JSON graph, alone or with options, or a "
    "multipart form. Options in the query count more than options in the body."
)

OPTIMIZE: dict[str, Any] = {
    "summary": "Choose layouts for a model",
    "description": f"{_BODIES} The answer is the `graph.json` of `ttopt optimize`. One that takes longer than the "
    "client waits (`wait`) is a job, to be asked for at its `Location`.",
    "response_class": Response,
    "responses": {
        200: {"description": "The annotated graph", "content": _GRAPH},
        202: {"description": "A job that goes on", "content": _JOB, "headers": _LOCATION},
        **_BODY_PROBLEMS,
        **_problems(_409="the job was cancelled", _504="no plan within the time limit"),
    },
    "openapi_extra": {
        "parameters": [_NAME, _PRIORITY, _WAIT, _IDEMPOTENCY, *(_query_parameter(info) for info in option_infos())],
        "requestBody": _MODEL_BODY,
    },
}
"""Keyword arguments of the route's decorator, as those below."""

INSPECT: dict[str, Any] = {
    **OPTIMIZE,
    "summary": "What the importer understands of a model",
    "description": f"{_BODIES} The answer is that of `ttopt inspect`.",
    "responses": {
        **OPTIMIZE["responses"],
        200: {"description": "The inspection", "content": {"application/json": {"schema": {"type": "object"}}}},
    },
}

SUBMIT: dict[str, Any] = {
    "summary": "Have layouts chosen for a model, and ask for them later",
    "description": f"{_BODIES} Equal requests are worked on once.",
    "status_code": 202,
    "response_class": Response,
    "responses": {202: {"description": "The job", "content": _JOB, "headers": _LOCATION}, **_BODY_PROBLEMS},
    "openapi_extra": {
        "parameters": [_NAME, _PRIORITY, _IDEMPOTENCY, *(_query_parameter(info) for info in option_infos())],
        "requestBody": _MODEL_BODY,
    },
}

RESULT: dict[str, Any] = {
    "summary": "The result of a job",
    "response_class": Response,
    "responses": {
        200: {"description": "The annotated graph", "content": _GRAPH},
        304: {"description": "The client has it already (`If-None-Match`)"},
        **JOB_PROBLEMS,
    },
}

ANSWERED_LATER: dict[str, Any] = {
    "response_class": Response,
    "responses": {
        200: {"description": "The answer", "content": {"*/*": {"schema": {}}}},
        202: {"description": "A job that goes on", "content": _JOB, "headers": _LOCATION},
        **_BODY_PROBLEMS,
        **JOB_PROBLEMS,
        **_problems(_504="not done within the time limit"),
    },
}


def result_body(summary: str, fields: Fields) -> dict[str, Any]:
    """Of a route that takes results: one as the body, or a form with these files."""
    files = {name: {"type": "string", "format": "binary"} for name in (*fields.required, *fields.optional)}
    form = {"type": "object", "required": list(fields.required), "properties": files}
    content: dict[str, Any] = {"multipart/form-data": {"schema": form}}
    if len(fields.required) == 1:
        content["application/json"] = {"schema": {"type": "object", "description": "a `graph.json`"}}
    body = {"requestBody": {"required": True, "content": content}}
    return {"summary": summary, **ANSWERED_LATER, "openapi_extra": {"parameters": [_WAIT], **body}}


_EVENT = {
    "type": "object",
    "required": ["event", "data", "id"],
    "properties": {name: {"type": "string"} for name in ("event", "data", "id")},
}

EVENTS: dict[str, Any] = {
    "summary": "What happens to a job, as it happens (server-sent events)",
    "description": "`stage` with `stage`, `fraction`, `detail`; `incumbent` with `objective_ns`, `bound_ns` and `gap`; "
    "`done` with `state`, the last. Events are numbered: with `Last-Event-ID` a client goes on behind that one.",
    "response_class": Response,
    "responses": {
        200: {"description": "Events", "content": {"text/event-stream": {"schema": _EVENT}}},
        **JOB_PROBLEMS,
    },
}
