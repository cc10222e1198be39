"""Matmuls that read their weights from shards in the DRAM banks, as options of the whole-graph problem.

Offered where the weight, and a bias, have no other reader and are not computed: they then lie in the banks as this one
op wants them, from the first run on, and no copy of them is needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from optimizer.ir.graph import Op
from optimizer.ir.opdef import ConfigFamily
from optimizer.ir.vocabulary import opdef
from optimizer.layouts.dram_sharded_matmuls import WEIGHT_DTYPES, bank_shards, dram_sharded_configs, readers_per_bank
from optimizer.layouts.legal_op_configs import OpCandidate
from optimizer.layouts.memory_config import PageLayout, TensorLayout
from optimizer.layouts.tiling import TILE, ceil_div
from optimizer.opmodel.pricing import OpPricer


def reads_banks(pricer: OpPricer, op: Op) -> bool:
    """Whether an op may read its weights from shards in the DRAM banks."""
    if opdef(op.op).config is not ConfigFamily.MATMUL or op.attrs.get("transpose_a") or op.attrs.get("transpose_b"):
        return False
    graph = pricer.graph
    b = graph.value(op.inputs[1])
    alone = all(
        pricer.is_weight(v)
        and graph.producer(v) is None
        and graph.use_count(v) == 1
        and v not in graph.outputs
        and pricer.pages[v] is PageLayout.TILE
        for v in op.inputs[1:]
    )
    return alone and b.dtype in WEIGHT_DTYPES and all(d == 1 for d in b.shape[:-2])


def dram_sharded_ways(
    pricer: OpPricer, op: Op, operands: Sequence[TensorLayout], results: Sequence[OpCandidate]
) -> Iterator[tuple[tuple[TensorLayout, ...], OpCandidate]]:
    """Operand layouts and candidates with operand 0 as given, in width shards, and a result that others give too."""
    graph, device = pricer.graph, pricer.model.device
    depth = ceil_div(graph.value(op.inputs[0]).shape[-1], TILE)
    activation = str(op.attrs.get("activation") or "") or None
    outputs = dict.fromkeys(c.output for c in results if c.config is not None)
    for readers in readers_per_bank(device):
        weights = [bank_shards(graph.value(v).shape, device.dram_banks, readers) for v in op.inputs[1:]]
        for output in outputs:
            for config in dram_sharded_configs(operands[0], output, depth, activation, readers):
                yield (operands[0], *weights), OpCandidate(output, config, output.memory)
