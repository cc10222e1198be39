"""Weights over the DRAM banks: taken where that is faster, for weights that one matmul alone reads."""

from __future__ import annotations

import pytest

from optimizer.device import DeviceSpec
from optimizer.ir.builder import GraphBuilder
from optimizer.ir.graph import Graph
from optimizer.layouts.op_config import MatmulMultiCoreReuseMultiCastDRAMShardedProgramConfig
from optimizer.opmodel.registry import create
from optimizer.options import Options
from optimizer.result import OptimizedGraph
from optimizer.verify import verify
from tests.plans import planned

pytestmark = pytest.mark.usefixtures("remembered_answers")

N150 = DeviceSpec.preset("n150")


def mlp(rows: int = 32, shared: bool = False, bias: bool = False, transposed: bool = False) -> Graph:
    """Two wide linears of a decode step, with a weight each or both with the same one."""
    b = GraphBuilder("mlp")
    x = b.input("x", (1, 1, rows, 2048))
    for k in range(2):
        if k == 0 or not shared:
            weights = [b.parameter(f"w{k}", (2048, 2048)), *([b.parameter(f"b{k}", (2048,))] if bias else [])]
        x = b.op("ttnn.linear", x, *weights, name=f"fc{k}", **({"transpose_b": True} if transposed else {}))
    return b.finish(x)


def run(graph: Graph, board: DeviceSpec = N150, **options: object) -> OptimizedGraph:
    chosen = {"policy": "global", "weights_dtype": "bfp8_b", "weights_in_l1": False, **options}
    return planned(graph, board, Options.from_mapping(chosen))


def configs(result: OptimizedGraph) -> list[bool]:
    """Of the two linears, whether each reads from the banks."""
    kind = MatmulMultiCoreReuseMultiCastDRAMShardedProgramConfig
    return [isinstance(result.records[f"fc{k}"].config, kind) for k in range(2)]


@pytest.mark.parametrize("bias", [False, True])
def test_a_decode_step_reads_its_weights_from_the_banks(bias: bool) -> None:
    result = run(mlp(bias=bias))
    assert configs(result) == [True, True]
    weights = ["w0", "w1", *(["b0", "b1"] if bias else [])]
    assert all(result.layouts[v].is_over_banks for v in weights)
    assert {op.id for op in result.graph.ops() if result.graph.is_const_eval(op)} == set()
    report = verify(result, create("analytical", N150, 32768))
    assert report.errors == []
    assert result.summary.predicted_time_ns < run(mlp(bias=bias), policy="dfsharding").summary.predicted_time_ns


@pytest.mark.parametrize(
    "graph",
    [mlp(rows=64), mlp(shared=True), mlp(transposed=True)],
    ids=["two rows of tiles", "a weight with two readers", "a transposed weight"],
)
def test_other_products_keep_their_weights_interleaved(graph: Graph) -> None:
    result = run(graph)
    assert configs(result) == [False, False]
    assert not any(layout.is_over_banks for layout in result.layouts.values())


def test_equal_ops_of_which_one_shares_its_weight_are_told_apart() -> None:
    b = GraphBuilder("three")
    x = b.input("x", (1, 1, 32, 2048))
    own, shared = b.parameter("own", (2048, 2048)), b.parameter("shared", (2048, 2048))
    for k, weight in enumerate((own, shared, shared)):
        x = b.op("ttnn.linear", x, weight, name=f"fc{k}")
    result = run(b.finish(x))
    assert result.layouts["own"].is_over_banks
    assert not result.layouts["shared"].is_over_banks


def test_on_blackhole_several_cores_read_a_bank() -> None:
    result = run(mlp(), DeviceSpec.preset("p150"))
    readers = [getattr(result.records[f"fc{k}"].config, "num_workers_per_dram_bank", 0) for k in range(2)]
    assert min(readers) > 1
    spec = result.layouts["w0"].shard_spec
    assert spec is not None
    assert spec.shape[1] // 32 % readers[0] == 0


def test_weights_that_fit_in_l1_stay_there() -> None:
    result = run(mlp(), weights_in_l1=True)
    assert result.layouts["w0"].is_l1
    assert not any(layout.is_over_banks for layout in result.layouts.values())
