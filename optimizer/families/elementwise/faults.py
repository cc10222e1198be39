"""What element-wise ops compute wrongly; a row's cost class says which ops these are."""

from __future__ import annotations

from optimizer.ir.vocabulary import opdef
from optimizer.layouts.tiling import FACE
from optimizer.opmodel.base import OpQuery


def element_wise(query: OpQuery) -> str | None:
    return _infinite_padding(query) or _element_wise_rows(query)


def _infinite_padding(query: OpQuery) -> str | None:
    """Block floats whose last block is partly padding, of ops that may give infinity there.

    Elements of a block share an exponent, that of the infinity. Run: `log`, `reciprocal`, `rsqrt`, `divide`, `acosh`
    and powers of 40 columns with zeros behind them, a fifth of the values wrong each, relative error 0.46.
    """
    result = query.output_dtype or query.inputs[0].dtype
    columns = max((t.shape[-1] for t in query.inputs if t.shape), default=1)
    if result.is_block_float and columns % FACE and opdef(query.op).unbounded:
        return f"infinity in the padding behind {columns} columns takes the exponent of the block floats beside it"
    return None


def _element_wise_rows(query: OpQuery) -> str | None:
    """Element-wise ops on rows that are cut differently in operand and result.

    The kernels take page after page of every operand and give page after page of the result (`ttnn/cpp/ttnn/operations/
    eltwise`, `device/kernels/dataflow`): a page of a row-major shard is as long as the shard is wide, so the k-th pages
    of two tensors only hold the same elements where these widths are equal. Run: a silu of 13 x 8 shards to interleaved
    rows of 16, half of the values wrong; 100 x 5 to 100 x 1, nearly all; an add of interleaved rows of 24 into 100 x 1,
    all; others stop the simulator at writes that are not aligned. Equal widths are right, also in other shards.
    """
    x = query.inputs[0]
    memory = x.layout.memory if query.output is None else query.output
    columns = max((t.shape[-1] for t in query.inputs if t.shape), default=1)
    specs = [t.layout.memory.shard_spec for t in query.inputs if t.shape and t.shape[-1] == columns]
    given = {columns if spec is None else spec.shape[1] for spec in specs}
    if x.layout.is_tile or x.layout.is_host or not x.shape or (memory.is_sharded and memory.shard_spec is None):
        return None
    result = columns if memory.shard_spec is None else memory.shard_spec.shape[1]
    if given - {result}:
        return f"rows in pieces of {sorted(given)} columns give pieces of {result}: elements out of place"
    return None
