"""Writes the functions of the kernel API that a kernel calls, for the executor: real signatures, bodies on the headers
beside it. What every kernel has is in `api_common.hpp`, what ops make of an element in `meanings.hpp`.

Signatures come from `kernel_api.tsv`, an excerpt of the functions of ttnn 0.81.1's headers (name, arguments, template)
that our kernels call.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType

from optimizer.kernels.tensix.device.sfpu import PRODUCTS, SUMS, rounds
from optimizer.kernels.tensix.kernel_api import declarations
from optimizer.kernels.tensix.tile_forms import Call, Form, Place, Unit
from optimizer.kernels.tensix.tile_ops import NEAREST, TILE_OPS, TileOp

_REPEATED = {"row": "(0, j)", "col": "(i, 0)", "scalar": "(0, 0)"}
WHOLE_TILE: Mapping[str, str] = MappingProxyType(
    {
        "transpose": "x(j, i)",
        **{f"bcast_{which}": f"x{at}" for which, at in _REPEATED.items()},
        **{
            f"{name}_bcast_{which}": f"x(i, j) {sign} y{at}"
            for name, sign in (("add", "+"), ("sub", "-"), ("mul", "*"))
            for which, at in _REPEATED.items()
        },
    }
)
"""Element `(i, j)` of the result, from tiles `x` and `y`."""


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
    for row in declarations():
        one = Signature(row["name"], _split(row["args"]), row["template"])
        found.setdefault(one.name, []).append(one)
    return {name: tuple(row) for name, row in found.items()}


def signature(call: Call) -> Signature:
    """The overload that a call means."""
    rows = signatures()[call.function]
    return next(s for s in rows if len(s.args) >= len(call.args) and bool(s.template) >= bool(call.template))


@cache
def by_element() -> frozenset[str]:
    """Ops that `meanings.hpp` has."""
    text = (files("optimizer.kernels.tensix.executor") / "meanings.hpp").read_text(encoding="utf-8")
    return frozenset(re.findall(r"^inline wide (\w+)\(", text, re.M))


def header(called: Collection[str]) -> str:
    """The functions of `called`, but for those that every kernel has."""
    return "\n".join(text for name, text in _functions().items() if name in called) + "\n"


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
        made, at = f"made(i, j) = {WHOLE_TILE[op.name]};", f"x(i, j), y{_REPEATED.get(op.name.rsplit('_', 1)[-1], '')}"
        loops = "for (int i = 0; i < 32; ++i) for (int j = 0; j < 32; ++j) "
    else:
        views, loops, at = "", "for (int k = 0; k < 1024; ++k) ", "tile_a.at[k], tile_b.at[k]"
        reads = "".join(f"const tensix::wide {n} = tile_{n}.at[k]; " for n in names)
        operands = ", ".join((*names, *op.attrs))
        made = f"{{ {reads}made.at[k] = float(tensix::meaning::{op.name}({operands})); }}"
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
