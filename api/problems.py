"""Errors as `application/problem+json` (RFC 9457); clients never see a stack trace."""

from __future__ import annotations

import http
import json
import logging
import math
import traceback
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Match

from api.wording import as_fields
from optimizer.errors import TtoptError
from optimizer.process.files import encoded

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
TYPE_PREFIX = "urn:ttopt:problem:"
RETRY_SECONDS = 5
RETRY = {"Retry-After": str(RETRY_SECONDS)}
SHOWN_CHARACTERS = 1000
"""Of a request's path."""


CLIENT_CLOSED_REQUEST = 499
"""nginx's status for a client that left; nobody receives it, it is for the access log."""


Members = dict[str, Any]
"""Of a problem document, without `type`, `title` and `instance`, as the table of jobs keeps them."""


class ClientGone(Exception):
    """The client closed the connection while its request was worked on."""


class BusyError(TtoptError):
    """Every worker works and the queue is full."""

    code = "busy"
    http_status = 429


class EncodingError(TtoptError):
    """The body is compressed; only its plain bytes are taken."""

    code = "unsupported-encoding"
    http_status = 415


class TooSlowError(TtoptError):
    """The body does not arrive at the pace that the service asks for."""

    code = "too-slow"
    http_status = 408


class StoreError(TtoptError):
    """The store of jobs cannot be used; this is the operator's to mend."""

    code = "no-store"
    http_status = 503


class NoRoomError(StoreError):
    """The store has no room for what is to go into it."""


class DamagedError(TtoptError):
    """A row of the store does not say what it should."""

    code = "internal"


class ForeignPageError(TtoptError):
    """A page of another site has a browser send this, without a key."""

    code = "foreign-page"
    http_status = 403


class GoneError(TtoptError):
    """A model or result that retention has deleted."""

    code = "gone"
    http_status = 410


class NotFoundError(TtoptError):
    """There is no such job, result or artifact, or it is somebody else's."""

    code = "not-found"
    http_status = 404


class ConflictError(TtoptError):
    """The job is not in the state that this needs."""

    code = "wrong-state"
    http_status = 409


class UnfinishedError(TtoptError):
    """The job is not finished yet."""

    code = "not-finished"
    http_status = 409


class JobFailedError(TtoptError):
    """The job has no result, for reasons of its own."""

    code = "job-failed"
    http_status = 409

    def __init__(self, message: str, problem: Members) -> None:
        super().__init__(message)
        self.problem = problem


class KeyReusedError(TtoptError):
    """An idempotency key came with another request before."""

    code = "key-reused"
    http_status = 422


class UnauthorizedError(TtoptError):
    """The request names no API key, or none that is valid."""

    code = "unauthorized"
    http_status = 401


class RateError(TtoptError):
    """The caller asks more often than it may."""

    code = "rate-limit"
    http_status = 429

    def __init__(self, message: str, *, retry_after: int, limit: int) -> None:
        super().__init__(message, limit=limit)
        self.retry_after = retry_after


class DrainingError(TtoptError):
    """The service is about to end and takes no new work."""

    code = "draining"
    http_status = 503


def members_of(error: TtoptError) -> Members:
    """What a deliberate error says to a client, in text and numbers that can be written."""
    members: Members = {
        "status": error.http_status,
        "code": error.code,
        "detail": as_fields(error.message),
        "node": None if error.node is None else as_fields(error.node),
        "limit": error.limit,
        "alternatives": list(error.alternatives),
    }
    return {name: _writable(value) for name, value in members.items()}


def parked(attempts: int) -> Members:
    """Of a job that nobody tries again by itself."""
    detail = (
        f"the process that worked on this job ended {attempts} times; it is not tried again by itself. "
        "POST to its `retry` queues it again"
    )
    return {"status": 503, "code": "parked", "detail": detail, "limit": attempts}


