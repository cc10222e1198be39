"""Finished plans, corrupted: the kinds that `ttopt check` has to see, and mutations of documents at random.

`python benchmarks/fuzzing/plan_corruptions.py` prints every kind and what sees it.
"""

from __future__ import annotations

import copy
import json
import random
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from fuzzing.harness import Case
from fuzzing.plans import figure_kinds, graph_kinds, layout_kinds
from fuzzing.plans.kinds import KINDS, Corruption, Document, Seen, sealed, walk
from fuzzing.plans.samples import SAMPLES
from optimizer.answers.checking import check_record
from optimizer.export.reader import read_result

__all__ = ["KINDS", "SAMPLES", "Corruption", "PlanTarget", "Seen", "figure_kinds", "graph_kinds", "layout_kinds"]

Mutator = Callable[[Document, random.Random], None]
NUMBERS: tuple[Any, ...] = (
    0, 1, -1, 2, 7, 31, 32, 33, 63, 64, 4096, 2**16, 2**31 - 1, 2**31, 2**40, 2**53 + 1, 10**29, 10**40, -(2**63),
    0.5, -0.0, 1e-320, 1e308,
)  # fmt: skip
ODD: tuple[Any, ...] = (
    *NUMBERS, None, True, False, "", "x", "n150", "l1", "dram", "host", "tile", "bfp8_b", "u32", "input", "parameter",
    "constant", "activation", "ttnn.matmul", "ttnn.conv2d", "ttnn.split", "ttnn.no_such", "\ud800", "a\nb", "\x00", [],
    {}, [[]], [None], [1, 2], [0, 0, 63, 63], [10**9, 10**9], {"kind": "conv2d"}, {"kind": "in_place", "operand": 1},
)  # fmt: skip
OTHER_WORDS = {
    "kind": ("input", "parameter", "constant", "activation"),
    "role": ("compute", "reshard", "spill", "load", "layout", "view", "transfer", "host"),
    "buffer_type": ("dram", "l1", "host"),
    "memory_layout": ("interleaved", "height_sharded", "width_sharded", "block_sharded"),
    "tensor_layout": ("tile", "row_major"),
    "orientation": ("row_major", "col_major"),
    "dtype": ("f32", "bf16", "bfp8_b", "bfp4_b", "u32", "i32", "u16", "u8"),
    "state": ("completed", "failed", "built"),
    "spill_location": ("none", "dram", "l1_interleaved"),
    "status": ("optimal", "feasible", "fallback"),
    "op": ("ttnn.add", "ttnn.matmul", "ttnn.reshape", "ttnn.conv2d", "ttnn.softmax", "ttnn.to_layout", "ttnn.sort"),
    "policy": ("dram", "global", "tt-mlir"),
}
"""Field -> values that the schema takes."""
KEPT = ("values", "ops", "model", "device", "options", "summary", "chains", "reservations", "fused_kernels")


class PlanTarget:
    """Documents given to `read_result` and `check_record`."""

    name = "plans"
    seconds = 30.0
    memory_bytes = 2 << 30

    def __init__(self) -> None:
        for sample in SAMPLES:  # solved once, before workers are forked
            _plan(sample)

    def case(self, rng: random.Random) -> Case:
        """A plan with one corruption of the list, or a few mutations at random places."""
        sample = rng.choice(list(SAMPLES))
        document = plan(sample)
        if rng.random() < 0.3:
            kind = rng.choice(list(KINDS.values()))
            corrupted = kind.corrupted(document, rng)
            if corrupted is not None:
                return Case(f"{sample}: {kind.name}", json.dumps(corrupted).encode())
        names = [*rng.choices(list(TAME), k=rng.choice((0, 0, 1, 2))), rng.choice([*TAME, *TAME, *WILD])]
        for name in names:
            {**TAME, **WILD}[name](document, rng)
        return Case(f"{sample}: {', '.join(names)}", _written(document, rng))

    def run(self, payload: bytes) -> str:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "graph.json"
            path.write_bytes(payload)
            return "accepted" if check_record(read_result(path))["ok"] else "caught"


@cache
def _plan(sample: str) -> str:
    return json.dumps(SAMPLES[sample].document())


def plan(sample: str) -> Document:
    """The plan of a sample."""
    document: Document = json.loads(_plan(sample))
    return document


def _written(document: Document, rng: random.Random) -> bytes:
    """The document as JSON, the digest of its graph put right where that can be said; sometimes broken as text."""
    try:
        sealed(document)
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError):
        return json.dumps(document).encode()
    text = json.dumps(document)
    if rng.random() < 0.05:
        cut = rng.randrange(len(text))
        text = rng.choice((text[:cut], text[:cut] + rng.choice('{}[]",:0-eN\\') + text[cut + 1 :], text + text[cut:]))
    return text.encode()


# -- mutators -------------------------------------------------------------------------------------------------
def _places(document: Document, rng: random.Random) -> tuple[Any, Any]:
    """(container, key) of a place somewhere in one section."""
    section = rng.choice([s for s in KEPT if document.get(s)] or list(document))
    found = [path for path, _ in walk(document[section])][1:] or [()]
    path = (section, *rng.choice(found))
    container: Any = document
    for key in path[:-1]:
        container = container[key]
    return container, path[-1]


