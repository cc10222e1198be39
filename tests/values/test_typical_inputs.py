"""Inputs as models get them: what they are for is read off the graph."""

from __future__ import annotations

import numpy as np
import pytest

from optimizer.ir.builder import GraphBuilder
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Graph
from optimizer.values.typical_inputs import Meaning, meaning_of, typical_inputs


def masked(name: str = "m") -> Graph:
    """Scores that a mask of ones and zeros hides: (1 - m) * -10,000 is added to them."""
    b = GraphBuilder("masked")
    scores, m = b.input("scores", (1, 1, 32, 32)), b.input(name, (1, 1, 1, 32), DType.I32)
    hidden = b.op("ttnn.rsub", b.op("ttnn.typecast", m, dtype="bf16", name="cast"), scalar=1.0, name="hidden")
    added = b.op("ttnn.add", scores, b.op("ttnn.multiply", hidden, scalar=-1e4, name="far"), name="added")
    return b.finish(b.op("ttnn.softmax", added, name="shares"))


def angles(shape: tuple[int, ...], dtype: DType = DType.I32) -> Graph:
    b = GraphBuilder("angles")
    t = b.input("t", shape, dtype)
    x = t if dtype.is_float else b.op("ttnn.typecast", t, dtype="f32", name="cast")
    return b.finish(b.op("ttnn.sin", b.op("ttnn.multiply", x, scalar=0.5, name="angle"), name="sin"))


def test_a_mask_of_ones_lets_everything_through() -> None:
    graph = masked()

    assert meaning_of(graph, "m") is Meaning.SHOWN
    assert np.all(typical_inputs(graph, 0)["m"] == 1)


def test_a_mask_that_is_added_to_scores_is_zero() -> None:
    b = GraphBuilder("added")
    x, m = b.input("x", (1, 8, 32, 64)), b.input("m", (1, 1, 32, 32))
    scores = b.op("ttnn.matmul", x, x, transpose_b=True, name="scores")
    graph = b.finish(b.op("ttnn.softmax", b.op("ttnn.add", scores, m, name="masked"), name="shares"))

    assert [meaning_of(graph, v) for v in ("m", "x")] == [Meaning.ADDED, Meaning.OTHER]
    assert not typical_inputs(graph, 0)["m"].any()


def test_positions_count_from_other_offsets_in_other_samples() -> None:
    graph = angles((1, 64))

    firsts = [int(typical_inputs(graph, 0, k)["t"][0, 0]) for k in range(8)]

    assert len(set(firsts)) == 8
    assert np.array_equal(typical_inputs(graph, 0, 2)["t"][0], firsts[2] + np.arange(64))


@pytest.mark.parametrize("dtype", [DType.I32, DType.BF16])
def test_time_steps_are_taken_over_their_range(dtype: DType) -> None:
    graph = angles((1,), dtype)

    steps = [float(typical_inputs(graph, 0, k)["t"][0]) for k in range(8)]

    assert meaning_of(graph, "t") is Meaning.STEP
    assert min(steps) < 10 < 990 < max(steps)


def test_positions_stay_within_the_table_that_they_index() -> None:
    b = GraphBuilder("table")
    ids = b.input("position_ids", (1, 32), DType.U32)
    graph = b.finish(b.op("ttnn.embedding", ids, b.parameter("table", (64, 32)), name="rows"))

    for sample in range(8):
        assert typical_inputs(graph, 0, sample)["position_ids"].max() < 64


def test_pixels_of_an_image_are_like_their_neighbours() -> None:
    b = GraphBuilder("image")
    graph = b.finish(b.op("ttnn.relu", b.input("x", (1, 3, 64, 64)), name="y"))

    image = typical_inputs(graph, 0)["x"]

    assert np.corrcoef(image[..., 1:].ravel(), image[..., :-1].ravel())[0, 1] > 0.5
    assert 0.3 < image.std() < 3.0


def test_samples_differ_and_come_again_alike() -> None:
    b = GraphBuilder("plain")
    graph = b.finish(b.op("ttnn.relu", b.input("x", (32, 32)), name="y"))

    first, again, other = (typical_inputs(graph, 0, k)["x"] for k in (0, 0, 1))

    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
