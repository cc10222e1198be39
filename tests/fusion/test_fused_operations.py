"""Every TTNN op that a region may hold, as a kernel on the DST interpreter, against its definition."""

from __future__ import annotations

from typing import Any

import pytest
from placed_graphs import HEIGHT, placed, shards
from region_witness import POSITIVE, SIGNED, interpret_region

from optimizer.fusion.finding import find_regions
from optimizer.fusion.operations import FUSED_OPS
from optimizer.ir.builder import GraphBuilder
from optimizer.ir.opdef import CostClass
from optimizer.ir.vocabulary import opdef
from optimizer.layouts.tiling import TILE

X = (1, 1, 128, 64)
HOME = shards(X, (4, 1), HEIGHT)
ATTRS: dict[str, list[dict[str, Any]]] = {
    "leaky_relu": [{"negative_slope": 0.1}],
    "elu": [{"alpha": 0.7}],
    "clamp": [{"min": 0.5, "max": 1.0}, {"min": 0.5}, {"max": 1.0}],
    "pow_scalar": [{"exponent": e} for e in (1.0, 2.0, 3.0, 4.0, 0.5, -0.5, -1.0)],
    "rsub": [{"scalar": 1.5}],
    "rdiv": [{"scalar": 1.5}],
    "softmax": [{"dim": 3}, {"dim": -1, "numeric_stable": False}],
    **{name: [{"dim": -1}, {"dim": (3,)}] for name in ("sum", "mean", "max", "min")},
    "layer_norm": [{}, {"epsilon": 0.1}],
    "rms_norm": [{}, {"epsilon": 0.1}],
    "addcmul": [{}, {"value": 0.5}],
    "addcdiv": [{"value": 0.5}],
    "add": [{}, {"activations": ("relu", "tanh"), "input_tensor_b_activations": ("exp",)}],
}
"""Attributes to try where the defaults are not enough."""
SHARPEST = {"ttnn.layer_norm": 0.05, "ttnn.softmax": 0.05}
"""What the error bound may be of a value in the median, where it is more than a few roundings of bf16."""
CASES = [
    (name, attrs)
    for name in sorted(FUSED_OPS)
    if opdef(name).cost_class is not CostClass.MATMUL
    for attrs in ATTRS.get(name.removeprefix("ttnn."), [{}])
]


def mismatches(name: str, attrs: dict[str, Any], shapes: list[tuple[int, ...]]) -> int:
    """Of a region of the op and a copy of its result to DRAM."""
    b = GraphBuilder("op")
    operands = [b.input(f"x{k}", shape) for k, shape in enumerate(shapes)]
    made = b.op(name, *operands, **attrs)
    graph = b.finish(b.op("ttnn.to_memory_config", made))
    region = next(iter(find_regions(placed(graph, {v: HOME for v, s in zip(operands, shapes, strict=True) if s == X}))))
    assert region.ops[0].op == name
    runs = [interpret_region(region, (2, 0), between=between) for between in (POSITIVE, SIGNED)]
    assert [run.elements for run in runs] == [TILE * graph.value(made).shape[-1]] * 2
    assert [run.unlimited for run in runs] == [0, 0]
    assert max(run.sharpness for run in runs) < SHARPEST.get(name, 0.02)
    return sum(run.mismatches for run in runs)


@pytest.mark.parametrize(("name", "attrs"), CASES, ids=str)
def test_operands_of_full_size(name: str, attrs: dict[str, Any]) -> None:
    norm = name.endswith("_norm")
    row = opdef(name)
    shapes = [X, *[(64,) if norm else X] * (row.max_inputs - 1)]
    assert mismatches(name, attrs, shapes) == 0


@pytest.mark.parametrize("other", [(64,), (1, 1, 128, 1), (1, 1)], ids=["row", "column", "scalar"])
@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide", "maximum", "lt"])
def test_smaller_operands_on_either_side(name: str, other: tuple[int, ...]) -> None:
    assert mismatches(f"ttnn.{name}", {}, [X, other]) == 0
    assert mismatches(f"ttnn.{name}", {}, [other, X]) == 0


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide", "maximum", "minimum"])
def test_numbers(name: str) -> None:
    assert mismatches(f"ttnn.{name}", {"scalar": 0.75}, [X]) == 0


def test_a_row_and_a_column_make_a_full_result() -> None:
    assert mismatches("ttnn.where", {"x": None, "y": 0.25}, [X, (1, 1, 128, 1)]) == 0
    assert mismatches("ttnn.where", {"x": None, "y": None}, [X, (64,), (1, 1, 128, 1)]) == 0


@pytest.mark.parametrize(
    ("name", "attrs"),
    [
        ("pow_scalar", {"exponent": 2.5}),
        ("eq", {"scalar": 1.0}),
        ("softmax", {"dim": 2}),
        ("sum", {"dim": 2}),
        ("sum", {"dim": -1, "keepdim": False}),
        ("mean", {}),
        ("add", {"scalar": 1.0, "activations": ("softplus",)}),
    ],
)
def test_what_recipes_do_not_cover_is_left_alone(name: str, attrs: dict[str, Any]) -> None:
    b = GraphBuilder("op")
    x = b.input("x", X)
    made = b.op(f"ttnn.{name}", b.op("ttnn.exp", x), **attrs)
    found = find_regions(placed(b.finish(made), {x: HOME}))
    assert found == ()
