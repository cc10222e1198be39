"""What a result says of fused kernels that nobody has seen compute right values."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from placed_graphs import HEIGHT, N150, placed, shards

from optimizer.fusion import binding, judged
from optimizer.fusion.binding import fused_kernels, savings
from optimizer.fusion.judged import Judged, kinds_of
from optimizer.ir.builder import GraphBuilder
from optimizer.result import OptimizedGraph
from optimizer.wording.plan import judged_texts

X = (1, 1, 128, 64)


def result() -> OptimizedGraph:
    """exp(x) + row, taken to DRAM."""
    b = GraphBuilder("rowed")
    v = b.op("ttnn.add", b.op("ttnn.exp", b.input("x", X)), b.parameter("row", (64,)))
    return placed(b.finish(v), {"x": shards(X, (4, 1), HEIGHT)}, fuse_kernels=True)


def kinds() -> tuple[str, ...]:
    made = result()
    (kernel,) = fused_kernels(made)
    return kinds_of(kernel.region, kernel.lowered, made.layouts)


@pytest.fixture
def record(monkeypatch: pytest.MonkeyPatch) -> Callable[[Judged], None]:
    def replace_by(known: Judged) -> None:
        monkeypatch.setattr(binding, "judged", lambda _arch: known)

    return replace_by


def test_kinds_are_calls_by_the_width_of_dst_and_ways_of_tensors() -> None:
    found = kinds()
    assert "exp_tile into 16 bits" in found
    assert "unary_bcast<BroadcastType::ROW> into 16 bits" in found
    assert "bring full in place, height_sharded" in found
    assert "bring row, dram interleaved" in found
    assert "take full, dram interleaved" in found
    assert list(found) == sorted(set(found))


def test_a_kernel_of_judged_kinds_says_by_what(record: Callable[[Judged], None]) -> None:
    record(Judged("ttnn 1, ttsim 2", frozenset(kinds())))
    made = result()
    (row,) = savings(made, fused_kernels(made))
    assert (row["judged_by"], row["unjudged"]) == ("ttnn 1, ttsim 2", [])
    assert judged_texts([row]) == ["all that the kernels are made of was right by ttnn 1, ttsim 2"]


def test_a_kernel_with_one_kind_more_names_it(record: Callable[[Judged], None]) -> None:
    record(Judged("ttnn 1, ttsim 2", frozenset(kinds()) - {"exp_tile into 16 bits"}))
    made = result()
    (row,) = savings(made, fused_kernels(made))
    assert row["unjudged"] == ["exp_tile into 16 bits"]
    (text,) = judged_texts([row])
    assert text == "NOT JUDGED: exp_add has 1 part(s) nobody has seen give right values: exp_tile into 16 bits"


def test_where_nothing_was_judged_everything_is_missing(record: Callable[[Judged], None]) -> None:
    record(Judged(None, frozenset()))
    made = result()
    (row,) = savings(made, fused_kernels(made))
    assert (row["judged_by"], row["unjudged"]) == (None, list(kinds()))
    assert judged_texts([row])[0].endswith(", ...")


def test_documents_of_older_versions_say_nothing() -> None:
    assert judged_texts([{"kernel": "exp_add"}]) == []


def test_the_record_is_sorted_and_has_versions() -> None:
    text = (judged.files("optimizer.fusion") / judged.RECORD).read_text(encoding="utf-8")
    document = json.loads(text)
    assert text == json.dumps(document, indent=1, sort_keys=True) + "\n"
    known = judged.judged(N150.arch)
    assert known.judged_by is not None
    assert known.judged_by.startswith("ttnn ")
    assert "ttsim " in known.judged_by
    assert document[N150.arch]["kinds"] == sorted(known.kinds)


def test_a_row_broadcast_into_32_bits_is_no_judged_kind() -> None:
    """It is what once made fused kernels wrong (`passes.spread_rows`)."""
    kind = "unary_bcast<BroadcastType::ROW> into 32 bits"
    assert judged.judged(N150.arch).missing([kind]) == [kind]
