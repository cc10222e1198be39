"""Which products end a residual branch, and what that does to random weights."""

from __future__ import annotations

import numpy as np

from optimizer.ir.builder import GraphBuilder
from optimizer.ir.graph import Graph
from optimizer.values.graph_values import graph_values
from optimizer.values.random_arrays import random_inputs, random_weights
from optimizer.values.residual_branches import branch_ends


def blocks(count: int, width: int = 64) -> Graph:
    """x + down(relu(up(norm(x)))), so many times."""
    b = GraphBuilder("blocks")
    x = b.input("x", (1, 1, 64, width))
    for n in range(count):
        y = b.op("ttnn.layer_norm", x, name=f"norm{n}")
        y = b.op("ttnn.relu", b.op("ttnn.linear", y, b.parameter(f"up{n}", (width, width)), name=f"rise{n}"))
        y = b.op("ttnn.linear", y, b.parameter(f"down{n}", (width, width)), name=f"fall{n}")
        y = b.op("ttnn.multiply", y, b.parameter(f"scale{n}", (1, 1, 1, width)), name=f"scaled{n}")
        x = b.op("ttnn.add", y, x, name=f"sum{n}")
    return b.finish(x)


def test_the_last_product_of_every_branch_counts_the_branches_behind_each_other() -> None:
    assert branch_ends(blocks(3)) == {"fall0": 3, "fall1": 3, "fall2": 3}


def test_branches_beside_each_other_do_not_count_for_one_another() -> None:
    b = GraphBuilder("towers")
    ends = []
    for tower in "ab":
        x = b.input(tower, (1, 1, 32, 64))
        y = b.op("ttnn.linear", x, b.parameter(f"w{tower}", (64, 64)), name=f"product{tower}")
        ends.append(b.op("ttnn.add", x, y, name=f"sum{tower}"))

    graph = b.finish(b.op("ttnn.add", *ends, name="both"))

    assert branch_ends(graph) == {"producta": 1, "productb": 1}


def test_a_sum_of_two_products_of_the_same_input_has_no_branch() -> None:
    b = GraphBuilder("two")
    x = b.input("x", (1, 1, 32, 64))
    left, right = (b.op("ttnn.linear", x, b.parameter(f"w{n}", (64, 64)), name=f"p{n}") for n in range(2))

    assert branch_ends(b.finish(b.op("ttnn.add", left, right))) == {}


def test_values_of_a_deep_network_stay_of_unit_size() -> None:
    graph = blocks(32)

    (found,) = graph_values(graph, {**random_weights(graph, 0), **random_inputs(graph, 0)})

    assert 0.5 < np.std(found) < 2.0


def test_a_number_that_is_added_is_no_branch() -> None:
    b = GraphBuilder("number")
    y = b.op("ttnn.linear", b.input("x", (1, 1, 32, 64)), b.parameter("w", (64, 64)), name="y")

    assert branch_ends(b.finish(b.op("ttnn.add", y, scalar=1.0))) == {}
