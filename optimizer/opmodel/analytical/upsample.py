"""Upsampling of [N, H, W, C] by nearest neighbours or bilinearly.

Sources: tt-metal 0.81 `pool/upsample` (`bilinear_upsample` and its messages), buffers measured on mock devices.
"""

from __future__ import annotations

from optimizer.layouts.memory_config import BufferType, MemoryConfig, PageLayout
from optimizer.layouts.tiling import TILE, ceil_div
from optimizer.opmodel.analytical.case import Case, Usage, need
from optimizer.opmodel.analytical.derive import flat_spec
from optimizer.opmodel.analytical.device_run.session import Session
from optimizer.opmodel.analytical.device_run.upsampling import upsample as nearest
from optimizer.opmodel.analytical.tensors import HEIGHT
from optimizer.opmodel.analytical.trace import Trace


def upsample(case: Case) -> Usage:
    x = case.x
    need(len(x.shape) == 4, "input must be [N, H, W, C]")
    n, h, w, c = x.shape
    given = case.attrs["scale_factor"]
    sh, sw = given if isinstance(given, tuple) else (given, given)
    if case.attrs.get("mode") == "bilinear":
        whole = float(sh).is_integer() and float(sw).is_integer()
        need(whole, "bilinear mode requires integer scale factors")
        return _bilinear(case, (n, int(h * sh), int(w * sw), c))
    session = Session(case)
    return session.usage(nearest(session, session.inputs[0], (float(sh), float(sw)), case.output))


def _bilinear(case: Case, shape: tuple[int, ...]) -> Usage:
    """Height shards over every core unless another interleaved or sharded result is named."""
    x = case.x
    rows, channels = shape[0] * shape[1] * shape[2], shape[3]
    need(not x.layout.is_tile and not x.layout.is_sharded, "bilinear upsample: row-major interleaved input")
    need(channels % TILE == 0, "input channels should be divisible by 32")
    cores = min(case.device.num_cores, rows)
    memory = case.output
    size = (ceil_div(rows, cores), channels)
    if memory is None:
        memory = MemoryConfig(HEIGHT, BufferType.L1, flat_spec(HEIGHT, ceil_div(rows, size[0]), size, case.device))
    need(not memory.is_sharded or memory.shard_spec is not None, "bad optional access")
    out = case.result(shape, x.dtype, memory, PageLayout.ROW_MAJOR)
    trace = Trace()
    trace.allocate(2 * ceil_div(x.shape[0] * x.shape[1] * x.shape[2], cores) * channels * 2)
    trace.run(64 * 1024)
    trace.allocate(size[0] * channels * 2 + case.l1(out))
    return Usage((out,), cb=64 * 1024, l1=trace.peak_tensors, peak=trace.peak_total, cores=cores)
