"""`Options`: every knob of an optimisation, once, and how it is written as text (flags, `--sweep`, HTTP queries).

A field here is the `--flag` of `ttopt optimize` (underscores become dashes), the key in JSON options and
HTTP bodies, and the attribute in Python. Field metadata holds the help text and the accepted choices.
"""

from __future__ import annotations

import math
import types
import typing
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from functools import cache
from typing import Any

from optimizer.device import DeviceSpec
from optimizer.errors import OptionError, UnknownNameError
from optimizer.process.json_document import LARGEST_INTEGER
from optimizer.process.registered import OPMODELS, POLICIES

CHAIN_SOLVERS = ("bitset", "cpsat")
"""Names of the engines in `optimizer.solver.chains.chain_engines`."""
DTYPE_CHOICES = ("f32", "bf16", "bfp8_b", "bfp4_b")
MATH_FIDELITIES = ("lofi", "hifi2", "hifi3", "hifi4")
POLICY_DEFAULT = "global"
LEAST_PCC = 0.5
"""Below it outputs say nothing of the model's."""
NONE_WORDS = ("none", "null")
MAX_DIGITS = 400
"""Longest text taken for a number; Python itself refuses to convert a few thousand digits."""
SHOWN_CHARACTERS = 60
"""How much of a wrong text an error repeats."""
TRUE_WORDS = ("true", "1", "yes", "on")
FALSE_WORDS = ("false", "0", "no", "off")


def _option(default: Any, text: str, choices: tuple[Any, ...] | None = None, **more: str) -> Any:
    """`flag`: where that is not the field's name; `example`: of what a mapping is written as."""
    return field(default=default, metadata={"help": text, "choices": choices, **more})


