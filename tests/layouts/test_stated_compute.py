"""What the calls of a graph's ops state: no gain in the values, at the least time."""

from __future__ import annotations

from typing import Any

import pytest

from optimizer.device import DeviceSpec
from optimizer.errors import UnknownNameError
from optimizer.ir.builder import GraphBuilder
from optimizer.ir.compute_config import Computation, ComputeConfig
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Attr, Graph
from optimizer.ir.vocabulary import op_names, opdef
from optimizer.layouts.memory_config import DRAM_TILE
from optimizer.layouts.op_config import MatmulMultiCoreReuseMultiCastProgramConfig
from optimizer.layouts.stated_compute import stated_compute
from optimizer.opmodel.pricing import op_query
from optimizer.opmodel.registry import create
from optimizer.opmodel.ttnn_calls import call_text
from optimizer.options import Options
from optimizer.pipeline import optimize

N150 = DeviceSpec.preset("n150")
WIDE_HIFI2 = ComputeConfig("hifi2", fp32_dest_acc_en=True, packer_l1_acc=True)
NARROW_HIFI2 = ComputeConfig("hifi2", fp32_dest_acc_en=False, packer_l1_acc=True)


def product(k: int, weights: DType = DType.BF16, activations: DType = DType.BF16, **attrs: Attr) -> Graph:
    b = GraphBuilder("g")
    x, w = b.input("x", (1, 1, 256, k), activations), b.parameter("w", (k, 256), weights)
    return b.finish(b.op("ttnn.matmul", x, w, name="fc", **attrs))


def convolution(weights: DType = DType.BF16, activations: DType = DType.BF16, **attrs: Attr) -> Graph:
    b = GraphBuilder("g")
    x, w = b.input("x", (1, 1, 256, 64), activations), b.parameter("w", (64, 64, 3, 3), weights)
    shape: dict[str, Attr] = {"batch_size": 1, "input_height": 16, "input_width": 16, "kernel_size": (3, 3)}
    shape |= {"in_channels": 64, "out_channels": 64}
    return b.finish(b.op("ttnn.conv2d", x, w, name="conv", **shape, **attrs))


@pytest.mark.parametrize(
    ("k", "block_w", "stated"),
    [
        (128, 0, NARROW_HIFI2),
        (160, 0, WIDE_HIFI2),
        (4096, 0, WIDE_HIFI2),
        (4096, 4, NARROW_HIFI2),
        (4096, 8, WIDE_HIFI2),
        (64, 8, NARROW_HIFI2),
    ],
)
def test_long_sums_of_matmuls_are_32_bits_wide(k: int, block_w: int, stated: ComputeConfig) -> None:
    graph = product(k)
    assert stated_compute(graph, graph.op("fc"), block_w) == stated.attr


@pytest.mark.parametrize(
    ("graph", "op", "fidelity"),
    [
        (product(64), "fc", "hifi2"),
        (product(64, DType.BFP4_B), "fc", "lofi"),
        (product(64, DType.BFP8_B), "fc", "hifi2"),
        (product(64, DType.F32, DType.F32), "fc", "hifi3"),
        (product(64, math_fidelity="lofi"), "fc", "lofi"),
        (convolution(), "conv", "hifi3"),
        (convolution(DType.BFP8_B), "conv", "hifi3"),
        (convolution(DType.BFP8_B, DType.BFP8_B), "conv", "hifi2"),
        (convolution(DType.F32, DType.F32), "conv", "hifi3"),
        (convolution(math_fidelity="lofi"), "conv", "lofi"),
    ],
)
def test_fidelity_is_what_the_operands_bits_need(graph: Graph, op: str, fidelity: str) -> None:
    stated: Any = stated_compute(graph, graph.op(op))
    assert dict(stated)["fid"].lower() == fidelity


@pytest.mark.parametrize("op", [op for op in op_names() if opdef(op).compute is not None and op != "ttnn.upsample"])
def test_operands_in_f32_are_summed_in_f32(op: str) -> None:
    """But for upsampling: tt-metal refuses 32-bit registers where it is bilinear."""
    rule = opdef(op).compute
    assert rule is not None
    stated = rule(Computation((DType.F32,) * 3))
    assert stated.fp32_dest_acc_en


@pytest.mark.parametrize("op", [op for op in op_names() if opdef(op).compute is not None])
@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16, DType.BFP8_B])
def test_nothing_chooses_what_wormhole_gets_wrong(op: str, dtype: DType) -> None:
    """HiFi4 with 32-bit sums (tt-metal #38306)."""
    rule = opdef(op).compute
    assert rule is not None
    stated = rule(Computation((dtype,) * 3, 64))
    assert (stated.math_fidelity, stated.fp32_dest_acc_en) != ("hifi4", True)


def test_a_config_of_the_ops_own_is_kept() -> None:
    """Plans of other compilers are judged with theirs."""
    own = (("fid", "LoFi"), ("fp32", False))
    graph = product(4096)
    graph.replace_op(graph.op("fc").with_attrs(compute=own))

    asked = op_query(graph, graph.op("fc"), [DRAM_TILE, DRAM_TILE], None, DRAM_TILE.memory)

    assert asked.attr["compute"] == own


@pytest.mark.parametrize(("block_w", "wide"), [(4, "False"), (8, "True")])
def test_what_is_emitted_is_what_is_priced(block_w: int, wide: str) -> None:
    """The question of an op carries what its call states; the answer follows it."""
    graph = product(4096)
    config = MatmulMultiCoreReuseMultiCastProgramConfig((8, 8), block_w, 1, 1, 1, 1, fused_activation=None)

    asked = op_query(graph, graph.op("fc"), [DRAM_TILE, DRAM_TILE], config, DRAM_TILE.memory)

    shown = call_text(asked, ["x", "w"])
    assert f"math_fidelity=ttnn.MathFidelity.HiFi2, math_approx_mode=False, fp32_dest_acc_en={wide}" in shown


def test_more_passes_take_longer() -> None:
    """Convolutions are priced by their fidelity as matmuls are: one pass, like two, waits for its operands."""
    model = create("analytical", N150)
    times = []
    for fidelity in ("lofi", "hifi2", "hifi3", "hifi4"):
        graph = convolution(math_fidelity=fidelity)
        op = graph.op("conv")
        asked = op_query(graph, op, [DRAM_TILE, DRAM_TILE], None, DRAM_TILE.memory)
        times.append(model.runtime_ns(asked))
    assert times[0] <= times[1] < times[2] < times[3]


def test_an_op_that_brings_its_own_keeps_it_through_the_pipeline() -> None:
    """As those of other compilers' plans do."""
    own = (("fid", "HiFi4"), ("fp32", False), ("l1acc", True))
    b = GraphBuilder("norm")
    norm = b.op("ttnn.rms_norm", b.input("x", (1, 1, 64, 64)), b.parameter("g", (64,)), name="norm", compute=own)

    result = optimize(b.finish(norm), N150, Options(policy="dram"))

    assert stated_compute(result.graph, result.graph.op("norm")) == own


def test_an_op_without_compute_configs_brings_none() -> None:
    b = GraphBuilder("relu")
    with pytest.raises(UnknownNameError, match=r"attribute of ttnn\.relu 'compute'"):
        b.op("ttnn.relu", b.input("x", (1, 1, 64, 64)), compute=(("fp32", True),))