def _odd(document: Document, rng: random.Random) -> None:
    container, key = _places(document, rng)
    container[key] = copy.deepcopy(rng.choice(ODD))


def _number(document: Document, rng: random.Random) -> None:
    numbers = [(c, k) for c, k in _leaves(document) if isinstance(c[k], int | float) and not isinstance(c[k], bool)]
    if numbers:
        container, key = rng.choice(numbers)
        old = container[key]
        container[key] = rng.choice((*NUMBERS, old + 1, old - 1, old * 2, -old, old * 32, old // 2))


def _word(document: Document, rng: random.Random) -> None:
    words = [(c, k) for c, k in _leaves(document) if k in OTHER_WORDS]
    if words:
        container, key = rng.choice(words)
        container[key] = rng.choice(OTHER_WORDS[key])


def _id(document: Document, rng: random.Random) -> None:
    """Another value or op where one is named."""
    ids = [*document["values"], *(op["id"] for op in document["ops"] if isinstance(op, dict) and "id" in op)]
    named = [(c, k) for c, k in _leaves(document) if isinstance(c[k], str) and c[k] in ids]
    if named:
        container, key = rng.choice(named)
        container[key] = rng.choice(ids)


def _removed(document: Document, rng: random.Random) -> None:
    container, key = _places(document, rng)
    del container[key]


def _repeated(document: Document, rng: random.Random) -> None:
    lists = [item for _, item in walk(document) if isinstance(item, list) and item]
    if lists:
        chosen = rng.choice(lists)
        chosen += copy.deepcopy(chosen) * rng.choice((1, 1, 3, 50))


def _shuffled(document: Document, rng: random.Random) -> None:
    lists = [item for _, item in walk(document) if isinstance(item, list) and len(item) > 1]
    if lists:
        rng.shuffle(rng.choice(lists))


def _exchanged(document: Document, rng: random.Random) -> None:
    """Two records of one list or section change places."""
    groups = [list(document["values"].values()), document["ops"], document["reservations"], document["chains"]]
    group = [record for record in rng.choice(groups) if isinstance(record, dict)]
    if len(group) > 1:
        one, other = rng.sample(group, 2)
        key = rng.choice([k for k in one if k in other] or [""])
        if key:
            one[key], other[key] = other[key], one[key]


def _deep(document: Document, rng: random.Random) -> None:
    nested: Any = 1
    for _ in range(rng.choice((5, 50, 99, 101, 900))):
        nested = [nested]
    container, key = _places(document, rng)
    container[key] = nested


def _huge(document: Document, rng: random.Random) -> None:
    """A tensor, a constant or a list of cores as large as the schema lets it be."""
    value = rng.choice([v for v in document["values"].values() if isinstance(v, dict)] or [{}])
    layout = value.get("layout") or {}
    rng.choice(
        (
            lambda: value.update(shape=[2**20, 2**20]),
            lambda: value.update(shape=[2**31 - 1] * 8),
            lambda: value.update(shape=[1] * 2000),
            lambda: value.update(kind="constant", data=[0.5] * 300_000),
            lambda: layout.update(core_ranges=[[0, 0, 63, 63]] * 4096, grid_yx=[4096, 4096]),
            lambda: layout.update(shard_shape=[2**31 - 1, 2**31 - 1], grid_yx=[1, 1]),
        )
    )()


def _many(document: Document, rng: random.Random) -> None:
    """Thousands of ops and values more."""
    template = copy.deepcopy(rng.choice([o for o in document["ops"] if isinstance(o, dict)] or [{}]))
    value = {**rng.choice([v for v in document["values"].values() if isinstance(v, dict)] or [{}]), "data": None}
    for n in range(rng.choice((100, 3000))):
        document["ops"].append({**template, "id": f"m{n}", "outputs": [f"mv{n}"]})
        document["values"][f"mv{n}"] = copy.deepcopy(value)


def _leaves(document: Document) -> list[tuple[Any, Any]]:
    """(container, key) of everything that contains nothing."""
    found: list[tuple[Any, Any]] = []
    stack: list[Any] = [document]
    while stack:
        container = stack.pop()
        pairs = container.items() if isinstance(container, dict) else enumerate(container)
        for key, item in pairs:
            if isinstance(item, dict | list):
                stack.append(item)
            else:
                found.append((container, key))
    return found


TAME: dict[str, Mutator] = {
    "number": _number,
    "word": _word,
    "id": _id,
    "exchanged": _exchanged,
    "shuffled": _shuffled,
    "repeated": _repeated,
    "huge": _huge,
    "many": _many,
}
"""Mutators that leave a document which others can mutate further."""
WILD: dict[str, Mutator] = {"odd value": _odd, "removed": _removed, "deep": _deep}

if __name__ == "__main__":
    for corruption in KINDS.values():
        print(f"{corruption.seen.value:6} {corruption.name}" + (f": {corruption.why}" if corruption.why else ""))