@dataclass(frozen=True, repr=False)
class Options:
    """What to optimise for, and within which limits. An invalid value is an OptionError, a wrong name an
    UnknownNameError, at once."""

    board: str = _option("n150", "board preset or a board file ending in .json")
    policy: str = _option(POLICY_DEFAULT, "memory layout policy; `ttopt policies` lists them")
    opmodel: str = _option("analytical", "backend that validates and prices ops; `ttopt opmodels` lists them")
    optimization_level: int = _option(2, "0: DRAM, no op configs; 1: DRAM with op configs; 2: sharding", (0, 1, 2))
    chain_objective: str = _option(
        "core_usage",
        "what a chain's solution maximises or minimises; where it is hardly faster than DRAM, time is minimised",
        ("core_usage", "time"),
    )
    chain_solver: str = _option(
        "bitset", "what solves an L1 chain: ShardSolver's propagation on bitsets, or CP-SAT", CHAIN_SOLVERS
    )
    l1_interleaved_fallback: bool = _option(True, "keep results that no chain holds in L1 interleaved where it pays")
    weights_in_l1: bool = _option(
        True, "policy global: keep weights in L1 between runs where that pays; off where models share the board"
    )
    in_place_ops: bool = _option(True, "policy global: results written into operands in L1 that nothing else reads")
    rewrites: bool = _option(True, "compute parts of the model in another way where that is predicted to be faster")
    allow_host_ops: bool = _option(False, "run ops that TTNN lacks on the host, between two transfers")
    max_legal_layouts: int = _option(64, "sharded layouts considered per op")
    row_major_enabled: bool = _option(False, "also consider row-major layouts where an op takes them")
    tensor_l1_usage_cap: float = _option(0.95, "share of the L1 bank a plan may use")
    l1_small_bytes: int = _option(32768, "L1 bytes per core set aside for L1_SMALL (conv and pool need it)")
    input_shapes: Mapping[str, tuple[int, ...]] = _option(
        None, "shape of a dynamic input, NAME:1,3,224,224", example="x:1,3,224,224"
    )
    dims: Mapping[str, int] = _option(
        None, "a number for a size that the model gives a name, batch=1", flag="dim", example="batch=1"
    )
    channels_last_inputs: bool = _option(
        False, "feed images as [N, H, W, C], as hosts have them: inputs that the model reads only so need no permute"
    )
    activations_dtype: str | None = _option(
        "bf16",
        "element type of float activations, block floats where they can be; null keeps the file's",
        DTYPE_CHOICES,
    )
    weights_dtype: str | None = _option(None, "element type of float weights; null: as activations", DTYPE_CHOICES)
    math_fidelity: str | None = _option(None, "math fidelity of matmuls and convs", MATH_FIDELITIES)
    least_pcc: float | None = _option(
        None,
        "correlation with the exact model that every output keeps; within it, element types and fidelities are chosen",
    )
    pareto: bool = _option(False, "with least_pcc: also what other correlations cost, the front of time and PCC")
    override_output_layout: str = _option("", "op=grid:mem:memory_layout:layout:dtype,... (any subset of the parts)")
    override_conv2d_config: str = _option("", "conv=field#value:field#value,...")
    insert_memreconfig: str = _option("", "op=operand:operand,... reshards these operands to the op's output layout")
    fuse_kernels: bool = _option(
        False, "emitted programs run elementwise regions as kernels of ours; they come with the program (ttnn-py)"
    )
    check: str | None = _option(
        None, "backend that replays the finished program; what it refuses is solved again", ("ttmetal",)
    )
    time_limit: float | None = _option(None, "seconds after which the best plan so far is returned")
    seed: int = _option(0, "seed of randomised searches (the present policies have none)")
    max_nodes: int = _option(200_000, "largest graph accepted, in nodes")
    max_model_bytes: int = _option(2 * 1024**3, "largest model file accepted, in bytes (external data not counted)")

    def __post_init__(self) -> None:
        for name in ("input_shapes", "dims"):
            if getattr(self, name) is None:
                object.__setattr__(self, name, {})
        hints = _field_types()
        for f in fields(self):
            value = _coerce(f.name, hints[f.name], getattr(self, f.name))
            object.__setattr__(self, f.name, value)
            choices = f.metadata["choices"]
            if choices is not None and value is not None and value not in choices:
                raise OptionError(f"'{f.name}' cannot be {value!r}", node=f.name, alternatives=map(str, choices))
        self._check_names()
        self._check_ranges()

    def __repr__(self) -> str:
        """What differs from the defaults: `Options(board='p150', seed=3)`."""
        default = _defaults()
        given = ((f.name, getattr(self, f.name)) for f in fields(self))
        return f"Options({', '.join(f'{name}={value!r}' for name, value in given if value != default[name])})"

    def _check_names(self) -> None:
        """The policy, the backend and the preset of the board exist; a board's file is read when it is needed."""
        POLICIES.check(self.policy, node="policy")
        OPMODELS.check(self.opmodel, node="opmodel")
        if not self.board.endswith(".json"):
            DeviceSpec.preset(self.board)

    def _check_ranges(self) -> None:
        if not 0.0 < self.tensor_l1_usage_cap <= 1.0:
            raise OptionError(
                f"'tensor_l1_usage_cap' must be in (0, 1], got {self.tensor_l1_usage_cap}", node="tensor_l1_usage_cap"
            )
        for name in ("max_legal_layouts", "max_nodes", "max_model_bytes", "l1_small_bytes", "seed"):
            if getattr(self, name) > LARGEST_INTEGER:
                raise OptionError(f"'{name}' must be at most 2**53", node=name, limit=LARGEST_INTEGER)
        for name in ("max_legal_layouts", "max_nodes", "max_model_bytes"):
            if getattr(self, name) < 1:
                raise OptionError(f"'{name}' must be at least 1, got {getattr(self, name)}", node=name)
        for name in ("l1_small_bytes", "seed"):
            if getattr(self, name) < 0:
                raise OptionError(f"'{name}' must not be negative, got {getattr(self, name)}", node=name)
        if self.least_pcc is not None and not LEAST_PCC <= self.least_pcc < 1.0:
            raise OptionError(
                f"'least_pcc' must be at least {LEAST_PCC} and below 1, got {self.least_pcc}", node="least_pcc"
            )
        if self.pareto and self.least_pcc is None:
            raise OptionError(
                "'pareto' is the front of an error budget: give one",
                node="pareto",
                alternatives=("least_pcc 0.99", "without pareto"),
            )
        if self.time_limit is not None and not 0 < self.time_limit < math.inf:
            raise OptionError(f"'time_limit' must be positive and finite, got {self.time_limit}", node="time_limit")

    @classmethod
    def from_mapping(cls, record: Mapping[str, Any]) -> Options:
        """Options from decoded JSON; unknown keys and mistyped values are errors that name the key."""
        for key in record:
            if key not in _field_types():
                raise UnknownNameError("option", str(key), _field_types(), node="options")
        return cls(**record)

    @staticmethod
    def stated(record: Mapping[str, Any]) -> Options:
        """The options that a finished result states, made elsewhere perhaps, where other names were known."""
        try:
            return Options.from_mapping(record)
        except UnknownNameError:
            return _StatedOptions.from_mapping(record)

    def to_json(self) -> dict[str, Any]:
        record = {f.name: getattr(self, f.name) for f in fields(self)}
        record["input_shapes"] = {k: list(v) for k, v in sorted(self.input_shapes.items())}
        record["dims"] = dict(sorted(self.dims.items()))
        return record


