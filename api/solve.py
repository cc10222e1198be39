"""What a worker process does with one request. Runs outside the event loop; returns the answer's bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from optimizer.device import DeviceSpec
from optimizer.errors import FormatError, OptionError, UnknownNameError
from optimizer.export.annotated_json import dumps
from optimizer.options import Options
from optimizer.pipeline import import_model, optimize

WRAPPED_FIELDS = ("graph", "options")


def solve(source: bytes, name: str | None, wrapped: bool, options: Mapping[str, Any], max_nodes: int) -> bytes:
    """The annotated graph of a model, as the command writes it. Raises TtoptError.

    `name` is the model's (None: `model`, as bytes tell no file name). `wrapped`: the body may be
    `{"graph": ..., "options": {...}}`; `options` (of the query or a form) count more than those.
    """
    if wrapped:
        source, own = unwrapped(source)
        options = {**own, **options}
    chosen = Options.from_mapping(options)
    if chosen.board.endswith(".json"):
        raise OptionError("over HTTP a board is given by name", node="board")
    # The service's limit is on the import alone, so that the result names the options that were asked for.
    model = import_model(source, replace(chosen, max_nodes=min(chosen.max_nodes, max_nodes)), name)
    return dumps(optimize(model, DeviceSpec.load(chosen.board), chosen)).encode()


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