INTERNAL: Members = {"status": 500, "code": "internal", "detail": "a defect of the service; its log tells more"}


def document(status: int, code: str, detail: str, path: str, **members: Any) -> bytes:
    """One problem as JSON. `type` is a URN of the code, whose meaning docs/formats.md gives.

    Whatever text the request brought can be written: what no UTF-8 holds appears as its escape.
    """
    content = {
        "type": TYPE_PREFIX + code,
        "title": http.HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "instance": quote(path[:SHOWN_CHARACTERS], errors="replace"),
        "code": code,
        **members,
    }
    return json.dumps(_writable(content), ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def _writable(value: Any) -> Any:
    """The same with text that every JSON reader takes, and no number that JSON lacks."""
    if isinstance(value, str):
        return encoded(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, list):
        return [_writable(entry) for entry in value]
    if isinstance(value, dict):
        return {key: _writable(entry) for key, entry in value.items()}
    return value


def problem(
    request: Request,
    status: int,
    code: str,
    detail: str,
    headers: Mapping[str, str] | None = None,
    **members: Any,
) -> Response:
    """One problem as the answer to a request."""
    content = document(status, code, detail, request.scope["path"], **members)
    return Response(content, status, media_type=MEDIA_TYPE, headers=dict(headers or {}))


def install(app: FastAPI) -> None:
    """Answer every error of the app with a problem document."""
    app.add_exception_handler(TtoptError, _deliberate)
    app.add_exception_handler(HTTPException, _routing)
    app.add_exception_handler(ClientGone, _left)
    app.add_exception_handler(ClientDisconnect, _left)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(Exception, _defect)


async def _deliberate(request: Request, error: Exception) -> Response:
    assert isinstance(error, TtoptError)
    headers = {}
    if error.http_status in (429, 503) or isinstance(error, UnfinishedError):
        headers["Retry-After"] = str(getattr(error, "retry_after", RETRY_SECONDS))
    elif isinstance(error, UnauthorizedError):
        headers["WWW-Authenticate"] = 'Bearer realm="ttopt"'
    members = members_of(error)
    if isinstance(error, JobFailedError):
        members["error"] = {"type": TYPE_PREFIX + error.problem["code"], **error.problem}
    return problem(request, headers=headers, **members)


async def _routing(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = {404: "not-found", 405: "method-not-allowed"}.get(error.status_code, "http-error")
    headers = dict(error.headers or {})
    if error.status_code == 405:
        headers["Allow"] = ", ".join(_methods(request))
    return problem(request, error.status_code, code, str(error.detail), headers)


def _methods(request: Request) -> list[str]:
    """All methods of a path; Starlette itself names those of the first route only."""
    routes = [route for router in request.app.state.routers for route in router.routes]
    found = {m for route in routes if route.matches(request.scope)[0] is not Match.NONE for m in route.methods}
    return sorted(found | ({"HEAD"} if "GET" in found else set()))


async def _left(request: Request, error: Exception) -> Response:
    return Response(status_code=CLIENT_CLOSED_REQUEST)


async def _invalid(request: Request, error: Exception) -> Response:
    """A path or query that FastAPI itself finds wrong."""
    assert isinstance(error, RequestValidationError)
    fault = error.errors()[0]
    where, place = map(str, fault["loc"][:2])
    if where == "path":
        return problem(request, 404, "not-found", f"no such {place.replace('_', ' ')}", node=place)
    return problem(request, 422, "bad-option", f"'{place}': {fault['msg']}", node=place)


async def _defect(request: Request, error: Exception) -> Response:
    trace = "".join(traceback.format_exception(error))
    log.error("defect while answering %a\n%s", request.scope["path"], quoted(trace))
    return problem(request, **INTERNAL)


def quoted(text: str) -> str:
    """Text that a request may have a part in, for a log: no line of it can pass for one of the log's own."""
    return "\n".join("  | " + encoded(line).decode() for line in text.splitlines())