class _StatedOptions(Options):
    """Options whose policy, OpModel backend or board may be unknown here."""

    def _check_names(self) -> None:
        """Any name will do: whoever needs what it stands for finds out."""


@cache
def _defaults() -> dict[str, Any]:
    return {f.name: getattr(Options(), f.name) for f in fields(Options)}


@cache
def _field_types() -> dict[str, Any]:
    return typing.get_type_hints(Options)


def _coerce(key: str, hint: Any, value: Any) -> Any:
    """A decoded JSON value as the field's type, or OptionError."""
    if key == "input_shapes":
        return _coerce_shapes(value)
    if key == "dims":
        return _coerce_dims(value)
    allowed = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    if value is None and type(None) in allowed:
        return None
    if isinstance(value, bool):
        if bool in allowed:
            return value
    elif int in allowed and isinstance(value, int):
        return value
    elif float in allowed and isinstance(value, int | float):
        if abs(value) > LARGEST_INTEGER and value != math.inf:
            raise OptionError(f"'{key}' must be at most 2**53", node=key, limit=LARGEST_INTEGER)
        return float(value)
    elif str in allowed and isinstance(value, str):
        return value
    wanted = " or ".join("null" if t is type(None) else t.__name__ for t in allowed)
    raise OptionError(f"'{key}' must be {wanted}, got {value!r}", node=key)


def _coerce_shapes(value: Any) -> dict[str, tuple[int, ...]]:
    if not isinstance(value, Mapping):
        raise OptionError(f"'input_shapes' must map names to lists of sizes, got {value!r}", node="input_shapes")
    shapes = {}
    for name, sizes in value.items():
        whole = isinstance(sizes, list | tuple) and all(type(s) is int and s > 0 for s in sizes)
        if not whole:
            raise OptionError(
                f"shape of '{name}' must be a list of positive integers, got {sizes!r}", node="input_shapes"
            )
        if any(size > LARGEST_INTEGER for size in sizes):
            raise OptionError(f"a size of '{name}' exceeds 2**53", node="input_shapes", limit=LARGEST_INTEGER)
        shapes[str(name)] = tuple(sizes)
    return shapes


def _coerce_dims(value: Any) -> dict[str, int]:
    if not isinstance(value, Mapping):
        raise OptionError(f"'dims' must map names to sizes, got {value!r}", node="dims")
    for name, size in value.items():
        if type(size) is not int or not 0 < size <= LARGEST_INTEGER:
            raise OptionError(f"size '{name}' must be a whole number from 1 to 2**53, got {size!r}", node="dims")
    return {str(name): size for name, size in value.items()}


@dataclass(frozen=True)
class OptionInfo:
    """What an entrance needs to present one field of `Options`."""

    name: str
    help: str
    kind: type
    """`bool`, `int`, `float`, `str`, or `dict` for mappings, which are given entry by entry."""
    nullable: bool
    choices: tuple[Any, ...] | None
    default: Any
    flag: str
    """With its dashes."""
    example: str | None
    """An entry of a mapping as text."""


