"""Writes the kernel API's header for the executor: real signatures, bodies on `tensix::` of the headers beside it.

Signatures come from `kernel_api.tsv`, an excerpt of the functions of ttnn 0.81.1's headers (name, arguments, template)
that kernels of ours call.
"""

from __future__ import annotations

import csv
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from optimizer.kernels.tensix.device.sfpu import PRODUCTS, SUMS, rounds
from optimizer.kernels.tensix.executor.semantics import ELEMENTWISE, SPREAD, WHOLE_TILE
from optimizer.kernels.tensix.tile_forms import Call, Form, Place, Unit
from optimizer.kernels.tensix.tile_ops import NEAREST, TILE_OPS, TileOp


@dataclass(frozen=True)
class Signature:
    """A function as the API declares it."""

    name: str
    args: tuple[str, ...]
    """Declarations, defaults included."""
    template: str

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the arguments."""
        return tuple(arg.split("=")[0].split()[-1] for arg in self.args)

    @property
    def template_names(self) -> tuple[str, ...]:
        """Names of the template's parameters."""
        inside = self.template[self.template.find("<") + 1 : self.template.rfind(">")] if self.template else ""
        return tuple(part.split("=")[0].split()[-1] for part in _split(inside))

    @property
    def declaration(self) -> str:
        return f"{self.template + ' ' if self.template else ''}inline void {self.name}({', '.join(self.args)})"


