"""conv2d and conv_transpose2d: which path a convolution takes, and what comes out of it.

Source: tt-metal `conv2d.cpp`, `conv_transpose2d.cpp` and `conv2d_utils.cpp` (`fold_input_tensor_if_required`).
A convolution runs in L1 (`conv_run`), as a plain matmul, or slice by slice from DRAM to DRAM (`conv_slices`).
"""

from __future__ import annotations

from dataclasses import replace

from optimizer.ir.dtype import DType
from optimizer.ir.vocabulary import LINEAR
from optimizer.layouts.conv_configs import is_pointwise
from optimizer.layouts.memory_config import BufferType, MemoryConfig, PageLayout, TensorLayout
from optimizer.layouts.op_config import Conv2dConfig
from optimizer.layouts.tiling import TILE, ceil_div, round_up
from optimizer.opmodel.analytical.case import Case, Usage, need, need_named
from optimizer.opmodel.analytical.device_run.session import Buffer, Session
from optimizer.opmodel.analytical.products.matmul import ACTIVATIONS, CONFIG_ACTIVATIONS, matmul
from optimizer.opmodel.analytical.tensors import DRAM_MEMORY, HEIGHT, TILED, WIDTH
from optimizer.opmodel.analytical.windows.conv_buffers import ConvProblem
from optimizer.opmodel.analytical.windows.conv_plan import auto_kind
from optimizer.opmodel.analytical.windows.conv_run import flatten, run_in_l1, tilize_buffers
from optimizer.opmodel.analytical.windows.conv_slices import run_slices, runs_in_l1, slices_of
from optimizer.opmodel.analytical.windows.parallel import Window
from optimizer.opmodel.base import OpQuery, TensorSpec

L1_ALIGNMENT = 16
PAD_BUFFER_BYTES = 32768
"""Buffer of the program that pads the rows of an input before it is folded."""


_NOT_AFTER_MATMUL = frozenset(["mish", "round", "hardtanh", "selu"])
_NOT_IN_KERNEL = _NOT_AFTER_MATMUL.union(
    ["neg", "floor", "ceil", "trunc", "frac", "sign", "logical_not", "gtz", "ltz", "eqz", "nez"]
)
"""Activations that a convolution refuses: as an op of its own behind a matmul to DRAM, and in its own kernel.
A 1x1 convolution of shards is a matmul with a program config (all asked of tt-metal 0.81, mock device)."""


def conv2d(case: Case) -> Usage:
    problem = _problem(case, _window(case, transposed=False))
    shape = _output_shape(case, problem)
    return _convolution(case, _folded(case, problem), shape)


def _folded(case: Case, problem: ConvProblem) -> ConvProblem:
    return problem if case.attrs.get("enable_kernel_stride_folding") is False else _fold(problem)


def folded_problem(case: Case) -> ConvProblem:
    """The convolution that really runs: folded where TTNN folds it. `Refused` where it would refuse it at once."""
    if case.query.op == "ttnn.conv_transpose2d":
        return _problem(case, _window(case, transposed=True))
    return _folded(case, _problem(case, _window(case, transposed=False)))


def conv_transpose2d(case: Case) -> Usage:
    """A convolution with stride 1 over the input spread out by the stride; rules as `conv2d`, without folding."""
    problem = _problem(case, _window(case, transposed=True))
    return _convolution(case, problem, _output_shape(case, problem))


def _convolution(case: Case, problem: ConvProblem, shape: tuple[int, ...]) -> Usage:
    page = PageLayout(problem.config.output_layout)
    if runs_in_l1(case, problem):
        return _full(case, problem, shape, page)
    return _dram(case, problem, shape, page)


def _window(case: Case, transposed: bool) -> Window:
    a = case.attrs
    need(a["groups"] >= 1, "groups must be positive")
    return Window(
        a["batch_size"], a["input_height"], a["input_width"], tuple(a["kernel_size"]), tuple(a["stride"]),
        tuple(a["padding"]), tuple(a["dilation"]), transposed=transposed,
        output_padding=tuple(a["output_padding"]) if transposed else (0, 0),
    )  # fmt: skip


def _output_shape(case: Case, p: ConvProblem) -> tuple[int, ...]:
    """Result [1, 1, N*OH*OW, Cout]; the input may be flat or [N, H, W, C]."""
    x, layout, w = case.x.shape, case.x.layout, p.window
    need(
        x in ((1, 1, w.in_nhw, p.cin), (w.batch, w.height, w.width, p.cin)), "input is [1, 1, N*H*W, C] or [N, H, W, C]"
    )
    whole = x[1] == 1 or w.width % TILE == 0
    need(whole or not (layout.is_tile and layout.is_sharded), "sharded tiles cannot be reshaped to [1, 1, N*H*W, C]")
    need(min(w.out_hw) > 0, "kernel is larger than the padded input")
    return (1, 1, w.out_nhw, p.cout)


