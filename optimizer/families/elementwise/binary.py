"""Element-wise ops of two and three operands: BinaryNg, Ternary.

Without a requested layout the output follows operand 0, or the sharded operand on the most cores. Row-major
operands that are sharded, or meet a tiled one, are tilized first.
Sources: tt-metal 0.81 `eltwise/binary_ng`, `eltwise/ternary`, and answers of mock devices.
"""

from __future__ import annotations

from dataclasses import replace

from optimizer.errors import ShapeError
from optimizer.families.elementwise.unary import (
    complete,
    is_uneven,
    same_cores,
    typecast_buffers,
    unary_buffers,
    unary_output,
)
from optimizer.ir.activations import OPERAND_ACTIVATIONS
from optimizer.ir.dtype import FLOATS, WORDS, DType
from optimizer.ir.shape_rules import broadcast
from optimizer.layouts.memory_config import MemoryConfig
from optimizer.opmodel.analytical.case import Case, Usage, need, refuse
from optimizer.opmodel.analytical.derive import scaled_memory
from optimizer.opmodel.analytical.device_run.padding import to_layout
from optimizer.opmodel.analytical.device_run.session import Session
from optimizer.opmodel.analytical.tensors import HEIGHT, ROWS, TILED
from optimizer.opmodel.base import TensorSpec

UNARY_WITH_SCALAR = frozenset(
    f"ttnn.{name}"
    for name in (
        "maximum", "minimum", "pow", "fmod", "remainder", "prelu", "bitwise_and", "bitwise_or", "bitwise_xor",
        "bitwise_left_shift",
    )
)  # fmt: skip
"""Binary ops that are unary ops when the second operand is a number."""
SUMS = frozenset({"ttnn.add", "ttnn.subtract", "ttnn.rsub", "ttnn.squared_difference"})
"""Ops of the matrix unit, which holds more tiles at once than the vector unit."""
BOTH_TESTED = frozenset({"ttnn.logical_and", "ttnn.logical_or", "ttnn.logical_xor"})
"""Ops that first map both operands to 0 or 1, through a buffer each."""

NEGATED = "ttnn.rsub"
"""First negates its operand, through a buffer."""


def _broadcast_shape(case: Case) -> tuple[int, ...]:
    try:
        return broadcast(*(t.shape for t in case.inputs))
    except ShapeError as error:
        refuse(f"Invalid subtile broadcast type: {error.message}")


def _last_two(shape: tuple[int, ...]) -> tuple[int, int]:
    return (shape[-2] if len(shape) > 1 else 1, shape[-1] if shape else 1)


# -- binary ----------------------------------------------------------------------------------------------
def binary(case: Case) -> Usage:
    b = case.operand(1)
    if b is None and case.query.op in UNARY_WITH_SCALAR:
        return _as_unary(case)
    shape = _broadcast_shape(case)
    rows = case.x.layout.page_layout is ROWS
    if rows != (b is not None and b.layout.page_layout is ROWS) and b is not None:
        return _tilized(case, shape)
    if rows and any(t.layout.is_sharded for t in case.inputs):
        return _tilized(case, shape)
    out = case.result(shape, case.dtype(), _memory(case, case.x, b, shape), case.x.layout.page_layout)
    return Usage((out,), cb=_buffers(case, case.x, b, out), cores=case.device.num_cores)


def atan2(case: Case) -> Usage:
    """Of a tensor and a number, the number is made a tensor like the first one."""
    if case.operand(1) is not None:
        return binary(case)
    x = case.x
    out = case.result(x.shape, case.dtype(), _memory(case, x, x, x.shape), x.layout.page_layout)
    return _composed(case, [x, out], _buffers(case, x, x, out), out)


def prelu(case: Case) -> Usage:
    """Slopes in a tensor: `where(x > 0, x, x * slopes)`, the test lying like x and the product like the result."""
    b = case.operand(1)
    if b is None:
        return binary(case)
    x, shape = case.x, _broadcast_shape(case)
    need(x.layout.page_layout is TILED and b.layout.page_layout is TILED, "prelu needs tiles")
    out = case.result(shape, case.dtype(), _memory(case, x, b, shape), TILED)
    operands = (x, x, out)
    native = _ternary_native(operands, out)
    cb = sum(2 * t.dtype.tile_bytes for t in (*operands, out) if not (native and t.layout.is_sharded))
    return _composed(case, [x, out, out], cb, out)


def _composed(case: Case, made: list[TensorSpec], cb: int, out: TensorSpec) -> Usage:
    """Several programs, the last of which has the most buffers, all tensors `made` on the way being there."""
    tensors = sum(case.l1(t) for t in made if t.layout.is_l1)
    return Usage((out,), cb=cb, l1=tensors, peak=tensors + cb, cores=case.device.num_cores)


