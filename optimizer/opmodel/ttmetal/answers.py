"""Between the optimizer's types and the worker's JSON: questions, answers, and the text they are kept as."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from optimizer.errors import OpModelError
from optimizer.layouts.memory_config import PageLayout
from optimizer.opmodel.answer_records import canonical
from optimizer.opmodel.base import OpConstraints, Rejection, TensorSpec
from optimizer.opmodel.rows import memory_to_row, tensor_from_row
from optimizer.opmodel.ttmetal.child import Message
from optimizer.process.json_document import Node

_PAGES = {PageLayout.TILE: "tile", PageLayout.ROW_MAJOR: "rm"}


def input_record(tensor: TensorSpec) -> dict[str, Any]:
    """An operand as rows describe it (docs/formats.md)."""
    record = {"shape": list(tensor.shape), "dtype": tensor.dtype.value, "layout": _PAGES[tensor.layout.page_layout]}
    if tensor.layout.is_host:
        return {**record, "host": True}
    return {**record, **memory_to_row(tensor.layout.memory)}


@lru_cache(maxsize=65_536)
def input_text(tensor: TensorSpec) -> str:
    """The canonical text of an operand; plans ask about the same tensors again and again."""
    return canonical(input_record(tensor))


def question_text(inputs: tuple[TensorSpec, ...], call: str) -> str:
    """Canonical text of a question; equals `canonical({"call": call, "inputs": [...]})`."""
    return f'{{"call":{json.dumps(call)},"inputs":[{",".join(map(input_text, inputs))}]}}'


def request(question: str) -> Message:
    """The worker's request for a question text."""
    return {"kind": "query", "mode": "normal", **json.loads(question)}


def answer_text(message: Message) -> str:
    """What is kept of a worker's answer. OpModelError when the question itself was wrong."""
    if "bad_request" in message:
        raise OpModelError(f"tt-metal cannot be asked so: {message['bad_request']}")
    if not message["valid"]:
        kept = {k: message[k] for k in ("kind", "error", "where", "seconds") if message.get(k) is not None}
        return canonical({"valid": False, **kept})
    outputs = [{k: v for k, v in out.items() if k != "padded"} for out in message["outputs"]]
    kept = {k: message[k] for k in ("peak_cb", "peak_l1", "peak_total")}
    return canonical({"valid": True, "outputs": outputs, "cores": _cores(message), **kept})


def _cores(message: Message) -> int:
    """Cores of the widest program, else of the widest sharded result, else one (a view)."""
    programs: list[int] = [cores for _, buffers in message["programs"] for _, _, cores, _ in buffers]
    shards: list[int] = [
        (x1 - x0 + 1) * (y1 - y0 + 1) for out in message["outputs"] for x0, y0, x1, y1 in out.get("grid", ())
    ]
    return max([1, *programs, *([] if programs else shards)])


def constraints_from(text: str) -> tuple[OpConstraints, float | None]:
    """An answer text as the optimizer's type, and the limit in seconds that a `timeout` is about.

    Raises KeyError, TypeError or ValueError when the text is no answer.
    """
    record = json.loads(text)
    if not record["valid"]:
        answer = OpConstraints.rejected(Rejection(record["kind"]), record.get("error") or "refused")
        return answer, record.get("seconds")
    answer = OpConstraints(
        valid=True,
        outputs=tuple(tensor_from_row(Node(out, "answer")) for out in record["outputs"]),
        cb_bytes=record["peak_cb"],
        l1_peak_bytes=record["peak_l1"],
        peak_bytes=record["peak_total"],
        cores=record["cores"],
    )
    return answer, None
