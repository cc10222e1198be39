"""Python text of the values that TTNN calls take, and of the calls themselves.

Everything here ends up in a program that is run, and much of it comes from users' files: a value becomes text
only through `literal` or through a table of known names, never by itself.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from keyword import iskeyword
from typing import Any

from optimizer.errors import OpModelError
from optimizer.ir.compute_config import COMPUTE, FIDELITIES
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Attr
from optimizer.ir.vocabulary import opdef
from optimizer.layouts.memory_config import (
    BufferType,
    CoreRange,
    MemoryConfig,
    PageLayout,
    ShardOrientation,
    TensorMemoryLayout,
)
from optimizer.layouts.op_config import InPlaceConfig, OpConfig
from optimizer.opmodel.base import OpQuery

_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_DOTTED = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*")

_DTYPES = {
    DType.F32: "ttnn.float32",
    DType.BF16: "ttnn.bfloat16",
    DType.BFP8_B: "ttnn.bfloat8_b",
    DType.BFP4_B: "ttnn.bfloat4_b",
    DType.U32: "ttnn.uint32",
    DType.I32: "ttnn.int32",
    DType.U16: "ttnn.uint16",
    DType.U8: "ttnn.uint8",
}
_LAYOUTS = {PageLayout.TILE: "ttnn.TILE_LAYOUT", PageLayout.ROW_MAJOR: "ttnn.ROW_MAJOR_LAYOUT"}
_BUFFERS = {BufferType.DRAM: "ttnn.BufferType.DRAM", BufferType.L1: "ttnn.BufferType.L1"}
_ORIENTATIONS = {
    ShardOrientation.ROW_MAJOR: "ttnn.ShardOrientation.ROW_MAJOR",
    ShardOrientation.COL_MAJOR: "ttnn.ShardOrientation.COL_MAJOR",
}


# -- plain values ----------------------------------------------------------------------------------------
def literal(value: Any) -> str:
    """A Python literal of a scalar, None, or nested sequence (tuples stay tuples, lists lists).

    Infinite and undefined floats, which have no literal, become calls of `float`.
    """
    if value is None or isinstance(value, bool):
        return repr(value)
    if isinstance(value, int):
        return repr(int(value))
    if isinstance(value, float):
        return repr(float(value)).replace("e+", "e") if math.isfinite(value) else f'float("{float(value)!r}")'
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, tuple):
        inner = ", ".join(literal(v) for v in value)
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, list):
        return f"[{', '.join(literal(v) for v in value)}]"
    raise OpModelError(f"a {type(value).__name__} cannot be written into a program")


def quoted(text: str) -> str:
    """A string literal, quoted as `ruff format` would: double quotes unless single ones need fewer escapes."""
    quote = "'" if '"' in text and "'" not in text else '"'
    return quote + "".join(_escaped(c, quote) for c in text) + quote


_SHORT = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def _escaped(char: str, quote: str) -> str:
    if char == quote:
        return "\\" + char
    if char in _SHORT:
        return _SHORT[char]
    if char.isprintable():
        return char
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def integers(values: Any) -> str:
    """A list of integers."""
    return literal([int(v) for v in values])


def integer_tuple(values: Any) -> str:
    return literal(tuple(int(v) for v in values))


def call(function: str, *positional: str, **keywords: str | None) -> str:
    """The text of a call; a keyword whose text is None is left out. OpModelError for names that are none."""
    if _DOTTED.fullmatch(function) is None:
        raise OpModelError(f"{function!r} is no name of a function")
    for name in keywords:
        if _IDENTIFIER.fullmatch(name) is None or iskeyword(name):
            raise OpModelError(f"{name!r} is no name of an argument")
    named = [f"{name}={text}" for name, text in keywords.items() if text is not None]
    return f"{function}({', '.join([*positional, *named])})"


# -- TTNN's own values -----------------------------------------------------------------------------------
def dtype_text(dtype: DType) -> str:
    """`ttnn.bfloat16`, ..."""
    return _DTYPES[dtype]


def layout_text(page: PageLayout) -> str:
    """`ttnn.TILE_LAYOUT` or `ttnn.ROW_MAJOR_LAYOUT`."""
    return _LAYOUTS[page]


def memory_layout_text(memory_layout: TensorMemoryLayout) -> str:
    """`ttnn.TensorMemoryLayout.BLOCK_SHARDED`, ..."""
    return f"ttnn.TensorMemoryLayout.{memory_layout.name}"


def _core_text(x: int, y: int) -> str:
    return call("ttnn.CoreCoord", literal(int(x)), literal(int(y)))


def core_ranges_text(ranges: Sequence[CoreRange]) -> str:
    """A `ttnn.CoreRangeSet` of inclusive rectangles (x0, y0, x1, y1)."""
    shown = [call("ttnn.CoreRange", _core_text(x0, y0), _core_text(x1, y1)) for x0, y0, x1, y1 in ranges]
    return call("ttnn.CoreRangeSet", f"[{', '.join(shown)}]")


def memory_config_text(memory: MemoryConfig) -> str:
    """A `ttnn.MemoryConfig`; OpModelError for host memory, which has none."""
    if memory.buffer_type not in _BUFFERS:
        raise OpModelError("a host tensor has no memory config")
    if not memory.is_sharded:
        return "ttnn.DRAM_MEMORY_CONFIG" if memory.buffer_type is BufferType.DRAM else "ttnn.L1_MEMORY_CONFIG"
    parts = [memory_layout_text(memory.memory_layout), _BUFFERS[memory.buffer_type]]
    spec = memory.shard_spec
    if spec is not None:
        orientation = _ORIENTATIONS[spec.orientation]
        parts.append(call("ttnn.ShardSpec", core_ranges_text(spec.core_ranges), integers(spec.shape), orientation))
    return call("ttnn.MemoryConfig", *parts)


def core_coord_text(grid_yx: tuple[int, int]) -> str:
    """A grid of (rows, columns) as TTNN's (x, y)."""
    return _core_text(grid_yx[1], grid_yx[0])