def _problem(case: Case, window: Window) -> ConvProblem:
    a, x, weight = case.attrs, case.inputs[0], case.inputs[1]
    given = case.query.config
    config = given if isinstance(given, Conv2dConfig) else Conv2dConfig()
    need(not config.override_sharding_config, "If override_sharding_config is set, core_grid must be set as well.")
    need(config.act_block_h_override % TILE == 0, "act_block_h_override must be a multiple of 32 (tile height).")
    _check_operands(case)
    weights_dtype = DType(config.weights_dtype) if config.weights_dtype else weight.dtype
    fp32 = case.fp32(x.dtype is DType.F32 and weights_dtype is DType.F32)
    l1_acc = bool(case.compute) and bool(case.compute.get("l1acc", True))
    return ConvProblem(
        window, a["in_channels"], a["out_channels"], is_pointwise(a) and config.shard_layout != WIDTH.value, config,
        x.layout.memory, not x.layout.is_tile, x.dtype, case.query.output_dtype or x.dtype, weights_dtype,
        len(case.inputs) > 2, fp32, l1_acc, bool(a.get("full_inner_dim")), bool(a.get("config_tensors_in_dram")),
        groups=a["groups"],
    )  # fmt: skip


def _check_operands(case: Case) -> None:
    """Types and sizes of the operands that the attributes imply."""
    a, bias = case.attrs, case.operand(2)
    need(case.x.dtype.is_float, "Unsupported data type of the input")
    whole = a["in_channels"] % a["groups"] == 0 and a["out_channels"] % a["groups"] == 0
    need(whole, "channels must be divisible by groups")
    fits = bias is None or (len(bias.shape) == 4 and bias.shape[3] == a["out_channels"])
    need(fits, "Bias must have the same length as output channels")


