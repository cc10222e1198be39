"""The emitted program of a plan whose weights lie over the DRAM banks: placed before the run, read where they are."""

from __future__ import annotations

import numpy as np
import pytest
from program_witness import Planned
from ttnn_standin import Refused, Standin

from optimizer.device import DeviceSpec
from optimizer.export.ttnn_py import render, ttnn_program
from optimizer.ir.builder import GraphBuilder
from optimizer.options import Options
from optimizer.result import OptimizedGraph
from tests.plans import planned


@pytest.fixture
def result() -> OptimizedGraph:
    """A linear with a bias and an activation, of one row of tiles."""
    b = GraphBuilder("decode")
    x = b.input("x", (1, 1, 32, 2048))
    weights = [b.parameter("w", (2048, 2048)), b.parameter("b", (2048,))]
    graph = b.finish(b.op("ttnn.linear", x, *weights, name="fc", activation="relu"))
    options = Options.from_mapping({"policy": "global", "weights_in_l1": False})
    found = planned(graph, DeviceSpec.preset("n150"), options)
    assert all(found.layouts[v].is_over_banks for v in ("w", "b"))
    return found


def arrays() -> dict[str, np.ndarray]:
    """Small whole numbers, which bf16 holds."""
    generator = np.random.default_rng(0)
    shapes = {"x": (1, 1, 32, 2048), "w": (2048, 2048), "b": (2048,)}
    return {name: generator.integers(-2, 3, shape).astype(np.float32) for name, shape in shapes.items()}


def test_the_program_brings_them_there_and_computes_the_same(result: OptimizedGraph) -> None:
    program, given = ttnn_program(result), arrays()
    standin = Standin("n150")
    watch = Planned.of(result, program).watch
    run = standin.load(render(program), lambda *told: watch(standin, *told)).run(
        {"x": given["x"]}, {name: given[name] for name in ("w", "b")}
    )
    wanted = np.maximum(given["x"] @ given["w"] + given["b"], 0)
    assert not run.leaks
    np.testing.assert_allclose(run.outputs[0], wanted, rtol=1e-2)


def test_the_same_call_with_the_weight_elsewhere_is_no_program(result: OptimizedGraph) -> None:
    text, given = render(ttnn_program(result)), arrays()
    start = text.index("ttnn.MemoryConfig(", text.index('"w"'))
    end = text.index("\n        ),", start) + len("\n        )")
    moved = text[:start] + "ttnn.DRAM_MEMORY_CONFIG" + text[end:]
    with pytest.raises(Refused, match="input_tensor_b"):
        Standin("n150").load(moved).run({"x": given["x"]}, {name: given[name] for name in ("w", "b")})