def _as_unary(case: Case) -> Usage:
    """maximum, minimum and pow of a tensor and a number: a unary op, and a typecast where a type is asked."""
    x, asked = case.x, case.query.output_dtype
    need(asked is None or case.query.op != "ttnn.pow", "ttnn.pow(): incompatible function arguments")
    out = unary_output(case, case.output, x.dtype)
    session = Session(case, endless=True)
    session.hold(case.l1(out))
    session.run(dfb=unary_buffers(case, x, out))
    if asked is not None and asked is not out.dtype:
        bare = case.output is not None and case.output.is_sharded and case.output.shard_spec is None
        need(not bare, "bad optional access: the typecast needs shards")
        cast = case.result(x.shape, asked, out.layout.memory, x.layout.page_layout)
        session.hold(case.l1(cast))
        session.run(dfb=typecast_buffers(out, cast))
        out = cast
    return replace(session.summed((out,), case.device.num_cores), room=None, allocations=None)


def _memory(case: Case, a: TensorSpec, b: TensorSpec | None, shape: tuple[int, ...]) -> MemoryConfig:
    memory = case.output
    if memory is not None and not (memory.is_sharded and memory.shard_spec is None):
        return memory
    source = _source(a, b, memory is not None)
    if memory is not None and (b is None or not source.layout.is_sharded):
        return complete(case, memory, shape, source)
    return scaled_memory(source, shape)


def _source(a: TensorSpec, b: TensorSpec | None, asked: bool) -> TensorSpec:
    """The operand whose memory config the result takes."""
    if b is None or b.layout.shard_spec is None:
        return a
    if a.layout.shard_spec is None:
        return b if a.layout.is_dram or asked else a
    more = b.layout.shard_spec.num_cores > a.layout.shard_spec.num_cores
    return b if more and not asked else a


def _native(a: TensorSpec, b: TensorSpec | None, out: TensorSpec) -> bool:
    """Whether shards serve as buffers where they lie (`is_native_L1_sharding`, `get_shard_specs`)."""
    if not (out.layout.is_sharded and out.layout.is_l1):
        return False
    sharded = [t for t in (a, b) if t is not None and t.layout.is_sharded]
    if any(t.layout.is_dram or not same_cores(t.layout.shard_spec, out.layout.shard_spec) for t in sharded):
        return False
    alike = b is not None and a.shape == b.shape and a.layout.memory == b.layout.memory
    if alike and a.layout.shard_spec == out.layout.shard_spec:
        return True
    in_place = a.layout.is_sharded if b is None else _native_broadcast(a, b, out)
    fits = a.layout.is_l1 if alike else in_place
    return fits and not any(is_uneven(t) for t in (*sharded, out))


def _native_broadcast(a: TensorSpec, b: TensorSpec, out: TensorSpec) -> bool:
    """Height shards of operand 0 stay where an interleaved column or number is broadcast to them."""
    (high_a, wide_a), (high_b, wide_b) = _last_two(a.shape), _last_two(b.shape)
    column = wide_b == 1 and wide_a > 1 and (high_b == high_a or (high_b == 1 and high_a > 1))
    kinds = a.layout.memory_layout is HEIGHT and out.layout.memory_layout is HEIGHT
    return kinds and not b.layout.is_sharded and a.shape == out.shape and column


def _buffers(case: Case, a: TensorSpec, b: TensorSpec | None, out: TensorSpec) -> int:
    """Circular buffers of a BinaryNg program: two tiles each, none for native shards, one for a number."""
    native = _native(a, b, out)
    cb = 0 if native and out.layout.is_sharded else 2 * out.dtype.tile_bytes
    cb += 0 if native and a.layout.is_sharded else 2 * a.dtype.tile_bytes
    second = b.dtype if b is not None else (DType.BF16 if a.dtype.is_block_float else a.dtype)
    if b is None:
        cb += second.tile_bytes
    elif not (native and b.layout.is_sharded):
        cb += 2 * second.tile_bytes
    subtile = b is not None and _last_two(a.shape) != _last_two(b.shape)
    if subtile:
        assert b is not None
        cb += 2 * (a if _repeated(a, b) else b).dtype.tile_bytes
    # several tiles of whole shards are computed at a time
    whole = native and a.layout.is_sharded and (b is None or b.layout.is_sharded) and not subtile
    return cb + _before_buffers(case, (a.dtype, second, out.dtype), whole)


def _before_buffers(case: Case, dtypes: tuple[DType, DType, DType], whole: bool) -> int:
    """Buffers of what is done to the operands first: an activation each, a test, a change of sign."""
    a, second, out = dtypes
    tested = case.query.op in BOTH_TESTED
    asked = [bool(case.attrs.get(name)) for name in OPERAND_ACTIVATIONS]
    first, then = tested or case.query.op == NEGATED or asked[0], tested or asked[1]
    many = _tiles_at_once(a, second, out) if tested or case.query.op in SUMS else 2
    return (many if whole else 1) * (first * a.tile_bytes + then * second.tile_bytes)


