"""Errors as `application/problem+json` (RFC 9457); clients never see a stack trace."""

from __future__ import annotations

import http
import logging
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from optimizer.batch.executor import JobFailure, WorkerDied
from optimizer.errors import TtoptError

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
TYPE_PREFIX = "urn:ttopt:problem:"


CLIENT_CLOSED_REQUEST = 499
"""nginx's status for a client that left; nobody receives it, it is for the access log."""


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


class WorkerLostError(TtoptError):
    """The process that worked on the request ended; another takes its place."""

    code = "worker-lost"
    http_status = 503


def problem(
    request: Request,
    status: int,
    code: str,
    detail: str,
    headers: Mapping[str, str] | None = None,
    **members: Any,
) -> JSONResponse:
    """One problem document. `type` is a URN of the code, whose meaning docs/formats.md gives."""
    content = {
        "type": TYPE_PREFIX + code,
        "title": http.HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "instance": request.url.path,
        "code": code,
        **members,
    }
    return JSONResponse(content, status, media_type=MEDIA_TYPE, headers=dict(headers or {}))


def install(app: FastAPI) -> None:
    """Answer every error of the app with a problem document."""
    app.add_exception_handler(TtoptError, _deliberate)
    app.add_exception_handler(HTTPException, _routing)
    app.add_exception_handler(ClientGone, _left)
    app.add_exception_handler(ClientDisconnect, _left)
    app.add_exception_handler(JobFailure, _failed_job)
    app.add_exception_handler(Exception, _defect)


async def _deliberate(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, TtoptError)
    headers = {"Retry-After": "5"} if error.http_status in (429, 503) else {}
    return problem(
        request,
        error.http_status,
        error.code,
        error.message,
        headers,
        node=error.node,
        limit=error.limit,
        alternatives=list(error.alternatives),
    )


async def _routing(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    code = {404: "not-found", 405: "method-not-allowed"}.get(error.status_code, "http-error")
    return problem(request, error.status_code, code, str(error.detail), error.headers)


async def _left(request: Request, error: Exception) -> Response:
    return Response(status_code=CLIENT_CLOSED_REQUEST)


async def _failed_job(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, JobFailure)
    log.error("defect in a worker while answering %s\n%s", request.url.path, error.traceback)
    return _internal(request)


async def _defect(request: Request, error: Exception) -> JSONResponse:
    log.error("defect while answering %s", request.url.path, exc_info=error)
    return _internal(request)


def _internal(request: Request) -> JSONResponse:
    return problem(request, 500, "internal", "a defect of the service; its log tells more")


def lost(error: WorkerDied) -> WorkerLostError:
    return WorkerLostError(f"{error}; the request may be sent again")
