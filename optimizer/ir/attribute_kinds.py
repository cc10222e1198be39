"""Kinds of attribute values in JSON graphs, which anyone may write by hand.

An attribute with a default takes values of the default's kind; those without one, or with None, are
listed here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from sys import float_info
from types import MappingProxyType

from optimizer.errors import GraphError, UnknownNameError
from optimizer.families.elementwise.rows import UNARY
from optimizer.ir.activations import OPERAND_ACTIVATIONS
from optimizer.ir.compute_config import COMPUTE, FIDELITIES
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Attr, Op
from optimizer.ir.opdef import REQUIRED, OpDef
from optimizer.ir.sizes import LARGEST_INDEX, is_whole
from optimizer.options import MATH_FIDELITIES

Test = Callable[[Attr], bool]


def _is_int(value: Attr) -> bool:
    return is_whole(value, -LARGEST_INDEX, LARGEST_INDEX)


def _is_number(value: Attr) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= float_info.max


def _are_ints(value: Attr) -> bool:
    return isinstance(value, tuple) and all(map(_is_int, value))


def _is_compute(value: Attr) -> bool:
    """Whether a value is that of a `ComputeConfig`, or a part of it."""
    pairs = [v for v in value if isinstance(v, tuple) and len(v) == 2] if isinstance(value, tuple) else []
    stated = dict(pairs)
    fid = stated.pop("fid", "HiFi4")
    flags = stated.keys() <= {"approx", "fp32", "l1acc"} and all(isinstance(v, bool) for v in stated.values())
    return flags and fid in FIDELITIES.values() and bool(pairs) and value == tuple(dict(pairs).items())


def _is_size(value: Attr) -> bool:
    return is_whole(value, 1, LARGEST_INDEX)


def _are_sizes(value: Attr) -> bool:
    return isinstance(value, tuple) and all(map(_is_size, value))


def _are_arguments(value: Attr) -> bool:
    """Whether a value is names of a call's arguments, each with a number."""
    pairs = [v for v in value if isinstance(v, tuple) and len(v) == 2] if isinstance(value, tuple) else None
    named = pairs is not None and all(isinstance(n, str) and n.isidentifier() and _is_number(v) for n, v in pairs)
    return named and pairs == list(value)  # type: ignore[arg-type]


def _are_pairs(value: Attr) -> bool:
    return isinstance(value, tuple) and all(_are_ints(v) and len(v) == 2 for v in value)  # type: ignore[arg-type]


_KINDS: Mapping[str, tuple[str, Test]] = MappingProxyType(
    {
        "bool": ("true or false", lambda v: isinstance(v, bool)),
        "int": ("an integer", _is_int),
        "float": ("a number", _is_number),
        "str": ("a string", lambda v: isinstance(v, str)),
        "ints": ("a list of integers", _are_ints),
        "size": ("a positive integer", _is_size),
        "sizes": ("a list of positive integers", _are_sizes),
        "numbers": ("a list of numbers", lambda v: isinstance(v, tuple) and all(map(_is_number, v))),
        "pairs": ("a list of [before, after] pairs of integers", _are_pairs),
        "int or ints": ("an integer or a list of integers", lambda v: _is_int(v) or _are_ints(v)),
        "page": ("'tile' or 'row_major'", lambda v: v in ("tile", "row_major")),
        "dtype": (f"one of {', '.join(DType)}", lambda v: isinstance(v, str) and v in {str(d) for d in DType}),
        "compute": ("a list of pairs of fid, fp32, l1acc or approx and its value", _is_compute),
        "sharding": ("a sharding", lambda v: v in ("height_sharded", "width_sharded", "block_sharded")),
        "arguments": ("a list of pairs of a name and a number", _are_arguments),
        "words": ("a list of names", lambda v: isinstance(v, tuple) and all(isinstance(w, str) for w in v)),
    }
)
_BY_NAME = {
    **dict.fromkeys(("begins", "ends", "dims", "shape"), "ints"),
    **dict.fromkeys(("kernel_size", "stride", "dilation", "sizes", "steps"), "sizes"),
    **dict.fromkeys(("batch_size", "channels", "in_channels", "out_channels", "input_height", "input_width"), "size"),
    **dict.fromkeys(("k", "groups", "num_groups", "num_heads"), "size"),
    **dict.fromkeys(("dim0", "dim1", "num_kv_heads"), "int"),
    **dict.fromkeys(("exponent", "scalar", "scale", "threshold", "weight", "min", "max", "end", "start"), "float"),
    **dict.fromkeys(("step", "value", "x", "y"), "float"),
    **dict.fromkeys(("activation", "math_fidelity"), "str"),
    "layout": "page",
    "dtype": "dtype",
    **dict.fromkeys(("activations", *OPERAND_ACTIVATIONS), "words"),
    "cur_pos": "int or ints",
    "scale_factor": "numbers",
}
_BY_DEFAULT = {bool: "bool", int: "int", float: "float", str: "str", tuple: "ints"}


def kind_of(row: OpDef, name: str) -> str | None:
    """Name of the kind of an attribute's values; None when anything is taken."""
    if name == COMPUTE:
        return "compute"
    if name in row.kinds:
        return row.kinds[name]
    if name in _BY_NAME:
        return _BY_NAME[name]
    default = row.attrs[name]
    if default is None and name == "dim":
        return "int or ints"
    return None if default is None or default is REQUIRED else _BY_DEFAULT.get(type(default))


def _known_words(row: OpDef, name: str) -> tuple[str, ...] | None:
    """The names that an attribute may hold; None where it holds none, or any."""
    if name == "activation":
        return row.activations
    return {**dict.fromkeys(("activations", *OPERAND_ACTIVATIONS), UNARY), "math_fidelity": MATH_FIDELITIES}.get(name)


def _check_words(row: OpDef, op: Op, name: str, value: Attr) -> None:
    known = _known_words(row, name)
    for word in value if isinstance(value, tuple) else (value,):
        if known is not None and word not in known:
            raise UnknownNameError(f"{name} of {row.name}", str(word), known, node=op.id)


def check_kinds(row: OpDef, op: Op) -> None:
    """GraphError when an attribute of a known op has a value of the wrong kind, UnknownNameError for a name that it
    does not know; null stands for a null default."""
    if row.opaque:
        return
    for name, value in op.attrs.items():
        kind = kind_of(row, name)
        if kind is None or (value is None and row.attrs.get(name, REQUIRED) is None):
            continue
        check_kind(op, name, kind)
        _check_words(row, op, name, value)


def check_kind(op: Op, name: str, kind: str) -> None:
    """GraphError when an attribute of an op has not a value of this kind."""
    wanted, test = _KINDS[kind]
    if not test(op.attrs[name]):
        raise GraphError(f"attribute '{name}' of {op.op} must be {wanted}, not {op.attrs[name]!r}", node=op.id)
