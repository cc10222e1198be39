"""Everything that runs becomes calls of the kernel API: `ttkernel.<function>(operands) {args, template}`.

`args` are the arguments in order; `#k` in one stands for operand `k`. Loops and index arithmetic stay as they are.
"""

from __future__ import annotations

from optimizer.ir.dtype import DType
from optimizer.kernels.tensix.buffers import buffers_of
from optimizer.kernels.tensix.cpp_text import float_bits, floating, reciprocal
from optimizer.kernels.tensix.dialect import L1_SUM, L1_SUM_END
from optimizer.kernels.tensix.index_expr import IndexMap, dim
from optimizer.kernels.tensix.ir import Names, Op, Region, Value, attributes, rewrite, walk
from optimizer.kernels.tensix.passes.insert_inits import PACK_RECONFIG, RECONFIG, form_of, is_math
from optimizer.kernels.tensix.passes.noc_calls import call
from optimizer.kernels.tensix.rounding import FORMAT_NUMBERS
from optimizer.kernels.tensix.tile_forms import Call, Place
from optimizer.kernels.tensix.tile_ops import TILE_OPS
from optimizer.kernels.tensix.types import BlockType, CircularBufferType, IndexType, TensorType

_BUFFER_CALLS = {
    "ttl.cb_wait": "cb_wait_front",
    "ttl.cb_pop": "cb_pop_front",
    "ttl.cb_reserve": "cb_reserve_back",
    "ttl.cb_push": "cb_push_back",
}
_FORMATS = {
    DType.BF16: "DataFormat::Float16_b",
    DType.F32: "DataFormat::Float32",
    DType.BFP8_B: "DataFormat::Bfp8_b",
    DType.BFP4_B: "DataFormat::Bfp4_b",
}

_BY_NUMBER = {number: dtype for dtype, number in FORMAT_NUMBERS.items()}


def convert_to_ttkernel(program: Op) -> Op:
    """All threads."""
    in_parts = frozenset(op.result.name for op in walk(program) if op.name == "ttl.cb_wait" and op.has_attr("parts"))
    dst = DType.F32 if program.attr("fp32_dest_acc_en", False) else DType.BF16
    return rewrite(program, _Calls(Names(program), buffers_of(program), in_parts, dst).change)[0]