def _split(text: str) -> tuple[str, ...]:
    """Parts between commas that stand in no brackets."""
    parts, depth, start = [], 0, 0
    for at, character in enumerate(text):
        depth += {"<": 1, "(": 1, ">": -1, ")": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    return tuple(p.strip() for p in (*parts, text[start:]) if p.strip())


@cache
def signatures() -> dict[str, tuple[Signature, ...]]:
    """By name; overloads in the order of the headers."""
    found: dict[str, list[Signature]] = {}
    text = (files("optimizer.kernels.tensix.executor") / "kernel_api.tsv").read_text(encoding="utf-8")
    for row in csv.DictReader(text.splitlines(), delimiter="\t"):
        one = Signature(row["name"], _split(row["args"]), row["template"])
        found.setdefault(one.name, []).append(one)
    return {name: tuple(row) for name, row in found.items()}


def signature(call: Call) -> Signature:
    """The overload that a call means."""
    rows = signatures()[call.function]
    return next(s for s in rows if len(s.args) >= len(call.args) and bool(s.template) >= bool(call.template))


def header(called: Collection[str]) -> str:
    """The header with the functions of `called` (and those that every kernel has)."""
    functions = [text for name, text in _functions().items() if name in called]
    return _PROLOGUE + "\n".join(functions) + "\n" + _COMMON


@cache
def _functions() -> dict[str, str]:
    """Definition by name, inits first."""
    inits: dict[str, tuple[Signature, list[str]]] = {}
    calls: dict[str, tuple[Signature, list[str]]] = {}
    for op in TILE_OPS.values():
        for form in op.forms:
            for table, call, body in ((inits, form.init, _init_body), (calls, form.call, _call_body)):
                found = signature(call)
                _, bodies = table.setdefault(found.name, (found, []))
                text = body(op, form, call, found)
                if text not in bodies:
                    bodies.append(text)
    both = (*inits.values(), *calls.values())
    return {found.name: f"{found.declaration} {{\n    {' '.join(bodies)}\n}}" for found, bodies in both}


def _condition(call: Call, found: Signature) -> str:
    """`if constexpr` for the template arguments that tell ops of one function apart."""
    tests = [
        f"{name} == {value}"
        for name, value in zip(found.template_names, call.template, strict=False)
        if "::" in value and value != NEAREST
    ]
    return f"if constexpr ({' && '.join(tests)}) " if tests else ""


def _key(form: Form, by_token: dict[str, str], formats: dict[str, str]) -> str:
    """The C++ expression of the init that a form needs, from the names of buffers."""
    init = form.init
    typed = f"<{', '.join(t for t in init.template if '::' in t)}>" if any("::" in t for t in init.template) else ""
    key = f'std::string("{init.function}{typed}(")'
    for token in init.args:
        if token in by_token:
            key += f' + std::to_string({by_token[token]}) + ","'
    for token in init.template:
        if token.endswith(":format"):
            key += f' + std::to_string({formats[token]}) + ","'
    return f'{key} + ")"'


def _arguments(call: Call, found: Signature) -> dict[str, str]:
    """Token of a call -> name of the argument."""
    return dict(zip(call.args, found.names, strict=False))


def _init_body(op: TileOp, form: Form, call: Call, found: Signature) -> str:
    by_token = _arguments(call, found)
    sfpu = "true" if form.unit is Unit.SFPU else "false"
    mask = ""
    if op.name.startswith("reduce_"):
        kind = {"row": "Row", "col": "Column"}.get(op.name.rsplit("_", 1)[1], "Element")
        mask = f"tensix::dst.mask = tensix::Mask::{kind}; "
    formats = dict(zip(call.template, found.template_names, strict=False))
    known = {t: by_token[t] for t in by_token if t != "out_cb" and not t.isdigit()}
    if op.name in ("matmul", "matmul_t"):
        mask = "tensix::dst.transpose = transpose != 0; "
    return f"{_condition(call, found)}{{ {mask}tensix::init({sfpu}, {_key(form, known, formats)}); }}"


def _call_body(op: TileOp, form: Form, call: Call, found: Signature) -> str:
    by_token = _arguments(call, found)
    what = f'"{call.function}"'
    sfpu = "true" if form.unit is Unit.SFPU else "false"
    formats = dict(zip(call.template, found.template_names, strict=False))
    lines = [f"tensix::computes({what}, {sfpu}, {_key(form, by_token, formats)});"]
    names = "abc"[: op.arity]
    unpack = "for_dst" if form.unit is Unit.UNPACK else "for_source"
    for name, place in zip(names, form.places, strict=True):
        slot = by_token.get(name, by_token["d"])
        source = (
            f"tensix::{unpack}(tensix::front({what}, {by_token[f'{name}_cb']}, {by_token[f'{name}_tile']}), "
            f"{by_token[f'{name}_cb']})"
            if place is Place.CB
            else f"tensix::read({what}, {slot})"
        )
        if form.unit is Unit.REUSE and place is Place.DST:
            source = f"tensix::reused({source}, {by_token['a_cb' if name == 'b' else 'b_cb']})"
        lines.append(f"const tensix::Tile tile_{name} = {source};")
    lines += _format_checks(op, form, what, by_token)
    if form.narrow:
        lines.append(f"tensix::writes_sixteen_bits({what}, {by_token['a_cb']});")
    target = by_token["d"]
    if form.accumulates and not op.accumulates:
        lines.append(f"tensix::clear_slot({what}, {target});")
    if "$data_format" in call.template:
        given = found.template_names[call.template.index("$data_format")]
        lines.append(f"tensix::keeps_format({what}, {given} == DataFormat::Float32);")
    for attr in op.attrs:
        token = next(t for t in (*call.args, *call.template) if t.lstrip("$").split(":")[0] == attr)
        if token.endswith(":format"):
            lines.append(f"constexpr uint32_t {attr} = {found.template_names[call.template.index(token)]};")
            continue
        given = by_token[token]
        read = f"given_{attr}" if token.endswith(":float") else f"tensix::from_bits(given_{attr})"
        # the argument may have the attribute's name, which hides it
        lines.append(f"const auto given_{attr} = {given}; const tensix::wide {attr} = {read};")
    lines += _compute(op, form, names, what, by_token, _nearest(op, form, found))
    return f"{_condition(call, found)}{{ {' '.join(lines)} }}"


def _format_checks(op: TileOp, form: Form, what: str, by_token: dict[str, str]) -> list[str]:
    """That the unpacker is set to what the circular buffers hold; one operand may go to either source."""
    buffers = [by_token[f"{n}_cb"] for n, place in zip("abc", form.places, strict=False) if place is Place.CB]
    if not buffers:
        return []
    first, second = (buffers[0], buffers[-1])[:: -1 if form.reversed_sources else 1]
    checks = [f"tensix::unpacks({what}, {first}, {second});"]
    if form.unit in (Unit.FPU, Unit.REUSE):
        checks += [f"tensix::for_the_fpu({what}, {cb});" for cb in dict.fromkeys(buffers)]
    return checks


def _nearest(op: TileOp, form: Form, found: Signature) -> str:
    """The C++ condition under which a result of the SFPU is rounded before it is stored."""
    if NEAREST in form.call.template:
        return f"{found.template_names[form.call.template.index(NEAREST)]} == {NEAREST}"
    return str(rounds(op.name, form)).lower()


def _compute(op: TileOp, form: Form, names: str, what: str, by_token: dict[str, str], nearest: str) -> list[str]:
    target = by_token["d"]
    if op.name in ("matmul", "matmul_t"):
        return [f"accumulate_matmul({what}, {target}, tile_a, tile_b, tensix::dst.transpose);"]
    if op.accumulates:
        _, kind, axis = op.name.split("_")
        maximum = str(kind == "max").lower()
        return [f"accumulate_reduce({what}, {target}, {by_token['a_cb']}, tile_a, tile_b, {maximum}, '{axis[0]}');"]
    if op.name in WHOLE_TILE:
        views = "".join(f"const tensix::Tile& {v} = tile_{n}; " for v, n in zip("xy", names, strict=False))
        made, at = f"made(i, j) = {WHOLE_TILE[op.name]};", "x(i, j), " + SPREAD.get(op.name, "")
        loops = "for (int i = 0; i < 32; ++i) for (int j = 0; j < 32; ++j) "
    else:
        views, loops, at = "", "for (int k = 0; k < 1024; ++k) ", "tile_a.at[k], tile_b.at[k]"
        reads = "".join(f"const tensix::wide {n} = tile_{n}.at[k]; " for n in names)
        made = f"{{ {reads}made.at[k] = float({ELEMENTWISE[op.name]}); }}"
    given = f"{views}tensix::Tile made; {loops}{made}"
    if form.unit in (Unit.FPU, Unit.REUSE):
        into = "made(i, j)" if op.name in WHOLE_TILE else "made.at[k]"
        on_device = f"if (tensix::on_device) {loops}{into} = {_on_fpu(op.name, at)};"
        return [f"{given} {on_device} tensix::write({what}, {target}, made);"]
    if form.unit is Unit.SFPU:
        signless = "tensix::signless_sums" if op.name in SUMS else str(op.name in PRODUCTS).lower()
        return [f"{given} tensix::write_vector({what}, {target}, made, {nearest}, {signless});"]
    return [f"{given} tensix::write({what}, {target}, made);"]


def _on_fpu(name: str, operands: str) -> str:
    """The C++ of add, sub and mul on the FPU."""
    kind = name.split("_")[0]
    if kind == "mul":
        return f"tensix::fpu_multiply({operands})"
    first, second = operands.split("), ") if ")" in operands else operands.split(", ")
    first = f"{first})" if ")" in operands else first
    return f"tensix::fpu_add({first}, {'-' if kind == 'sub' else ''}{second})"


_PROLOGUE = """// Generated by executor/header.py: signatures of the kernel API with bodies on noc.hpp.
#pragma once
#include "noc.hpp"

enum class BroadcastType { NONE, COL, ROW, SCALAR };
enum class PoolType { SUM, AVG, MAX, MIN };
enum class ReduceDim { REDUCE_ROW, REDUCE_COL, REDUCE_SCALAR };
enum class EltwiseBinaryType { ELWMUL, ELWDIV, ELWADD, ELWSUB, ELWLESS };
enum class EltwiseBinaryReuseDestType { NONE, DEST_TO_SRCA, DEST_TO_SRCB };
enum class DataFormat : uint32_t { Float32 = 0, Float16 = 1, Float16_b = 5, Bfp8_b = 6, Bfp4_b = 7 };
enum class VectorMode { None, R, C, RC };
enum class InputClamping { None, ClampToNegative };
enum class ReciprocalDestAcc { FP32, BF16 };
enum class ReciprocalApproxMode { Default };
enum class RsqrtMode { Default };
enum class RoundingMode { None };
enum class SrcOrder { Regular, Reverse };
namespace ckernel { enum class DstRoundingMode { Default, NearestEven }; }
namespace p_sfpu { constexpr uint16_t kCONST_1_FP16B = 0x3f80; }
constexpr bool DST_ACCUM_MODE = false;

inline void accumulate_matmul(const char* what, uint32_t target, const tensix::Tile& a, const tensix::Tile& b,
                              bool transpose) {
    tensix::Tile made = tensix::dst.tiles[tensix::slot(what, target)];
    if (tensix::on_device) {
        tensix::device_matmul(made, a, b, transpose);
        return tensix::write(what, target, made);
    }
    for (int i = 0; i < 32; ++i)
        for (int j = 0; j < 32; ++j) {
            tensix::wide sum = 0;
            for (int k = 0; k < 32; ++k) sum += tensix::wide(a(i, k)) * (transpose ? b(j, k) : b(k, j));
            made(i, j) = float(made(i, j) + sum);
        }
    tensix::write(what, target, made);
}

inline void accumulate_reduce(const char* what, uint32_t target, uint32_t cb, const tensix::Tile& x,
                              const tensix::Tile& scaler, bool maximum, char axis) {
    for (float v : scaler.at)
        if (maximum && v != 1) tensix::fail("%s scales a maximum by other than 1", what);
    const bool fresh = !tensix::dst.defined[tensix::slot(what, target)];
    tensix::Tile made = tensix::dst.tiles[target];
    if (tensix::on_device && !maximum) {
        tensix::device_sum(made, x, scaler(0, 0), axis, tensix::core.buffers[cb].format);
        return tensix::write(what, target, made);
    }
    if (tensix::on_device)
        for (float& v : made.at) v = tensix::kept(v, 19);
    const int lines = axis == 's' ? 1 : 32;
    for (int n = 0; n < lines; ++n) {
        tensix::wide part = maximum ? -std::numeric_limits<float>::infinity() : 0.0f;
        for (int m = 0; m < 32; ++m)
            for (int l = axis == 's' ? 0 : n; l < (axis == 's' ? 32 : n + 1); ++l) {
                const tensix::wide value = axis == 'r' ? x(l, m) : x(m, l);
                part = maximum ? tensix::larger(part, value) : part + value;
            }
        part = (part + 0) * scaler(0, 0);  // a maximum of zeros is +0
        if (axis == 's' && !maximum) part *= scaler(0, 0);
        float& total = axis == 'c' ? made(0, n) : made(n, 0);
        total = float(maximum ? (fresh ? part : tensix::larger(total, part)) : total + part);
    }
    tensix::write(what, target, made);
}

"""


_COMMON = """using tensix::cb_pop_front; using tensix::cb_push_back; using tensix::cb_reserve_back;
using tensix::cb_wait_front; using tensix::tile_regs_acquire; using tensix::tile_regs_commit;
using tensix::tile_regs_release; using tensix::tile_regs_wait;
inline void reduce_uninit(uint32_t icb = 0) { (void)icb; tensix::dst.mask = tensix::Mask::None; }
template <SrcOrder src_order = SrcOrder::Regular>
inline void compute_kernel_hw_startup(uint32_t icb0, uint32_t icb1, uint32_t ocb) {
    constexpr bool reversed = src_order == SrcOrder::Reverse;
    tensix::startup("compute_kernel_hw_startup", reversed ? icb1 : icb0, reversed ? icb0 : icb1, ocb);
}
inline std::string block_key(uint32_t a, uint32_t b, uint32_t transpose, uint32_t ct, uint32_t rt, uint32_t kt) {
    std::string key = "matmul_block_init(";
    for (uint32_t n : {a, b, transpose, ct, rt, kt}) key += std::to_string(n) + ",";
    return key + ")";
}
inline void matmul_block_init(
    uint32_t in0_cb_id, uint32_t in1_cb_id, const uint32_t transpose = 0, uint32_t ct_dim = 1, uint32_t rt_dim = 1,
    uint32_t kt_dim = 1) {
    tensix::dst.transpose = transpose != 0;
    tensix::init(false, block_key(in0_cb_id, in1_cb_id, transpose, ct_dim, rt_dim, kt_dim));
}
inline void matmul_block(
    uint32_t in0_cb_id, uint32_t in1_cb_id, uint32_t in0_tile_index, uint32_t in1_tile_index, uint32_t idst,
    const uint32_t transpose, uint32_t ct_dim, uint32_t rt_dim, uint32_t kt_dim) {
    const char* what = "matmul_block";
    tensix::computes(what, false, block_key(in0_cb_id, in1_cb_id, transpose, ct_dim, rt_dim, kt_dim));
    tensix::unpacks(what, in1_cb_id, in0_cb_id);
    tensix::for_the_fpu(what, in0_cb_id);
    tensix::for_the_fpu(what, in1_cb_id);
    for (uint32_t r = 0; r < rt_dim; ++r)
        for (uint32_t c = 0; c < ct_dim; ++c) {
            const tensix::Tile& left = tensix::front(what, in0_cb_id, in0_tile_index + r * kt_dim);
            const tensix::Tile& right = tensix::front(what, in1_cb_id, in1_tile_index + c);
            const tensix::Tile a = tensix::for_source(left, in0_cb_id), b = tensix::for_source(right, in1_cb_id);
            accumulate_matmul(what, idst + r * ct_dim + c, a, b, tensix::dst.transpose);
        }
}
template <bool out_of_order_output = false, bool is_fp32_dest_acc_en = DST_ACCUM_MODE>
inline void pack_tile(uint32_t ifrom_dst, uint32_t icb, uint32_t output_tile_index = 0) {
    tensix::pack("pack_tile", ifrom_dst, icb, out_of_order_output ? int64_t(output_tile_index) : -1);
}
template <bool is_fp32_dest_acc_en = DST_ACCUM_MODE>
inline void pack_block(uint32_t ifrom_dst, uint32_t icb, uint32_t ntiles) {
    for (uint32_t k = 0; k < ntiles; ++k) tensix::pack("pack_block", ifrom_dst + k, icb, -1);
}
template <SrcOrder src_order = SrcOrder::Regular>
inline void reconfig_data_format(const uint32_t icb0_new_operand, const uint32_t icb1_new_operand) {
    tensix::reconfigure("reconfig_data_format", icb0_new_operand, icb1_new_operand);
}
template <bool is_tile_dim_reconfig_en = false>
inline void pack_reconfig_data_format(const uint32_t new_cb_id) {
    tensix::reconfigure_packer("pack_reconfig_data_format", new_cb_id);
}
template <uint32_t CTA, uint32_t CRTA = 0>
struct TensorAccessorArgs {
    static constexpr uint32_t next_compile_time_args_offset() { return CTA + 1; }
};
struct TensorAccessor {
    uint32_t tensor;
    template <class Args>
    TensorAccessor(const Args&, uint32_t address, uint32_t) : tensor(address) {}
};
template <class T>
inline T get_common_arg_val(int index) {
    if (size_t(index) >= tensix::common_args.size()) tensix::fail("common argument %d is not there", index);
    return T(tensix::common_args[index]);
}
template <class T>
inline T get_arg_val(int index) {
    if (size_t(index) >= tensix::unique_args.size()) tensix::fail("argument %d is not there", index);
    return T(tensix::unique_args[index]);
}
inline void pack_reconfig_l1_acc(const std::uint32_t l1_acc_en) { tensix::dst.adds = l1_acc_en != 0; }
inline uint8_t get_absolute_logical_x() { return tensix::core.x; }
inline uint8_t get_absolute_logical_y() { return tensix::core.y; }
inline int32_t get_tile_size(int32_t operand) { return int32_t(tensix::buffer("get_tile_size", operand).tile_bytes); }
inline uint32_t get_write_ptr(uint32_t cb) { return tensix::write_pointer(cb); }
inline uint32_t get_read_ptr(uint32_t cb) { return tensix::read_pointer(cb); }
inline void noc_async_read_page(uint32_t id, const TensorAccessor& addrgen, uint32_t dst_local_l1_addr) {
    tensix::start_read(addrgen.tensor, id, dst_local_l1_addr);
}
inline void noc_async_write_page(uint32_t id, const TensorAccessor& addrgen, uint32_t src_local_l1_addr) {
    tensix::start_write(addrgen.tensor, id, src_local_l1_addr);
}
inline void noc_async_read_barrier() { tensix::finish_reads(); }
inline void noc_async_write_barrier() { tensix::finish_writes(); tensix::finish_parcels(); }
"""
"""Synchronisation, packing, the common init and data movement."""
