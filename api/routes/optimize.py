"""`POST /v1/optimize`: a model in, the annotated graph out."""

from __future__ import annotations

from functools import partial
from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.types import Receive, Scope, Send

from api.openapi import OPTIMIZE
from api.permissions import Permissions
from api.problems import EncodingError
from api.settings import Settings
from api.solve import Request as Job
from api.solve import solve_files
from api.spool import SpooledFile
from optimizer.errors import FormatError
from optimizer.option_text import parse_option

router = APIRouter(tags=["optimize"])

NAME = "name"
"""Query parameter beside the options: what the result calls the model."""


@router.post("/v1/optimize", **OPTIMIZE)
async def optimize(request: Request) -> Response:
    # Before the body is read: a busy service must not take in megabytes only to refuse them.
    request.app.state.pool.check_room()
    job = _job(request, request.app.state.settings)
    with await request.app.state.spool.body(request.scope, request.receive) as body:
        if not body.size:
            raise FormatError("the body is empty: send an ONNX model or a JSON graph", node="body")
        answer: SpooledFile = request.app.state.spool.file()
        try:
            await _solve(request, job, body, answer)
        except BaseException:
            answer.close()
            raise
    return FileAnswer(answer)


async def _solve(request: Request, job: Job, body: SpooledFile, answer: SpooledFile) -> None:
    """Let a worker write the answer."""
    seconds = request.app.state.settings.request_seconds
    files = (body.descriptor, answer.descriptor)
    await request.app.state.pool.run(
        partial(solve_files, request=job), seconds, partial(_departure, request), descriptors=files
    )
    answer.measure()


class FileAnswer(Response):
    """JSON that lies in a file; sent piece by piece and released afterwards."""

    media_type = "application/json"

    def __init__(self, file: SpooledFile) -> None:
        super().__init__(headers={"content-length": str(file.size)})
        self._file = file

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        with self._file as file:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            async for piece in file.pieces():
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})


def _job(request: Request, settings: Settings) -> Job:
    """What the worker is told; raises for headers and queries that cannot be accepted."""
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding != "identity":
        raise EncodingError(f"the body's encoding '{encoding}' is not taken", node="body", alternatives=("identity",))
    return Job(
        content_type=request.headers.get("content-type", ""),
        name=request.query_params.get(NAME) or None,
        options=_query_options(request),
        max_nodes=settings.max_nodes,
        permissions=Permissions(programs=settings.allow_ttmetal),
    )


def _query_options(request: Request) -> dict[str, Any]:
    """Options from the query string, spelled as in JSON or as the command's flags."""
    query = request.query_params
    return {(name := key.replace("-", "_")): parse_option(name, query.getlist(key)) for key in query if key != NAME}


async def _departure(request: Request) -> None:
    """Returns when the client closes the connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