class _Calls:
    def __init__(self, names: Names, buffers: dict[str, Value], in_parts: frozenset[str], dst: DType) -> None:
        self._dst = dst
        self._names = names
        self._buffer = buffers
        """Block -> its circular buffer."""
        self._in_parts = in_parts
        """Blocks that are waited for tile by tile."""

    def change(self, op: Op) -> tuple[Op, ...]:
        if op.has_attr("parts") and op.name in ("ttl.cb_wait", "ttl.cb_push"):
            return ()
        if op.name == "ttl.cb_push_part":
            return (call("cb_push_back", op.operands, ("#0", str(op.integer("tiles")))),)
        if op.name in _BUFFER_CALLS:
            cb = op.operands[0]
            return (call(_BUFFER_CALLS[op.name], (cb,), ("#0", str(cb.typed(CircularBufferType).block.tiles))),)
        if op.name.startswith("ttl.tile_regs_"):
            return (call(op.name.removeprefix("ttl."), (), ()),)
        if op.name in ("ttl.copy_in", "ttl.copy_out"):
            return self._transfer(op)
        if op.name == "ttl.transfer_wait":
            return ()
        if op.name == "dst.startup":
            order = ("SrcOrder::Reverse",) if op.attr("reversed", False) else ()
            buffers = [self._cb(v) for v in op.operands]
            return (call("compute_kernel_hw_startup", buffers, ("#0", "#1", "#2"), order),)
        if op.name == "dst.init":
            return (self._init(op),)
        if op.name == "dst.uninit":
            return (call("reduce_uninit", (), ()),)
        if op.name in ("dst.pack", "dst.pack_block"):
            return (self._pack(op),)
        if op.name == L1_SUM:
            return (call("pack_reconfig_l1_acc", op.operands[1:], (f"#0 > {op.integer('first')}",)),)
        if op.name == L1_SUM_END:
            return (call("pack_reconfig_l1_acc", (), ("0",)),)
        if op.name == RECONFIG:
            return (call("reconfig_data_format", [self._cb(v) for v in op.operands], ("#0", "#1")),)
        if op.name == PACK_RECONFIG:
            return (call("pack_reconfig_data_format", [self._cb(op.operands[0])], ("#0",)),)
        return (self._math(op),) if is_math(op) else (op,)

    def _cb(self, block: Value) -> Value:
        return self._buffer.get(block.name, block)

    # -- compute ---------------------------------------------------------------------------------------
    def _init(self, op: Op) -> Op:
        form = TILE_OPS[op.string("op")].forms[op.integer("form", 0)]
        names = [n for n, place in zip("abc", form.places, strict=False) if place is Place.CB]
        known = {f"{n}_cb": f"#{k}" for k, n in enumerate(names)}
        known["out_cb"] = f"#{len(names)}"
        return self._emit(form.init, op, known, [self._cb(v) for v in op.operands])

    def _math(self, op: Op) -> Op:
        form = form_of(op)
        known: dict[str, str] = {}
        position = 0
        for n, place in zip("abc", form.places, strict=False):
            if place is Place.CB:
                known[f"{n}_cb"], known[f"{n}_tile"] = f"#{position}", f"#{position + 1}"
                position += 2
            else:
                known[n] = f"#{position}"
                position += 1
        known["d"] = f"#{position}"
        return self._emit(form.call, op, known, [self._cb(v) for v in op.operands])

    def _emit(self, wanted: Call, op: Op, known: dict[str, str], operands: list[Value]) -> Op:
        args = [known.get(a, self._literal(a, op)) for a in wanted.args]
        template = [self._literal(t, op) for t in wanted.template]
        used = [k for k in range(len(operands)) if f"#{k}" in args]
        numbers = {f"#{k}": f"#{new}" for new, k in enumerate(used)}
        return call(wanted.function, [operands[k] for k in used], [numbers.get(a, a) for a in args], template)

    def _literal(self, token: str, op: Op) -> str:
        """`$name` as the bits of a float32 (`:reciprocal`: of one through it), `$name:float` as a float, `$data_format`
        as DST's format."""
        if not token.startswith("$"):
            return token
        name, _, kind = token[1:].partition(":")
        if name == "data_format":
            return _FORMATS[self._dst]
        if kind == "format":
            number = int(op.number(name))
            return f"static_cast<uint32_t>({_FORMATS[_BY_NUMBER[number]]})"
        value = op.attr(name)
        if kind == "reciprocal":
            return float_bits(reciprocal(value))
        return floating(value) if kind == "float" else float_bits(value)

    def _pack(self, op: Op) -> Op:
        """Tiles are packed in order, so the packer's own position is the right one."""
        slot, block = op.operands[:2]
        cb = self._cb(block)
        if op.attr("accumulate", False):
            return call("pack_tile", (slot, cb, op.operands[2]), ("#0", "#1", "#2"), ("true",))
        if op.name == "dst.pack_block":
            return call("pack_block", (slot, cb), ("#0", "#1", str(op.integer("tiles"))))
        return call("pack_tile", (slot, cb), ("#0", "#1"))

    # -- data movement -----------------------------------------------------------------------------------
    def _transfer(self, op: Op) -> tuple[Op, ...]:
        """Tiles of a block read or written one by one, then a barrier."""
        reads = op.name == "ttl.copy_in"
        tensor, row, column = op.operands[:3] if reads else op.operands[1:]
        block = op.operands[3] if reads else op.operands[0]
        shape = block.typed(BlockType).shape
        r, c, tile, place = (self._names.value(IndexType(), stem) for stem in ("r", "c", "tile", "at"))
        width = tensor.typed(TensorType).shape[1]
        in_tensor = IndexMap(4, ((dim(0) + dim(2)) * width + (dim(1) + dim(3)),))
        in_block = IndexMap(2, (dim(0) * shape[1] + dim(1),))
        pointer = "get_write_ptr" if reads else "get_read_ptr"
        address = f"{pointer}(#2) + #3 * get_tile_size(#2)"
        function = "noc_async_read_page" if reads else "noc_async_write_page"
        inner = (
            Op("ttl.index", (row, column, r, c), (tile,), attributes({"map": in_tensor})),
            Op("ttl.index", (r, c), (place,), attributes({"map": in_block})),
            *self._awaited(block, place),
            call(function, (tile, tensor, self._cb(block), place), ("#0", "#1", address)),
        )
        loop = _loop(r, shape[0], (_loop(c, shape[1], inner),))
        barrier = "noc_async_read_barrier" if reads else "noc_async_write_barrier"
        return loop, call(barrier, (), ())

    def _awaited(self, block: Value, place: Value) -> tuple[Op, ...]:
        """The wait for one tile of a block that comes in parts."""
        if block.name not in self._in_parts:
            return ()
        return (call("cb_wait_front", (self._cb(block), place), ("#0", "#1 + 1")),)


def _loop(counter: Value, count: int, ops: tuple[Op, ...]) -> Op:
    attrs = attributes({"lower": 0, "upper": count, "step": 1})
    return Op("ttl.for", (), (), attrs, (Region((counter,), ops),))
