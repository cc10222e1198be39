"""What the op-specific parameters of a candidate depend on."""

from __future__ import annotations

import pytest

from optimizer.device import DeviceSpec
from optimizer.ir.builder import GraphBuilder
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Attr
from optimizer.layouts.op_config import (
    MatmulMultiCoreReuseMultiCast1DProgramConfig,
    MatmulMultiCoreReuseMultiCastProgramConfig,
)
from optimizer.opmodel.cached import CachedOpModel
from optimizer.opmodel.registry import create
from optimizer.options import Options
from optimizer.pipeline import prepare

N150 = DeviceSpec.preset("n150")


@pytest.mark.parametrize(
    ("dtype", "attrs", "narrow", "wide"),
    [
        (DType.BF16, {}, 8, 4),
        (DType.F32, {}, 4, 4),
        (DType.BF16, {"math_fidelity": "hifi4"}, 4, 4),
        (DType.BF16, {"compute": (("fid", "HiFi4"), ("fp32", True), ("l1acc", True))}, 4, 4),
        (DType.BF16, {"compute": (("fid", "HiFi2"), ("fp32", False), ("l1acc", True))}, 8, 8),
    ],
)
def test_subblocks_fit_the_destination_registers(dtype: DType, attrs: dict[str, Attr], narrow: int, wide: int) -> None:
    """Half as many output tiles where they are summed in 32 bits: long sums, 32-bit operands, the op's own config."""
    b = GraphBuilder("g")
    operands = b.input("x", (1, 1, 512, 512), dtype), b.parameter("w", (512, 512), dtype)
    graph = b.finish(b.op("ttnn.matmul", *operands))
    op = next(graph.ops()).with_attrs(**attrs)
    graph.replace_op(op)
    model = CachedOpModel(create("analytical", N150, Options().l1_small_bytes))

    legal = prepare(graph, model, Options(activations_dtype=None)).legal[op.id]

    configs = [
        c.config
        for c in legal.sharded
        if isinstance(
            c.config, MatmulMultiCoreReuseMultiCast1DProgramConfig | MatmulMultiCoreReuseMultiCastProgramConfig
        )
    ]
    for limit, some in (
        (narrow, [c for c in configs if c.in0_block_w <= 4]),
        (wide, [c for c in configs if c.in0_block_w > 4]),
    ):
        assert max(c.out_subblock_h * c.out_subblock_w for c in some) == limit


@pytest.mark.parametrize("shape", [(1, 1, 512, 512), (2, 3, 77, 96), (1, 1, 32, 4096)])
def test_interleaved_results_of_matmuls_have_program_configs_over_the_grid(shape: tuple[int, ...]) -> None:
    """Of each kind, in DRAM and in L1; what the OpModel accepts is what they say."""
    b = GraphBuilder("g")
    graph = b.finish(b.op("ttnn.linear", b.input("x", shape), b.parameter("w", (shape[-1], 640)), name="fc"))
    problem = prepare(graph, CachedOpModel(create("analytical", N150, Options().l1_small_bytes)), Options())
    op = problem.graph.op("fc")
    operands = problem.pricer.default_operands(op)

    accepted = [
        c
        for c in problem.legal["fc"].programmed
        if (answer := problem.pricer.constraints(op, operands, c.config, c.request)).valid
        and answer.outputs[0].layout == c.output
    ]

    kinds = {(type(c.config), c.output.is_l1, getattr(c.config, "mcast_in0", None)) for c in accepted}
    assert {(kind, l1) for kind, l1, _ in kinds} == {
        (kind, l1)
        for kind in (MatmulMultiCoreReuseMultiCast1DProgramConfig, MatmulMultiCoreReuseMultiCastProgramConfig)
        for l1 in (False, True)
    }
    assert not any(c.output.is_sharded for c in accepted)


def test_a_batched_second_operand_has_no_program_configs() -> None:
    b = GraphBuilder("g")
    graph = b.finish(b.op("ttnn.matmul", b.input("x", (1, 4, 64, 64)), b.input("y", (1, 4, 64, 64)), name="mm"))
    problem = prepare(graph, CachedOpModel(create("analytical", N150, Options().l1_small_bytes)), Options())
    assert problem.legal["mm"].programmed == ()
