"""What matrix products compute wrongly."""

from __future__ import annotations

from math import prod

from optimizer.layouts.dram_sharded_matmuls import columns_in_banks, shared_evenly
from optimizer.layouts.memory_config import TensorMemoryLayout
from optimizer.layouts.op_config import (
    MatmulMultiCoreReuseMultiCast1DProgramConfig,
    MatmulMultiCoreReuseMultiCastDRAMShardedProgramConfig,
)
from optimizer.layouts.tiling import TILE
from optimizer.opmodel.base import OpQuery
from optimizer.opmodel.fault_rules import Rules


def _product(query: OpQuery) -> str | None:
    """Matmuls whose cores stand elsewhere than the result's shards, and batches of them that add up padding.

    The kernels of the 1D config go to the cores of the grid row by row, block shards of several rows to a column of
    cores each. Run: 11 products of 17 to 300 rows into block shards on 2 x 1 to 8 x 1 cores, all but the first core's
    values wrong; on 1 x 1 to 1 x 7 cores right.

    The readers of the matrix engine zero the last columns of A, beyond K, but no reader reads shards of A where B has
    batches of its own: what both operands hold in their tiles beyond K is multiplied and added. Run: K of 8, 24, 40 and
    50, height and block shards of A, bf16 and f32, relative errors of 70 and more with garbage of unit size there; A
    interleaved, or a B without batches: right.
    """
    if (wrong := _bank_shards(query)) is not None or len(query.inputs) < 2:
        return wrong
    asked = None if query.output is None else query.output.shard_spec
    blocks = query.output is not None and query.output.memory_layout is TensorMemoryLayout.BLOCK_SHARDED
    one_row = isinstance(query.config, MatmulMultiCoreReuseMultiCast1DProgramConfig)
    if one_row and blocks and asked is not None and asked.grid_yx[0] > 1:
        return f"the 1D config computes block shards of {asked.grid_yx[0]} rows of cores on one row of them"
    a, b = query.inputs[:2]
    depth = a.shape[-2 if query.attr.get("transpose_a") else -1]
    if a.layout.is_sharded and depth % TILE and prod(b.shape[:-2]) > 1:
        return f"a batch of products of shards adds up what the tiles hold beyond the {depth} columns"
    return None


def _bank_shards(query: OpQuery) -> str | None:
    """Matmuls by the DRAM-sharded config whose operand B, or bias, lies otherwise than the readers think.

    A reader goes along its bank in rows of as many tiles as an even share of the columns among the banks that are not
    empty is (`per_core_N_in1_sender` of `matmul_multicore_reuse_mcast_dram_sharded_program_factory.cpp`), whatever the
    shard is: validation asks for width shards of B alone, in L1 too, and nothing of the bias. Run: 32 x 512 x 1024 over
    12 banks, half of the values wrong with an interleaved bias and with shards of 12 tiles (the readers think 11);
    those of 3, 4 and 5 tiles are right.
    """
    config = query.config
    if not isinstance(config, MatmulMultiCoreReuseMultiCastDRAMShardedProgramConfig) or len(query.inputs) < 2:
        return None
    shards = [columns_in_banks(tensor.layout, tensor.shape) for tensor in query.inputs[1:]]
    width = -(-query.inputs[1].shape[-1] // TILE)
    if not shared_evenly(shards[0], width, config.num_workers_per_dram_bank):
        return "operand 1 is read as if the DRAM banks shared its columns evenly: the product is of other columns"
    if any(tiles != shards[0] for tiles in shards):
        return "a bias is read as if it were cut over the DRAM banks as operand 1 is: other columns are added"
    return None


FAULTS: Rules = {
    "ttnn.matmul": _product,
    "ttnn.linear": _product,
}
