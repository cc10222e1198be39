"""conv2d: folding, sharding of the input, halo, the convolution (or matmul) itself, and DRAM slicing.

Source: tt-metal `conv2d.cpp` (`conv2d_L1`, `conv2d_DRAM`) and `op_slicing.cpp`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import BufferType, MemoryConfig, PageLayout, TensorLayout, TensorMemoryLayout
from optimizer.layouts.op_config import Conv2dConfig
from optimizer.layouts.tiling import TILE, ceil_div, round_up
from optimizer.opmodel.analytical import parallel
from optimizer.opmodel.analytical.case import Case, Refused, Usage, need
from optimizer.opmodel.analytical.conv_buffers import ConvPlan, conv_buffer_bytes
from optimizer.opmodel.analytical.parallel import COL, ROW, Parallel, Window
from optimizer.opmodel.analytical.tensors import BLOCK, DRAM_MEMORY, HEIGHT, INTERLEAVED, WIDTH, row_scratch
from optimizer.opmodel.analytical.trace import Trace
from optimizer.opmodel.base import TensorSpec

CONFIG_TENSOR_BYTES = 64
"""Allowance for the small index tensors of halo and convolution that live in L1 during the op."""


@dataclass(frozen=True, slots=True)
class ConvProblem:
    """One convolution to be run in L1 (the whole of it, or one slice)."""

    window: Window
    cin: int
    cout: int
    matmul: bool
    config: Conv2dConfig
    memory: MemoryConfig
    row_major: bool
    dtype_in: DType
    dtype_out: DType
    dtype_weights: DType
    bias: bool
    fp32: bool
    l1_acc: bool
    full_inner_dim: bool
    config_in_dram: bool
    folded: bool = False


@dataclass(slots=True)
class ConvOutcome:
    """What a convolution in L1 produces and takes."""

    target: Parallel | None
    shard: tuple[int, int]
    trace: Trace
    cores: int


def conv2d(case: Case) -> Usage:
    given = case.query.config
    config = given if isinstance(given, Conv2dConfig) else Conv2dConfig()
    x, weight = case.inputs[0], case.inputs[1]
    need(case.attrs["groups"] >= 1, "groups must be positive")
    shape = _output_shape(case)
    problem = _problem(case, config, x, weight)
    sliced = config.slice
    page = PageLayout(config.output_layout)
    if sliced == "l1" or (sliced == "auto" and x.layout.is_l1):
        return _full(case, problem, shape, page)
    return _dram(case, problem, shape, page, sliced)


def _output_shape(case: Case) -> tuple[int, ...]:
    """Result [1, 1, N*OH*OW, Cout]; the input may be flat or [N, H, W, C]."""
    attrs, x = case.attrs, case.x.shape
    n, h, w, c = attrs["batch_size"], attrs["input_height"], attrs["input_width"], attrs["in_channels"]
    need(x in ((1, 1, n * h * w, c), (n, h, w, c)), "input must be [1, 1, N*H*W, C] or [N, H, W, C]")
    layout = case.x.layout
    whole = x[1] == 1 or w % TILE == 0
    need(whole or not (layout.is_tile and layout.is_sharded), "sharded tiles cannot be reshaped to [1, 1, N*H*W, C]")
    window = _window(case)
    oh, ow = window.out_hw
    need(oh > 0 and ow > 0, "kernel is larger than the padded input")
    return (1, 1, n * oh * ow, attrs["out_channels"])


def _window(case: Case) -> Window:
    a = case.attrs
    return Window(
        a["batch_size"], a["input_height"], a["input_width"], tuple(a["kernel_size"]), tuple(a["stride"]),
        tuple(a["padding"]), tuple(a["dilation"]),
    )  # fmt: skip


def _problem(case: Case, config: Conv2dConfig, x: TensorSpec, weight: TensorSpec) -> ConvProblem:
    a = case.attrs
    weights_dtype = DType(config.weights_dtype) if config.weights_dtype else weight.dtype
    compute = dict(a["compute"]) if a.get("compute") else None
    fp32 = bool(compute.get("fp32")) if compute else (x.dtype is DType.F32 and weights_dtype is DType.F32)
    l1_acc = bool(compute.get("l1acc", True)) if compute else False
    window = _window(case)
    width_asked = config.shard_layout == WIDTH.value
    unit = window.kernel == window.stride == window.dilation == (1, 1) and not any(window.padding)
    problem = ConvProblem(
        window, a["in_channels"], a["out_channels"], unit and not width_asked, config, x.layout.memory,
        not x.layout.is_tile, x.dtype, case.query.output_dtype or x.dtype, weights_dtype, len(case.inputs) > 2,
        fp32, l1_acc, bool(a.get("full_inner_dim")), bool(a.get("config_tensors_in_dram")),
    )  # fmt: skip
    return _fold(problem)


def _fold(p: ConvProblem) -> ConvProblem:
    """Kernel-stride folding: a non-overlapping convolution becomes a matmul over larger pixels."""
    w = p.window
    top, bottom, left, right = w.padding
    if w.stride != w.kernel or w.stride == (1, 1) or w.dilation != (1, 1):
        return p
    height, width = w.height + top + bottom, w.width + left + right
    if height % w.stride[0] or width % w.stride[1]:
        return p
    in_dram = p.memory.buffer_type.value == "dram" and (p.row_major or not any(w.padding))
    if not in_dram and p.memory.memory_layout is not HEIGHT:
        return p
    need(in_dram, "folding of a height sharded input is not supported")
    asked = p.config.shard_layout
    need(asked is None or p.config.slice == "l1", "folded weights do not fit a sharded DRAM convolution")
    need(asked != WIDTH.value, "folded weights do not fit a width sharded convolution")
    sy, sx = w.stride
    small = Window(w.batch, height // sy, width // sx, (1, 1), (1, 1), (0, 0, 0, 0))
    return replace(p, window=small, cin=p.cin * sy * sx, matmul=True, folded=True)


def _alignment(p: ConvProblem, kind: TensorMemoryLayout, shard_width: int | None, sliced: bool = False) -> int:
    """`get_input_channels_alignment`."""
    if p.matmul or kind is WIDTH or not (p.row_major or sliced):
        return TILE
    if shard_width is not None:
        return next((a for a in (TILE, 16, 8) if shard_width % a == 0), TILE)
    return 8


def _keeps_shards(p: ConvProblem) -> bool:
    """Whether a sharded input is convolved where it is."""
    spec = p.memory.shard_spec
    if spec is None or p.config.reshard_if_not_optimal:
        return False
    kind = p.memory.memory_layout
    if kind is not BLOCK and spec.orientation is COL:
        return False
    if spec.shape[1] % _alignment(p, kind, spec.shape[1]):
        return False
    if p.matmul and kind is BLOCK and _uneven_channels(p):
        return False
    return not (p.matmul and spec.shape[0] % TILE)


def _uneven_channels(p: ConvProblem) -> bool:
    """Block shards whose widths do not add up to the channels."""
    spec = p.memory.shard_spec
    return spec is not None and p.cin != parallel.of_memory(p.memory).channels * spec.shape[1]


def _check_source(p: ConvProblem, source: Parallel, keeps: bool) -> None:
    """Combinations of input sharding and matmul that tt-metal cannot run."""
    spec = p.memory.shard_spec
    if not p.matmul or spec is None:
        return
    need(not keeps or source.kind is not WIDTH, "a 1x1 convolution does not take width sharded input")
    if not keeps and p.row_major and source.kind is not HEIGHT:
        whole = spec.shape[0] % TILE == 0 and spec.shape[1] % TILE == 0
        need(whole, f"Physical shard shape {spec.shape} must be tile {{32, 32}} sized!")


def _tensor_bytes(shard: tuple[int, int], dtype: DType, row_major: bool) -> int:
    if row_major:
        return shard[0] * round_up(shard[1] * dtype.element_bytes, 16)
    return ceil_div(shard[0], TILE) * ceil_div(shard[1], TILE) * dtype.tile_bytes


def run_in_l1(case: Case, p: ConvProblem, kind: TensorMemoryLayout | None, tile_result: bool = False) -> ConvOutcome:
    """`conv2d_L1`: everything up to the result where the convolution leaves it."""
    orientation = COL if p.config.transpose_shards else ROW
    trace = Trace()
    out_nhw = p.window.out_nhw
    keeps = _keeps_shards(p)
    spec = p.memory.shard_spec
    if keeps:
        assert spec is not None
        source, shard = parallel.of_memory(p.memory), spec.shape
        size = 0
    else:
        wanted = kind or INTERLEAVED
        if spec is not None and p.matmul and p.memory.memory_layout is BLOCK and _uneven_channels(p):
            wanted = BLOCK
        width = None if spec is None else spec.shape[1]
        align = _alignment(p, p.memory.memory_layout, width)
        source = parallel.determine(
            wanted, p.cin, out_nhw, p.cout, align, case.device, orientation, not p.matmul,
            act_block_h=p.config.act_block_h_override,
        )  # fmt: skip
        unit = _alignment(p, source.kind, None)
        shard = parallel.input_shard(source, p.window.in_nhw, p.cin, unit, p.row_major)
        size = _tensor_bytes(shard, p.dtype_in, p.row_major)
        trace.allocate(size)
        if p.row_major and p.memory.buffer_type is BufferType.DRAM:
            trace.run(row_scratch(shard[1] * p.dtype_in.element_bytes, case.device), dataflow=True)
    _check_source(p, source, keeps)
    target = parallel.determine_output(source, p.cout, case.device, p.matmul)
    out_shard = parallel.output_shard(target, out_nhw, p.cout)
    plan = _plan(case, p, source, target, shard, out_shard, tile_result)
    if p.matmul:
        _run_matmul(case, p, plan, shard, size, trace)
    else:
        _run_conv(case, p, plan, shard, size, keeps, trace)
    return ConvOutcome(target, out_shard, trace, target.cores)


def _plan(
    case: Case,
    p: ConvProblem,
    source: Parallel,
    target: Parallel,
    shard: tuple[int, int],
    out_shard: tuple[int, int],
    tile_result: bool,
) -> ConvPlan:
    align = _alignment(p, source.kind, shard[1])
    untilize = p.config.output_layout == "row_major" and not tile_result
    return ConvPlan(
        source=source,
        target=target,
        in_channels_padded=round_up(p.cin, source.channels * align),
        out_channels=p.cout,
        kernel=p.window.kernel,
        dilation=p.window.dilation,
        out_shard=out_shard,
        out_rows=p.window.out_nhw if target.kind is WIDTH else out_shard[0],
        act_block_h_override=p.config.act_block_h_override,
        act_block_w_div=p.config.act_block_w_div,
        full_inner_dim=p.full_inner_dim,
        act_double=p.config.enable_act_double_buffer,
        weights_double=p.config.enable_weights_double_buffer,
        untilize=untilize,
        bias=p.bias,
        fp32=p.fp32,
        l1_acc=p.l1_acc,
        dtype_in=p.dtype_in,
        dtype_out=p.dtype_out,
        dtype_weights=p.dtype_weights,
        arch=case.device.arch,
    )


def _result_bytes(plan: ConvPlan) -> int:
    return _tensor_bytes(plan.out_shard, plan.dtype_out, plan.untilize)


def _run_conv(
    case: Case, p: ConvProblem, plan: ConvPlan, shard: tuple[int, int], size: int, keeps: bool, trace: Trace
) -> None:
    element = 4 if p.dtype_in is DType.F32 else 2
    tall = plan.out_tiles[0]
    need(tall % plan.act_block_h == 0, f"act_matrix_height_ntiles {tall} should be divisible by act_block_h_ntiles")
    if plan.untilize:
        need(p.dtype_out in (DType.BF16, DType.F32), "Only TILE layout is supported for BFLOAT8_B dtype!")
    padded = any(p.window.padding)
    if plan.kind is not WIDTH or not p.row_major or padded:
        sticks = parallel.halo_sticks(p.window, plan.source.nhw)
        halo = sticks * round_up(shard[1] * element, 16)
        trace.allocate(halo + CONFIG_TENSOR_BYTES)
        stick = 2 * shard[1] * element
        tilized = 0 if p.row_major else 2 * ceil_div(shard[1], TILE) * (2048 if element == 2 else 4096)
        trace.run(stick + tilized)
        trace.free(size + CONFIG_TENSOR_BYTES)
    else:
        halo = size
    del keeps
    trace.allocate(_result_bytes(plan) + CONFIG_TENSOR_BYTES // 2)
    trace.run(conv_buffer_bytes(plan, p.config_in_dram))
    trace.free(CONFIG_TENSOR_BYTES // 2)


def _run_matmul(case: Case, p: ConvProblem, plan: ConvPlan, shard: tuple[int, int], size: int, trace: Trace) -> None:
    """A 1x1 convolution: tilize if needed, then a matmul in the convolution's blocking."""
    del case
    tiled = _tensor_bytes(shard, p.dtype_in, False)
    kept = size == 0
    if p.row_major:
        trace.allocate(tiled)
        trace.run(0, dataflow=True)
        if p.config.deallocate_activation and size:
            trace.free(size)
            size = 0
        size += tiled
    trace.allocate(_tensor_bytes(plan.out_shard, plan.dtype_out, False))
    block_w, wide = plan.act_block_w, plan.out_tiles[1]
    tall = plan.out_tiles[0]
    kt = ceil_div(plan.in_channels_padded, TILE)
    steps = max(1, kt // max(1, block_w))
    depth = 2 if steps > 1 else 1
    cb = depth * block_w * wide * p.dtype_weights.tile_bytes
    if plan.kind is BLOCK:
        cb += depth * tall * block_w * p.dtype_in.tile_bytes
    if p.bias:
        cb += wide * p.dtype_weights.tile_bytes
    if p.fp32 and p.dtype_out is not DType.F32:
        cb += tall * wide * 4096
    trace.run(cb, dataflow=True)
    del kept
    trace.free(size)


def _auto_kind(case: Case, p: ConvProblem) -> TensorMemoryLayout:
    """`determine_conv_config_for_auto_shard`: the sharding that needs least L1."""
    best = HEIGHT
    height = _need_bytes(case, p, HEIGHT)
    lowest = height[0]
    block = _need_bytes(case, p, BLOCK)
    if block[0] < lowest and block[1] >= case.device.grid_yx[1]:
        best, lowest = BLOCK, block[0]
    if not p.matmul:
        width = _need_bytes(case, p, WIDTH)
        if width[0] < lowest:
            best = WIDTH
    return best


def _need_bytes(case: Case, p: ConvProblem, kind: TensorMemoryLayout, spread: int | None = None) -> tuple[int, int]:
    """(estimated L1 bytes, cores) of a convolution under a sharding (`calculate_L1_usage_for_conv_op`)."""
    orientation = COL if p.config.transpose_shards else ROW
    align = _alignment(p, kind, None)
    source = parallel.determine(
        kind, p.cin, p.window.out_nhw, p.cout, align, case.device, orientation, not p.matmul,
        act_block_h=p.config.act_block_h_override if spread is None else spread,
    )  # fmt: skip
    target = parallel.determine_output(source, p.cout, case.device, p.matmul)
    shard = parallel.input_shard(source, p.window.in_nhw, p.cin, align, p.row_major)
    out_shard = parallel.output_shard(target, p.window.out_nhw, p.cout)
    plan = _plan(case, p, source, target, shard, out_shard, False)
    plan = replace(plan, in_channels_padded=round_up(p.cin, source.channels * align))
    element = 4 if p.dtype_in is DType.F32 else 2
    halo = parallel.halo_sticks(p.window, source.nhw) * shard[1] * element
    tall, wide = plan.out_tiles
    total = conv_buffer_bytes(plan, p.config_in_dram) + tall * wide * p.dtype_out.tile_bytes + halo
    return (total, max(source.cores, target.cores))


def _full(case: Case, p: ConvProblem, shape: tuple[int, ...], page: PageLayout) -> Usage:
    """The L1 path: the result stays as the convolution shards it unless a memory config is requested."""
    kind = None if p.config.shard_layout is None else TensorMemoryLayout(p.config.shard_layout)
    auto = kind is None and (not p.memory.is_sharded or p.folded)
    if auto:
        kind = _auto_kind(case, p)
    if auto and p.matmul:
        return _interleaved_matmul(case, p, shape)
    outcome = run_in_l1(case, p, kind)
    assert outcome.target is not None
    if p.matmul:
        page = PageLayout.TILE
    memory = outcome.target.memory(outcome.shard)
    out = TensorSpec(shape, p.dtype_out, TensorLayout(page, memory))
    trace = outcome.trace
    requested = case.output
    if requested is not None and requested != memory:
        need(not requested.is_sharded or requested.shard_spec is not None, "bad optional access")
        out = case.result(shape, p.dtype_out, requested, page)
        trace.allocate(case.l1(out))
        trace.run(0, dataflow=True)
    return Usage(
        (out,), cb=trace.buffers, l1=trace.peak_tensors, peak=trace.peak_total, cores=outcome.cores, room=trace.room
    )


def _interleaved_matmul(case: Case, p: ConvProblem, shape: tuple[int, ...]) -> Usage:
    """A 1x1 convolution of an interleaved input without a sharding: an interleaved matmul to DRAM."""
    memory = DRAM_MEMORY
    requested = case.output
    if requested is not None and requested != memory:
        need(not requested.is_sharded or requested.shard_spec is not None, "bad optional access")
        memory = requested
    out = case.result(shape, p.dtype_out, memory)
    mt, nt = ceil_div(shape[2], TILE), ceil_div(shape[3], TILE)
    rows, columns = case.device.grid_yx
    m, n = ceil_div(mt, rows), ceil_div(nt, columns)
    cb = min(700_000, 8 * (m + n) * 4096 + m * n * p.dtype_out.tile_bytes)
    return Usage((out,), cb=cb, cores=min(case.device.num_cores, mt * nt))


def _dram(case: Case, p: ConvProblem, shape: tuple[int, ...], page: PageLayout, sliced: str) -> Usage:
    """The DRAM path: the result is DRAM interleaved whatever was requested."""
    if p.matmul:
        return _full(case, p, shape, page)
    tile = page is PageLayout.TILE
    need(tile or p.dtype_out is not DType.BFP8_B, "Conv output can't be in Row Major if output dtype is BFloat8_B.")
    need(p.memory.buffer_type.value == "dram", "Conv DRAM expects the input tensor to be in DRAM.")
    need(not p.memory.is_sharded, "Input Tensor to Conv DRAM should be in Interleaved Memory Layout")
    out = case.result(shape, p.dtype_out, DRAM_MEMORY, page)
    if sliced == "auto":
        trace = _auto_slices(case, p, tile)
    else:
        direction, _, count = sliced.partition(":")
        trace = _slices(case, p, direction == "dram_height", int(count or 0), tile)
    return Usage(
        (out,),
        cb=trace.buffers,
        l1=trace.peak_tensors,
        peak=trace.peak_total,
        cores=case.device.num_cores,
        room=trace.room,
    )


def _max_slices(extent: int, along_height: bool, tile: bool) -> int:
    return extent if along_height or not tile else ceil_div(extent, TILE)


def _slice_problem(p: ConvProblem, along_height: bool, count: int, tile: bool) -> ConvProblem:
    """The largest slice: the first of `count` over the output height or width."""
    w = p.window
    oh, ow = w.out_hw
    if count == 1:
        return p
    unit = TILE if tile and not along_height else 1
    extent = oh if along_height else ow
    size = unit * ceil_div(ceil_div(extent, unit), count)
    size = min(size, extent)
    axis = 0 if along_height else 1
    need_in = (size - 1) * w.stride[axis] + w.dilation[axis] * (w.kernel[axis] - 1) + 1
    full = w.height if along_height else w.width
    held = min(full, need_in)
    missing = need_in - held
    top, bottom, left, right = w.padding
    if along_height:
        window = replace(w, height=held, padding=(missing // 2, missing - missing // 2, left, right))
    else:
        window = replace(w, width=held, padding=(top, bottom, missing // 2, missing - missing // 2))
    return replace(p, window=window)


def _slices(case: Case, p: ConvProblem, along_height: bool, count: int, tile: bool) -> Trace:
    oh, ow = p.window.out_hw
    limit = _max_slices(oh if along_height else ow, along_height, tile)
    need(count <= limit, f"Number of slices ({count}) exceeds the maximum allowed ({limit})")
    piece = _slice_problem(p, along_height, count, tile)
    kind = None if p.config.shard_layout is None else TensorMemoryLayout(p.config.shard_layout)
    config = replace(p.config, deallocate_activation=True)
    piece = replace(piece, config=config)
    if kind is None:
        kind = _auto_kind(case, piece)
    return run_in_l1(case, piece, kind, tile_result=True).trace


def _auto_slices(case: Case, p: ConvProblem, tile: bool) -> Trace:
    """The fewest slices whose estimate fits; first along the guessed side, then along the other."""
    w = p.window
    tall = w.width < 200 or w.height > w.width if tile else w.height > 3 * w.width
    room = case.device.l1_bank_bytes(case.l1_small_bytes)
    oh, ow = w.out_hw
    for along_height in (tall, not tall):
        for count in range(1, _max_slices(oh if along_height else ow, along_height, tile) + 1):
            piece = _slice_problem(p, along_height, count, tile)
            if _slice_estimate(case, piece) <= room:
                return _slices(case, p, along_height, count, tile)
    raise Refused("DRAM Auto slice could not find valid slice configuration.")


def _slice_estimate(case: Case, p: ConvProblem) -> int:
    """What tt-metal expects a slice to take; it leaves `act_block_h_override` out of the sharding."""
    asked = p.config.shard_layout
    kind = _auto_kind(case, p) if asked is None else TensorMemoryLayout(asked)
    return _need_bytes(case, p, kind, spread=0)[0]
