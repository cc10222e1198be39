"""Ops without measured data, and opaque ops: interleaved operands and results only."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from optimizer import families
from optimizer.errors import TtoptError
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Attr, Op
from optimizer.ir.opdef import OpDef, Page
from optimizer.ir.vocabulary import opdef
from optimizer.layouts.memory_config import HOST_ROW_MAJOR, PageLayout, TensorLayout
from optimizer.opmodel.analytical.case import Case, Family, Usage, need, refuse
from optimizer.opmodel.analytical.tensors import DRAM_MEMORY
from optimizer.opmodel.base import TensorSpec


def result_shapes(case: Case) -> tuple[tuple[int, ...], ...]:
    """Output shapes by the vocabulary's rule; refused when the inputs do not fit."""
    query = case.query
    shapes, problem = _shapes(query.op, query.attrs, tuple([t.shape for t in query.inputs]))
    if problem is not None:
        refuse(problem)
    return shapes


@lru_cache(maxsize=16384)
def _shapes(
    name: str, attrs: tuple[tuple[str, Attr], ...], inputs: tuple[tuple[int, ...], ...]
) -> tuple[tuple[tuple[int, ...], ...], str | None]:
    """Output shapes, or why there are none."""
    try:
        return opdef(name).infer_shapes(Op(name, name, (), (), dict(attrs)), inputs), None
    except TtoptError as error:
        return (), error.message


def result_dtypes(case: Case, row: OpDef, count: int) -> tuple[DType, ...]:
    """Element types by the vocabulary's rule; a requested type wins for single results."""
    if case.query.output_dtype is not None and count == 1:
        return (case.query.output_dtype,)
    return row.result_dtypes(case.attrs.get("dtype", "bf16"), tuple(t.dtype for t in case.inputs), count)


def result_page(case: Case, row: OpDef) -> PageLayout:
    if row.output_page is Page.ROW_MAJOR:
        return PageLayout.ROW_MAJOR
    if row.output_page is Page.ANY and case.inputs:
        return case.x.layout.page_layout
    return PageLayout.TILE


def interleaved_only(case: Case) -> Usage:
    """Any interleaved operands; interleaved result, DRAM or as operand 0 when nothing is requested."""
    row = opdef(case.query.op)
    case.need_interleaved(*case.inputs)
    memory = case.output
    if memory is None:
        memory = case.x.layout.memory if case.inputs and not case.x.layout.is_host else DRAM_MEMORY
    case.interleaved(memory)
    shapes = result_shapes(case)
    page = result_page(case, row)
    dtypes = result_dtypes(case, row, len(shapes))
    outputs = tuple(case.result(s, d, memory, page) for s, d in zip(shapes, dtypes, strict=True))
    cb = sum(2 * _unit(case, t) for t in (*case.inputs, *outputs) if not t.layout.is_host)
    return Usage(outputs, cb=cb, cores=case.device.num_cores)


def _unit(case: Case, tensor: TensorSpec) -> int:
    """Bytes moved at once: a tile, or a row of a row-major tensor."""
    if tensor.layout.is_tile:
        return tensor.dtype.tile_bytes
    return tensor.shape[-1] * tensor.dtype.element_bytes if tensor.shape else 32


def from_device(case: Case) -> Usage:
    """DRAM -> host; a host tensor keeps its page layout."""
    source = case.inputs[0]
    need(source.layout.is_dram, "from_device reads DRAM")
    layout = TensorLayout(source.layout.page_layout, HOST_ROW_MAJOR.memory)
    return Usage((replace(source, layout=layout),), cb=0, cores=1)


def to_device(case: Case) -> Usage:
    """Host -> DRAM interleaved."""
    source = case.inputs[0]
    need(source.layout.is_host, "to_device reads a host tensor")
    need(case.output == DRAM_MEMORY, "to_device writes DRAM interleaved")
    layout = TensorLayout(source.layout.page_layout, DRAM_MEMORY)
    return Usage((replace(source, layout=layout),), cb=0, cores=1)


def opaque(case: Case) -> Usage:
    """An op nobody knows lives in DRAM; its results are not described."""
    for tensor in case.inputs:
        need(tensor.layout.is_dram or tensor.layout.is_host, f"{case.query.op} is opaque: operands must be in DRAM")
        need(not tensor.layout.is_sharded, f"{case.query.op} is opaque: operands must be interleaved")
    memory = case.output
    fits = memory is None or memory == DRAM_MEMORY
    need(fits, f"{case.query.op} is opaque: its result must be DRAM interleaved")
    return Usage((), cb=0, cores=case.device.num_cores)


@lru_cache(maxsize=4096)
def family(op: str) -> Family:
    """The rule of an op: its own, else interleaved only, else (unknown to the vocabulary) opaque."""
    own: Family | None = families.entry("FAMILIES", op)
    if own is not None:
        return own
    return opaque if opdef(op).opaque else interleaved_only
