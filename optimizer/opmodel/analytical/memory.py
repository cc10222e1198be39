"""Layout and memory ops: to_memory_config, to_layout and the calls they stand for."""

from __future__ import annotations

from optimizer.layouts.memory_config import MemoryConfig, PageLayout
from optimizer.opmodel.analytical.case import Case, Usage, need
from optimizer.opmodel.analytical.tensors import INTERLEAVED, ROWS


def _moved(case: Case, memory: MemoryConfig, page: PageLayout, cb_tiles: int = 4) -> Usage:
    x = case.x
    need(not memory.is_sharded or memory.shard_spec is not None, "bad optional access")
    out = case.result(x.shape, case.dtype(), memory, page)
    return Usage((out,), cb=cb_tiles * x.dtype.tile_bytes, cores=case.device.num_cores)


def to_memory_config(case: Case) -> Usage:
    memory = case.output
    need(memory is not None, "to_memory_config needs a memory config")
    assert memory is not None
    return _moved(case, memory, case.x.layout.page_layout)


def interleaved_to_sharded(case: Case) -> Usage:
    memory = case.output
    need(memory is not None and memory.is_sharded, "output must be sharded")
    need(case.x.layout.memory_layout is INTERLEAVED, "input must be interleaved")
    assert memory is not None
    return _moved(case, memory, case.x.layout.page_layout, 0)


def sharded_to_interleaved(case: Case) -> Usage:
    memory = case.output
    need(memory is not None and not memory.is_sharded, "output must be interleaved")
    need(case.x.layout.is_sharded, "input must be sharded")
    assert memory is not None
    return _moved(case, memory, case.x.layout.page_layout, 0)


def reshard(case: Case) -> Usage:
    memory = case.output
    need(memory is not None and memory.is_sharded, "output must be sharded")
    need(case.x.layout.is_sharded, "input must be sharded")
    assert memory is not None
    return _moved(case, memory, case.x.layout.page_layout, 0)


def _converted(case: Case, page: PageLayout) -> Usage:
    x = case.x
    wide = -(-x.shape[-1] // 32)
    usage = _moved(case, case.follow(), page, 0)
    usage.cb = 2 * wide * 2048
    return usage


def to_layout(case: Case) -> Usage:
    return _converted(case, PageLayout(str(case.attrs["layout"])))


def tilize(case: Case) -> Usage:
    return _converted(case, PageLayout.TILE)


def tilize_with_zero_padding(case: Case) -> Usage:
    need(not case.x.layout.is_sharded or case.output is not None, "sharded input must name an output")
    return _converted(case, PageLayout.TILE)


def untilize(case: Case) -> Usage:
    return _converted(case, ROWS)