def option_infos() -> tuple[OptionInfo, ...]:
    """Every option in the order of the fields of `Options`."""
    hints = typing.get_type_hints(Options)
    return tuple(_info(f, hints[f.name]) for f in fields(Options))


def _info(field: Field[Any], hint: Any) -> OptionInfo:
    members = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    kind = next(m for m in members if m is not type(None))
    return OptionInfo(
        name=field.name,
        help=field.metadata["help"],
        kind=dict if typing.get_origin(kind) is not None else kind,
        nullable=type(None) in members,
        choices=field.metadata["choices"],
        default=None if field.default is MISSING else field.default,
        flag="--" + field.metadata.get("flag", field.name).replace("_", "-"),
        example=field.metadata.get("example"),
    )


def parse_option(name: str, texts: Iterable[str]) -> Any:
    """The value an option's text stands for, as decoded JSON would hold it.

    Mappings merge any number of entries, `NAME:1,3,224,224` or `NAME=1`; of every other option the last text counts.
    Raises UnknownNameError for an option that does not exist and OptionError for text of the wrong kind.
    """
    infos = {info.name: info for info in option_infos()}
    if name not in infos:
        raise UnknownNameError("option", name, infos, node="options")
    info, given = infos[name], list(texts)
    if info.kind is dict:
        return _merged(name, [_dim(text) if name == "dims" else _shape(text) for text in given])
    return _scalar(info, given[-1])


def _merged(option: str, entries: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """OptionError where two entries say different things of one name."""
    merged: dict[str, Any] = {}
    for name, value in entries:
        if merged.setdefault(name, value) != value:
            raise OptionError(f"'{option}' gives '{name}' twice, {merged[name]} and {value}", node=option)
    return merged


def _scalar(info: OptionInfo, text: str) -> Any:
    word = text.strip().lower()
    if info.nullable and word in NONE_WORDS:
        return None
    if info.kind is bool:
        if word in TRUE_WORDS + FALSE_WORDS:
            return word in TRUE_WORDS
        raise OptionError(f"'{info.name}' must be true or false, got '{text}'", node=info.name)
    if info.kind is str:
        return text
    wanted = "a whole number" if info.kind is int else "a number"
    if len(text) > MAX_DIGITS:
        raise OptionError(f"'{info.name}' must be {wanted} of at most {MAX_DIGITS} characters", node=info.name)
    try:
        return info.kind(text)
    except ValueError:
        raise OptionError(f"'{info.name}' must be {wanted}, got '{_shown(text)}'", node=info.name) from None


def _shown(text: str) -> str:
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "..."


def _shape(text: str) -> tuple[str, list[int]]:
    """`NAME:1,3,224,224` (or with `x` between the sizes); the name may hold colons."""
    name, colon, sizes = text.rpartition(":")
    parts = sizes.replace("x", ",").split(",")
    if not colon or not name or not all(p.strip().isdecimal() for p in parts):
        raise OptionError(f"'input_shapes' takes NAME:1,3,224,224, got '{_shown(text)}'", node="input_shapes")
    if any(len(p) > MAX_DIGITS for p in parts):
        raise OptionError(
            f"a size of '{name}' has more than {MAX_DIGITS} digits", node="input_shapes", limit=MAX_DIGITS
        )
    return name, [int(p) for p in parts]


def _dim(text: str) -> tuple[str, int]:
    """`NAME=128`; the name may hold equals signs."""
    name, equals, size = text.rpartition("=")
    if not equals or not name.strip() or not (size.strip().isascii() and size.strip().isdigit()):
        raise OptionError(f"'dims' takes NAME=SIZE such as batch=1, got '{_shown(text)}'", node="dims")
    if len(size) > MAX_DIGITS:
        raise OptionError(f"the size of '{name}' has more than {MAX_DIGITS} digits", node="dims", limit=MAX_DIGITS)
    return name.strip(), int(size)


def value_text(value: Any) -> str:
    """An option's value as a name of a folder and a table show it: `p150`, `batch=8`, `none`."""
    if isinstance(value, dict):
        return "+".join(f"{name}={'x'.join(map(str, v)) if isinstance(v, list) else v}" for name, v in value.items())
    return "none" if value is None else str(value)