def _tiles_at_once(a: DType, b: DType, out: DType) -> int:
    """Tiles of native shards that the matrix unit computes at once: as many as the registers hold."""
    wide = DType.F32.tile_bytes
    if a is b and a.tile_bytes == wide:
        return 2
    return 4 if wide in (a.tile_bytes, b.tile_bytes, out.tile_bytes) else 8


def _repeated(a: TensorSpec, b: TensorSpec) -> bool:
    """Whether operand 0 is the one broadcast inside its tiles (`get_subtile_broadcast_type`)."""
    (high_a, wide_a), (high_b, wide_b) = _last_two(a.shape), _last_two(b.shape)
    if high_a == 1 and wide_a == 1:
        return True
    if high_b == 1 and wide_b == 1:
        return False
    return high_a == 1 if high_a != high_b else wide_a == 1


def _tilized(case: Case, shape: tuple[int, ...]) -> Usage:
    """Operands are tilized, and the result goes back to rows when all of them were rows."""
    session = Session(case)
    tiled = [to_layout(session, held, TILED) for held in session.inputs]
    a, b = tiled[0].tensor(), tiled[1].tensor() if len(tiled) > 1 else None
    out = session.make(shape, case.dtype(), TILED, _memory(case, a, b, shape))
    session.run(cb=_buffers(case, a, b, out.tensor()))
    if all(t.layout.page_layout is ROWS for t in case.inputs):
        out = to_layout(session, out, ROWS)
    return session.usage(out)


# -- ternary ---------------------------------------------------------------------------------------------
def ternary(case: Case) -> Usage:
    """where, addcmul, addcdiv, lerp, mac: tensor or scalar second and third operands."""
    if len(case.inputs) == 1:
        out = unary_output(case, case.output, case.dtype())
        return Usage((out,), cb=unary_buffers(case, case.x, out), cores=case.device.num_cores)
    for tensor in case.inputs:
        need(
            tensor.layout.is_tile or tensor.layout.is_sharded, "Ternary operation requires tensor to be in Tile layout"
        )
    _check_ternary_types(case)
    shape = _broadcast_shape(case)
    memory = _ternary_memory(case, shape)
    out = case.result(shape, case.query.output_dtype or case.inputs[1].dtype, memory, case.x.layout.page_layout)
    native = _ternary_native(case.inputs, out)
    cb = sum(2 * t.dtype.tile_bytes for t in (*case.inputs, out) if not (native and t.layout.is_sharded))
    if len(case.inputs) == 3 and _row_broadcast(case.inputs):
        cb += sum(2 * t.dtype.tile_bytes for t in case.inputs)
    return Usage((out,), cb=cb, cores=case.device.num_cores)


def _check_ternary_types(case: Case) -> None:
    """`where` takes any condition; what it chooses from, and what the others compute with, is of one type."""
    numbers = case.query.op == "ttnn.where" and len(case.inputs) == 1
    need(not numbers or case.x.dtype in FLOATS | WORDS, f"where of numbers takes no {case.x.dtype.value}")
    chosen = case.inputs if case.query.op != "ttnn.where" or len(case.inputs) == 2 else case.inputs[1:2]
    alike = len({t.dtype for t in chosen}) == 1
    need(alike, f"Mixed dtype is not supported: {', '.join(t.dtype.value for t in case.inputs)}")


def _ternary_memory(case: Case, shape: tuple[int, ...]) -> MemoryConfig:
    """The requested config; shards without spec are those of the first sharded operand, scaled."""
    sharded = [t for t in case.inputs if t.layout.shard_spec is not None]
    if case.output is not None:
        return complete(case, case.output, shape, sharded[0] if sharded else case.x)
    if not sharded:
        return case.x.layout.memory
    # The largest grid wins, the first of several.
    return scaled_memory(max(sharded, key=lambda t: t.layout.num_shard_cores), shape)


def _ternary_native(inputs: tuple[TensorSpec, ...], out: TensorSpec) -> bool:
    first = inputs[0]
    if not (out.layout.is_sharded and out.layout.is_l1 and first.layout.is_l1):
        return False
    alike = all(t.shape == first.shape and t.layout.memory == first.layout.memory for t in inputs)
    if not alike or is_uneven(first) or is_uneven(out):
        return False
    return not first.layout.is_sharded or same_cores(first.layout.shard_spec, out.layout.shard_spec)


def _row_broadcast(inputs: tuple[TensorSpec, ...]) -> bool:
    """All of one width, some of one row (`TernaryBroadcastType::ROW_BCAST`)."""
    pairs = [_last_two(t.shape) for t in inputs]
    highs = {high for high, _ in pairs}
    return len({wide for _, wide in pairs}) == 1 and len(highs) == 2 and 1 in highs
