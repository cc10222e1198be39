"""What a worker process does with one request: a file in, a file out."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from api.forms import read_form
from api.permissions import Permissions
from optimizer import logs
from optimizer.deadline import hard_deadline
from optimizer.device import DeviceSpec
from optimizer.errors import FormatError, OptionError, UnknownNameError
from optimizer.export.annotated_json import dumps
from optimizer.files import encoded
from optimizer.options import Options
from optimizer.pipeline import import_model, optimize

WRAPPED_FIELDS = ("graph", "options")


FORM = "multipart/form-data"


@dataclass(frozen=True)
class Request:
    """What a worker is told of a request; the body lies in a file."""

    content_type: str
    name: str | None
    """Of the model (None: the form's file name, else `model`)."""
    options: Mapping[str, Any]
    """Of the query; they count more than those of the body."""
    max_nodes: int
    permissions: Permissions


def solve_files(body: int, answer: int, request: Request) -> None:
    """Solve the body behind one descriptor, write the answer to the other. Raises TtoptError."""
    with open(body, "rb", closefd=False) as file:
        file.seek(0)
        if media_type(request.content_type) == FORM:
            form = read_form(file, request.content_type)
            request = replace(
                request, name=request.name or Path(form.file_name).stem, options={**form.options, **request.options}
            )
            source = form.source
        else:
            source = file.read()
    text = solve(source, request)
    with open(answer, "wb", closefd=False) as file:
        file.write(text)


def solve(source: bytes, request: Request) -> bytes:
    """The annotated graph of a model, as the command writes it. Raises TtoptError.

    A JSON body may be `{"graph": ..., "options": {...}}`.
    """
    if not source:
        raise FormatError("the body is empty: send an ONNX model or a JSON graph", node="body")
    options = request.options
    if is_json(media_type(request.content_type)):
        source, own = unwrapped(source)
        options = {**own, **options}
    chosen = Options.from_mapping(options)
    request.permissions.check(chosen)
    # The service's limit is on the import alone, so that the result names the options that were asked for.
    limited = replace(chosen, max_nodes=min(chosen.max_nodes, request.max_nodes))
    with logs.labelled(worker=os.getpid()), hard_deadline(chosen.time_limit):
        model = import_model(source, limited, request.name or None)
        result = optimize(model, DeviceSpec.load(chosen.board), chosen)
    return encoded(dumps(result))


def media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def is_json(media: str) -> bool:
    return media == "application/json" or media.endswith("+json")


def unwrapped(body: bytes) -> tuple[bytes, dict[str, Any]]:
    """The graph's bytes and options of a JSON body, which is `{graph, options}` or a graph itself."""
    try:
        record = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"not JSON: {error}", node="body") from error
    if not isinstance(record, dict) or "graph" not in record:
        return body, {}
    for key in record:
        if key not in WRAPPED_FIELDS:
            raise UnknownNameError("field beside 'graph'", key, WRAPPED_FIELDS, node="body")
    if not isinstance(record["graph"], dict):
        raise FormatError("'graph' must be an object, a JSON graph", node="body")
    options = record.get("options", {})
    if not isinstance(options, dict):
        raise OptionError("'options' must be an object", node="body")
    return json.dumps(record["graph"]).encode(), options