_ACTIVATION_TYPES = {"logical_not": "LOGICAL_NOT_UNARY", "reciprocal": "RECIP"}
"""Activations whose `ttnn.UnaryOpType` is not their name in capitals."""
_ACTIVATION_PARAMETERS = {"gelu": "0.0"}
"""Parameter that an activation is passed with. Without one conv and binary kernels take GELU's table, off by 0.024;
0.0 is its accurate form everywhere (ttnn 0.81.1's kernels on Tenstorrent's simulator, Wormhole)."""


def activation_text(name: Any) -> str:
    """`ttnn.UnaryWithParam(ttnn.UnaryOpType.RELU)`; OpModelError when it is not a name."""
    if not isinstance(name, str) or _IDENTIFIER.fullmatch(name) is None:
        raise OpModelError(f"{name!r} is no activation")
    type_name = f"ttnn.UnaryOpType.{_ACTIVATION_TYPES.get(name.lower(), name.upper())}"
    parameter = _ACTIVATION_PARAMETERS.get(name.lower())
    return f"ttnn.UnaryWithParam({type_name}{'' if parameter is None else f', {parameter}'})"


# -- one call to write -----------------------------------------------------------------------------------
@dataclass(frozen=True)
class Site:
    """An op's question and the names of the variables that hold its operands and the device."""

    query: OpQuery
    operands: tuple[str, ...]
    device: str

    @cached_property
    def attrs(self) -> Mapping[str, Attr]:
        return self.query.attr

    def attr(self, name: str) -> Any:
        """An attribute, or the default that the vocabulary gives it; None where it has none."""
        return self._filled.get(name)

    @cached_property
    def _filled(self) -> Mapping[str, Any]:
        return opdef(self.query.op).with_defaults(self.attrs)

    def need(self, name: str) -> Any:
        """An attribute that the call cannot do without; OpModelError names op and attribute."""
        if name not in self.attrs:
            raise OpModelError(f"{self.query.op} needs attribute '{name}'")
        return self.attrs[name]

    def integer(self, name: str) -> str:
        """Text of a whole number; OpModelError where it is absent and has no default."""
        return literal(int(self._filled[name] if name in self._filled else self.need(name)))

    def flag(self, name: str) -> str:
        return literal(bool(self.attr(name)))

    def stated_flag(self, name: str) -> str | None:
        """None where the query leaves it to TTNN."""
        return self.flag(name) if name in self.attrs else None

    def operand(self, index: int) -> str:
        """Name of an operand; OpModelError when there are fewer."""
        if index >= len(self.operands):
            raise OpModelError(f"{self.query.op} needs {index + 1} operands, it has {len(self.operands)}")
        return self.operands[index]

    def optional(self, index: int) -> str | None:
        """Name of an operand, None when there are fewer."""
        return self.operands[index] if index < len(self.operands) else None

    def call(self, *positional: str, function: str | None = None, **named: str | None) -> str:
        """The call of `function`, by default the op's name, on operand 0.

        `memory_config=` is the first named argument unless it is among those given.
        """
        if "memory_config" not in named:
            named = {"memory_config": self.memory, **named}
        return call(function or self.query.op, self.operand(0), *positional, **named)

    @property
    def memory(self) -> str | None:
        """Text of the `memory_config=` argument; None: none is passed."""
        return None if self.query.output is None else memory_config_text(self.query.output)

    @property
    def dtype(self) -> str | None:
        """Text of the `dtype=` argument; None: none is passed."""
        return None if self.query.output_dtype is None else dtype_text(self.query.output_dtype)

    @property
    def output_tensor(self) -> str | None:
        """Name of the operand that the result is written into; None: the call makes a tensor of its own."""
        config = self.query.config
        return self.operand(config.operand) if isinstance(config, InPlaceConfig) else None

    @property
    def needed_memory(self) -> str:
        """Text of a `memory_config=` argument that the call cannot do without."""
        if self.query.output is None:
            raise OpModelError(f"{self.query.op} needs an output memory config")
        return memory_config_text(self.query.output)

    @property
    def compute(self) -> str | None:
        """The compute kernel config that the query states; None: it is left to TTNN, as some recorded calls do."""
        return compute_text(self)

    @property
    def core_grid(self) -> str | None:
        """A `ttnn.CoreGrid` from attribute `core_grid` (columns, rows)."""
        grid = self.attr("core_grid")
        return None if not grid else f"ttnn.CoreGrid(x={int(grid[0])}, y={int(grid[1])})"


