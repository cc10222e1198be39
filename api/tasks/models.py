"""A model in, its annotated graph out."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from api.jobs.records import Task
from api.tasks.work import JSON_MEDIA_TYPE, Done, Work
from optimizer.answers.inspection import inspection
from optimizer.device import DeviceSpec
from optimizer.errors import FormatError, LimitError, OptionError, UnknownNameError
from optimizer.export.annotated_json import dumps
from optimizer.options import Options
from optimizer.pipeline import import_model, optimize
from optimizer.pipeline.learned import learned_here
from optimizer.process import logs
from optimizer.process.deadline import hard_deadline
from optimizer.process.files import encoded
from optimizer.process.garbage import rare_collections
from optimizer.process.json_document import decoded
from optimizer.result import OptimizedGraph

LONGEST_NAME = 200
"""Of a model, where jobs are listed."""
WRAPPED_FIELDS = ("graph", "options")
FORM = "multipart/form-data"
_GAP = re.compile(r"[ \t\n\r]*")
"""White space between values of a JSON document."""
OPTIONS_BYTES = 64 * 1024
"""Of all options of a request, as JSON."""


@rare_collections()
def optimize_model(task: Task, work: Work) -> Done:
    """The annotated graph of a model, as the command writes it. Raises TtoptError.

    A JSON body may be `{"graph": ..., "options": {...}}`.
    """
    source, task = given(task, work)
    chosen = Options.from_mapping(task.options)
    task.permissions.check(chosen)
    # The service's limit is on the import alone, so that the result names the options that were asked for.
    limited = replace(chosen, max_nodes=min(chosen.max_nodes, task.max_nodes))
    limit = min(chosen.time_limit or math.inf, work.soft_seconds)
    with logs.labelled(worker=os.getpid()), hard_deadline(limit, work.spent_seconds()):
        # The pipeline tells of its stages; by then a large model may have been read for long.
        work.tell("stage", {"stage": "import", "fraction": 0.0, "detail": ""})
        model = import_model(source, limited, task.name)
    with logs.labelled(worker=os.getpid()):
        board = DeviceSpec.load(chosen.board)
        learned = learned_here(chosen.opmodel, board, chosen.l1_small_bytes)
        result = optimize(model, board, chosen, work.teller(), time_limit=limit, learned=learned, began=work.began)
    work.write(encoded(dumps(result)))
    return Done(_facts(result), repeatable=result.summary.stopped is None)


def inspect_model(task: Task, work: Work) -> Done:
    """What `ttopt inspect` answers."""
    source, task = given(task, work)
    chosen = Options.from_mapping(task.options)
    limited = replace(chosen, max_nodes=min(chosen.max_nodes, task.max_nodes))
    with hard_deadline(chosen.time_limit):
        record = inspection(source, limited, task.name)
    return work.answer_json(record)


def given(task: Task, work: Work) -> tuple[bytes, Task]:
    """The model's bytes, and the task with the options that came beside them."""
    source = work.body()
    if not is_json(media_type(task.content_type)):
        return source, task
    source, own = unwrapped(source)
    return source, replace(task, options={**own, **task.options})


def media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def is_json(media: str) -> bool:
    return media == "application/json" or media.endswith("+json")


def unwrapped(body: bytes) -> tuple[bytes, dict[str, Any]]:
    """The graph's bytes and options of a JSON body, which is `{graph, options}` or a graph itself."""
    record = decoded(body, "body")
    if not isinstance(record, dict):
        raise FormatError("the JSON document must be an object", node="body")
    if "graph" not in record:
        return body, {}
    for key in record:
        if key not in WRAPPED_FIELDS:
            raise UnknownNameError("field beside 'graph'", key, WRAPPED_FIELDS, node="body")
    if not isinstance(record["graph"], dict):
        raise FormatError("'graph' must be an object, a JSON graph", node="body")
    options = record.get("options", {})
    if not isinstance(options, dict):
        raise OptionError("'options' must be an object", node="body")
    return _text_of_graph(body), bounded(options)


def _text_of_graph(body: bytes) -> bytes:
    """The graph in a JSON body that is read already, byte for byte as the client wrote it."""
    text, decoder = body.decode("utf-8-sig"), json.JSONDecoder()
    at = text.index("{") + 1
    while True:
        key, end = decoder.raw_decode(text, text.index('"', at))
        begin = _GAP.match(text, text.index(":", end) + 1).end()  # type: ignore[union-attr]
        _, at = decoder.raw_decode(text, begin)
        if key == "graph":
            return text[begin:at].encode()


def bounded(options: Mapping[str, Any]) -> dict[str, Any]:
    """The same options; LimitError if they are longer than any request needs."""
    if len(json.dumps(options)) > OPTIONS_BYTES:
        raise too_many_options()
    return dict(options)


def too_many_options() -> LimitError:
    return LimitError(f"options may take {OPTIONS_BYTES} bytes", node="options", limit=OPTIONS_BYTES)


def _facts(result: OptimizedGraph) -> dict[str, Any]:
    summary = result.summary
    return {
        "media_type": JSON_MEDIA_TYPE,
        "file_name": "graph.json",
        "model": encoded(str(result.model.get("name", ""))[:LONGEST_NAME]).decode(),
        "board": result.options.board,
        "policy": result.options.policy,
        "predicted_time_ns": summary.predicted_time_ns,
        "status": summary.status,
        "gap": summary.gap,
        "stopped": result.summary.stopped,
        "stages_s": result.timings["stages_s"],
    }
