"""What of a model's outputs is judged by itself."""

from __future__ import annotations

import numpy as np
import pytest

from optimizer.ir.builder import GraphBuilder
from optimizer.ir.graph import Graph
from optimizer.values.judged import Part, judged_arrays, judged_parts
from optimizer.values.reference.kinds import Array

BOXES, CLASSES, ANCHORS = 4, 6, 50


def one_output(shape: tuple[int, ...]) -> Graph:
    b = GraphBuilder("one")
    return b.finish(b.op("ttnn.relu", b.input("x", shape), name="y"))


def parts(array: Array) -> tuple[Part, ...]:
    graph = one_output(array.shape)
    return judged_parts(graph, {"x": array, "y_out": array})


def detections() -> Array:
    """Boxes in pixels before scores of classes, as detectors return them."""
    noise = np.random.default_rng(0).standard_normal((1, BOXES + CLASSES, ANCHORS))
    noise[:, :BOXES] *= 200
    return noise


def test_boxes_in_pixels_and_scores_are_two_parts() -> None:
    found = parts(detections())

    assert [(p.dim, p.slices) for p in found] == [(1, (4, 5, 6, 7, 8, 9)), (1, (0, 1, 2, 3))]
    assert [p.text() for p in found] == ["4 to 9 along dim 1", "0 to 3 along dim 1"]


def test_slices_of_one_scale_are_one_part() -> None:
    assert parts(np.random.default_rng(0).standard_normal((1, 10, 50))) == (Part("y_out"),)


def test_slices_that_hardly_differ_from_a_constant_have_no_scale() -> None:
    array = np.random.default_rng(0).standard_normal((1, 10, 50))
    array[:, 3] = 100 + 1e-3 * array[:, 3]

    assert len(parts(array)) == 1


def test_the_numbers_of_a_part_go_back_where_they_were() -> None:
    array = detections()

    back = sum(part.back(part.of(array), array.shape) for part in parts(array))

    assert np.array_equal(back, array)


@pytest.mark.parametrize(("scale", "judged"), [(100.0, ["shares_out", "y_out"]), (0.1, ["shares_out"])])
def test_what_a_saturated_softmax_is_made_of_is_judged_too(scale: float, judged: list[str]) -> None:
    b = GraphBuilder("classifier")
    graph = b.finish(b.op("ttnn.softmax", b.op("ttnn.relu", b.input("x", (32, 64)), name="y"), name="shares"))
    logits = scale * np.random.default_rng(0).standard_normal((32, 64))
    shares = np.exp(logits - logits.max(axis=-1, keepdims=True))
    shares /= shares.sum(axis=-1, keepdims=True)

    found = judged_parts(graph, {"x": logits, "y_out": logits, "shares_out": shares})

    assert sorted({p.value for p in found}) == judged
    assert all((p.before == "shares_out") is (p.value == "y_out") for p in found)


def test_values_inside_are_taken_from_the_run() -> None:
    b = GraphBuilder("classifier")
    graph = b.finish(b.op("ttnn.softmax", b.op("ttnn.relu", b.input("x", (2, 2)), name="y"), name="shares"))
    ones, twos = np.ones((2, 2)), np.full((2, 2), 2.0)

    def run(seen):
        seen(graph.op("y"), [ones])
        return [twos]

    found = judged_arrays([Part("shares_out"), Part("y_out", before="shares_out")], graph.outputs, run)

    assert [a[0, 0] for a in found] == [2.0, 1.0]