Writer = Callable[[Site], str]
"""Writes the call of an op."""


_LEFT_TO_TTNN = frozenset({"exp_approx_mode", "out_block_h", "out_block_w"})
"""Fields of program configs that are not written where they are None."""


def program_config_text(site: Site, *kinds: type[OpConfig]) -> str | None:
    """The program config of a call that takes these kinds; None gives None, as a field that is left to TTNN."""
    config = site.query.config
    if config is None:
        return None
    if not isinstance(config, kinds):
        raise OpModelError(f"{site.query.op} takes no {config.kind} config")
    names = [field.name for field in fields(config)]
    if "mcast_in0" in names:  # ttnn's own order
        last = names.index("mcast_in0")
        names[last : last + 3] = reversed(names[last : last + 3])
    texts: dict[str, str] = {}
    for name in names:
        value = getattr(config, name)
        if name == "compute_with_storage_grid_yx":
            texts["compute_with_storage_grid_size"] = core_coord_text(value)
        elif name == "fused_activation" and value is not None:
            texts[name] = activation_text(value)
        elif name not in _LEFT_TO_TTNN or value is not None:
            texts[name] = literal(value)
    return call(f"ttnn.{type(config).__name__}", **texts)


def compute_text(site: Site) -> str | None:
    """`ttnn.init_device_compute_kernel_config(...)`.

    Attribute `compute` holds `fid`, `fp32`, `l1acc` and `approx` (every op of a graph has it, by `OpDef.compute`);
    `math_fidelity` alone, which only recorded calls have, keeps what TTNN's matmuls otherwise do by themselves:
    partial sums packed into L1, 32-bit sums for 32-bit operands.
    """
    given = dict(site.attr(COMPUTE) or ())
    spelled = site.attr("math_fidelity")
    if not given and spelled is None:
        return None
    fidelity = str(given.get("fid", "HiFi4")) if given else str(spelled)
    if fidelity.lower() not in FIDELITIES:
        raise OpModelError(f"{fidelity!r} is no math fidelity", alternatives=FIDELITIES)
    wide = not given and site.query.inputs[0].dtype is DType.F32
    return call(
        "ttnn.init_device_compute_kernel_config",
        f"{site.device}.arch()",
        math_fidelity=f"ttnn.MathFidelity.{FIDELITIES[fidelity.lower()]}",
        math_approx_mode=literal(bool(given.get("approx", False))),
        fp32_dest_acc_en=literal(bool(given.get("fp32", wide))),
        packer_l1_acc=literal(bool(given.get("l1acc", True))),
    )
