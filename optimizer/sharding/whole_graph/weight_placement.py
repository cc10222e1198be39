"""Where in L1 a weight may stay between runs.

L1 interleaved: over all banks, read over the NoC. A matmul whose program config multicasts operand 0 over one row of
result shards takes operand 1, and a fused bias, sharded like its result: every core then has its columns at home.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from optimizer.ir.graph import Op
from optimizer.layouts.legal_op_configs import OpCandidate
from optimizer.layouts.memory_config import (
    BufferType,
    MemoryConfig,
    ShardSpec,
    TensorLayout,
    TensorMemoryLayout,
    interleaved,
)
from optimizer.layouts.op_config import MatmulMultiCoreReuseMultiCast1DProgramConfig
from optimizer.layouts.tiling import physical_shape
from optimizer.opmodel.pricing import OpPricer


def weight_positions(pricer: OpPricer, op: Op) -> tuple[int, ...]:
    """Operands that are weights and on the device, largest first."""
    default = pricer.default_operands(op)
    found = [k for k, v in enumerate(op.inputs) if pricer.is_weight(v) and default[k].is_dram]
    return tuple(sorted(found, key=lambda k: (-pricer.value_bytes(op.inputs[k], _in_l1(default[k])), k)))


def weight_placements(
    pricer: OpPricer, op: Op, weights: Sequence[int], operands: Sequence[TensorLayout], candidate: OpCandidate
) -> Iterator[tuple[TensorLayout, ...]]:
    """Operand layouts with weights in L1: the largest alone, all of them, and a matmul's as its result is sharded.

    A weight that the op reads twice lies in one place.
    """
    largest = [k for k in weights if op.inputs[k] == op.inputs[weights[0]]]
    places = [{k: _in_l1(operands[k]) for k in positions} for positions in (largest, weights)]
    columns = _matmul_columns(op, candidate)
    if columns is not None and 1 in weights:
        places.append({k: _columns(pricer, op.inputs[k], operands[k], columns) for k in weights if k})
    for k, place in enumerate(places):
        possible = (pricer.copy_accepted(op.inputs[n], operands[n], layout) for n, layout in place.items())
        if place not in places[:k] and all(possible):
            yield tuple(place.get(n, layout) for n, layout in enumerate(operands))


def _matmul_columns(op: Op, candidate: OpCandidate) -> ShardSpec | None:
    """Shards of the result that operand 1 may be cut like, if any."""
    config = candidate.config
    if not isinstance(config, MatmulMultiCoreReuseMultiCast1DProgramConfig) or not config.mcast_in0:
        return None
    wide = candidate.output.memory_layout is TensorMemoryLayout.WIDTH_SHARDED
    return candidate.output.shard_spec if wide and not op.attrs.get("transpose_b") else None


def _in_l1(layout: TensorLayout) -> TensorLayout:
    return interleaved(BufferType.L1, layout.page_layout)


def _columns(pricer: OpPricer, value_id: str, layout: TensorLayout, spec: ShardSpec) -> TensorLayout:
    """A weight cut into columns like the result: all its rows in every shard."""
    rows, _ = physical_shape(pricer.graph.value(value_id).shape, layout.page_layout)
    shards = ShardSpec(spec.grid_yx, (rows, spec.shape[1]), spec.core_ranges, spec.orientation)
    memory = MemoryConfig(TensorMemoryLayout.WIDTH_SHARDED, BufferType.L1, shards)
    return TensorLayout(layout.page_layout, memory)
