"""`POST /v1/optimize`: a model in, the annotated graph out."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException

from api.openapi import OPTIMIZE
from api.problems import EncodingError
from api.solve import solve
from optimizer.errors import FormatError, OptionError
from optimizer.option_text import parse_option

router = APIRouter(tags=["optimize"])

NAME = "name"
"""Query parameter beside the options: what the result calls the model."""
FORM_FIELDS = ("file", "options")


@router.post("/v1/optimize", **OPTIMIZE)
async def optimize(request: Request) -> Response:
    # Before the body is read: a busy service shall not take in megabytes only to refuse them.
    request.app.state.pool.check_room()
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding != "identity":
        raise EncodingError(f"the body's encoding '{encoding}' is not taken", node="body", alternatives=("identity",))
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    options = _query_options(request)
    name = request.query_params.get(NAME)
    if media_type == "multipart/form-data":
        source, file_name, own = await _form(request)
        options, name = {**own, **options}, name or Path(file_name).stem
    else:
        source = await request.body()
    if not source:
        raise FormatError("the body is empty: send an ONNX model or a JSON graph", node="body")
    settings = request.app.state.settings
    job = partial(solve, source, name or None, _is_json(media_type), options, settings.max_nodes)
    answer = await request.app.state.pool.run(job, settings.request_seconds, partial(_departure, request))
    return Response(answer, media_type="application/json")


def _is_json(media_type: str) -> bool:
    return media_type == "application/json" or media_type.endswith("+json")


def _query_options(request: Request) -> dict[str, Any]:
    """Options from the query string, spelled as in JSON or as the command's flags."""
    query = request.query_params
    return {(name := key.replace("-", "_")): parse_option(name, query.getlist(key)) for key in query if key != NAME}


async def _form(request: Request) -> tuple[bytes, str, dict[str, Any]]:
    """The model (field `file`), its file name, and the options (field `options`, a JSON object) of a multipart body."""
    try:
        async with request.form(max_files=1, max_fields=2) as form:
            for name in form:
                if name not in FORM_FIELDS:
                    raise FormatError(f"unknown form field '{name}'", node="body", alternatives=FORM_FIELDS)
            file, options = form.get("file"), form.get("options", "{}")
            if not isinstance(file, UploadFile):
                raise FormatError("the form needs the model as field 'file'", node="body")
            return await file.read(), file.filename or "", _options_object(options)
    except HTTPException as error:
        raise FormatError(f"not a readable multipart body: {error.detail}", node="body") from error


def _options_object(text: object) -> dict[str, Any]:
    try:
        record = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError) as error:
        raise OptionError(f"'options' is not JSON: {error}", node="body") from error
    if not isinstance(record, dict):
        raise OptionError("'options' must be a JSON object in a plain form field", node="body")
    return record


async def _departure(request: Request) -> None:
    """Returns when the client closes the connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