def _fold(p: ConvProblem) -> ConvProblem:
    """Kernel-stride folding: a non-overlapping convolution becomes a matmul over larger pixels."""
    w = p.window
    top, bottom, left, right = w.padding
    if w.stride != w.kernel or w.stride == (1, 1) or w.dilation != (1, 1):
        return p
    height, width = w.height + top + bottom, w.width + left + right
    if height % w.stride[0] or width % w.stride[1]:
        return p
    in_dram = p.memory.buffer_type is BufferType.DRAM and (p.row_major or not any(w.padding))
    if not in_dram and p.memory.memory_layout is not HEIGHT:
        return p
    need(in_dram, "folding of a height sharded input is not supported")
    need(p.dtype_in is not DType.BFP4_B, "Only TILE layout is supported for BFLOAT4_B dtype!")
    asked = p.config.shard_layout
    need(asked is None or p.config.slice == "l1", "folded weights do not fit a sharded DRAM convolution")
    need(asked != WIDTH.value, "folded weights do not fit a width sharded convolution")
    sy, sx = w.stride
    small = Window(w.batch, height // sy, width // sx, (1, 1), (1, 1), (0, 0, 0, 0))
    dtype = DType.BF16 if p.dtype_in.is_block_float else p.dtype_in
    return replace(p, window=small, cin=p.cin * sy * sx, matmul=True, folded=True, row_major=True, dtype_in=dtype)


def _start(case: Case, p: ConvProblem) -> Session:
    """The op's L1 when it begins; folding comes first."""
    session = Session(case, endless=True)
    if p.folded:
        _run_folding(session, case, p)
    return session


def _run_folding(session: Session, case: Case, p: ConvProblem) -> None:
    """The programs that fold the input from DRAM to DRAM (buffers measured on mock devices)."""
    x, element = case.x, p.dtype_in.element_bytes
    channels, (sy, sx) = int(case.attrs["in_channels"]), case.attrs["stride"]
    if x.layout.is_tile:
        tiles = ceil_div(channels, TILE) * (x.dtype.tile_bytes + p.dtype_in.tile_bytes)
        if channels * element % L1_ALIGNMENT == 0:
            session.run(dfb=2 * tiles + sy * int(case.attrs["input_width"]) * channels * element)
            return
        session.run(dfb=tiles)
    pixels, stick = int(sy) * int(sx), channels * element
    if any(case.attrs["padding"]):
        session.run(dfb=PAD_BUFFER_BYTES, scratch=round_up(stick, L1_ALIGNMENT))
    aligned = round_up(stick, case.device.dram_alignment_bytes)
    session.run(dfb=2 * pixels * stick if aligned == stick else pixels * (stick + 2 * aligned))


def _full(case: Case, p: ConvProblem, shape: tuple[int, ...], page: PageLayout) -> Usage:
    """The L1 path: the result stays as the convolution shards it unless a memory config is requested."""
    kind = p.asked
    auto = kind is None and (not p.memory.is_sharded or p.folded)
    if auto:
        kind = auto_kind(p, case.device)
    if auto and p.matmul:
        return _interleaved_matmul(case, p, shape)
    activation = p.config.activation
    taken = activation is None or (activation in CONFIG_ACTIVATIONS if p.matmul else activation not in _NOT_IN_KERNEL)
    need(taken, f"Unsupported UnaryOpType for fused activation: {activation}")
    session = _start(case, p)
    given = session.inputs[0].buffer if case.x.layout.is_l1 and not p.folded else None
    outcome = run_in_l1(session, case, p, kind, given)
    if p.matmul:
        page = PageLayout.TILE
    memory = outcome.target.memory(outcome.shard)
    out = TensorSpec(shape, p.dtype_out, TensorLayout(page, memory))
    block: Buffer | None = outcome.block
    requested = case.output
    if requested is not None and requested != memory:
        out, block = _moved(session, case, out, requested)
    return session.summed((out,), outcome.target.cores, _number(block))


def _moved(
    session: Session, case: Case, result: TensorSpec, requested: MemoryConfig
) -> tuple[TensorSpec, Buffer | None]:
    """The result goes where the caller wants it (`to_memory_config`)."""
    need_named(requested)
    out = case.result(result.shape, result.dtype, requested, result.layout.page_layout)
    block = session.hold(case.l1(out))
    session.run()
    return out, block if out.layout.is_l1 else None


def _number(block: Buffer | None) -> int | None:
    return None if block is None else block.number


def _interleaved_matmul(case: Case, p: ConvProblem, shape: tuple[int, ...]) -> Usage:
    """A 1x1 convolution of an interleaved input without a sharding: `ttnn.linear` to DRAM."""
    session = _start(case, p)
    memory = DRAM_MEMORY if p.folded else p.memory
    tile = TensorSpec((1, 1, p.window.in_nhw, p.cin), p.dtype_in, TensorLayout(TILED, memory))
    held = given = session.inputs[0].buffer
    if memory.buffer_type is not BufferType.DRAM:
        held = flatten(session, case, p, given)
    if p.row_major:
        if memory.buffer_type is not BufferType.DRAM:
            session.hold(case.l1(tile))
        session.run(dfb=tilize_buffers(session, p, memory))
        if p.config.deallocate_activation and memory.buffer_type is not BufferType.DRAM:
            session.end(given)
    weights = TensorLayout(TILED, DRAM_MEMORY)
    inputs = [tile, TensorSpec((1, 1, p.cin, p.cout), p.dtype_weights, weights)]
    if p.bias:
        inputs.append(TensorSpec((1, 1, 1, p.cout), p.dtype_weights, weights))
    compute = (("fp32", p.fp32), ("l1acc", p.l1_acc))
    activation = p.config.activation
    need(activation not in _NOT_AFTER_MATMUL, f"Undefined non-parametrized op type {activation}")
    if activation is not None and activation not in ACTIVATIONS:
        activation = "exp"  # like this one, it runs as a program of its own
    attrs = {"transpose_a": False, "transpose_b": False, "activation": activation, "compute": compute}
    query = OpQuery(LINEAR, tuple(inputs), tuple(attrs.items()), None, None, p.dtype_out)
    linear = matmul(Case(query, case.device, attrs, case.l1_small_bytes))
    session.run(dfb=linear.cb if linear.peak is None else linear.peak)
    if linear.peak is not None:  # bias or activation came in a program of its own
        session.run(dfb=4 * p.dtype_out.tile_bytes)
    out = TensorSpec(shape, p.dtype_out, TensorLayout(TILED, DRAM_MEMORY))
    if held is not given and p.config.deallocate_activation:
        session.end(held)
    block: Buffer | None = None
    if case.output is not None and case.output != DRAM_MEMORY:
        out, block = _moved(session, case, out, case.output)
    copied = 0 if held is given else case.l1(tile)
    choice = linear.choice_room + copied if linear.choice_room else 0
    usage = session.summed((out,), linear.cores, _number(block))
    return replace(usage, block=linear.block, blocks=linear.blocks, plan=linear.plan, choice_room=choice)


def _dram(case: Case, p: ConvProblem, shape: tuple[int, ...], page: PageLayout) -> Usage:
    """The DRAM path: the result is DRAM interleaved whatever was requested."""
    tile = page is PageLayout.TILE
    need(tile or p.dtype_out is not DType.BFP8_B, "Conv output can't be in Row Major if output dtype is BFloat8_B.")
    need(p.memory.buffer_type is BufferType.DRAM, "Conv DRAM expects the input tensor to be in DRAM.")
    need(not p.memory.is_sharded, "Input Tensor to Conv DRAM should be in Interleaved Memory Layout")
    along_height, count = slices_of(case, p, tile)
    need(p.config.activation not in _NOT_IN_KERNEL, f"Unsupported activation: {p.config.activation}")
    session = _start(case, p)
    run_slices(session, case, p, along_height, count, tile)
    # A result of one slice is copied as the convolution left it, in tiles.
    out = case.result(shape, p.dtype_out, DRAM_MEMORY, TILED if count == 1 else page)
    usage = session.summed((out,), case.device.num_cores, None)
    return replace(usage, slices=max(1, count), slices_along_height=along_height)
