"""The text of the emitted module up to `make_inputs`."""

from __future__ import annotations

import base64
import math
import struct
from collections.abc import Mapping, Sequence

from optimizer.export.ttnn_py.formatting import INDENT, docstring_text, laid_out, part
from optimizer.export.ttnn_py.program import TensorEntry
from optimizer.ir.dtype import DType
from optimizer.ir.vocabulary import ZEROS
from optimizer.opmodel.base import TensorSpec
from optimizer.opmodel.ttnn_calls.text import call, dtype_text, layout_text, literal, memory_config_text, quoted

LISTED = 16
"""Elements up to which a constant is printed as a list of numbers."""
_BASE64_COLUMNS = 100


_BANKS = """\
        if memory_config.is_sharded():  # over the DRAM banks, where TTNN puts no array by itself
            return ttnn.to_device(ttnn.Tensor(array, dtype, layout=layout), device, memory_config=memory_config)
"""
_PLACED = "        return ttnn.Tensor(array, dtype, device, layout, memory_config)\n"
"""The line of `parts/make.txt` that `_BANKS` goes before."""


def prelude_text(
    name: str,
    board: str,
    file: str,
    inputs: Sequence[TensorEntry],
    parameters: Sequence[TensorEntry],
    outputs: Sequence[str],
    host_ops: bool,
    fused: str = "",
    configs: Mapping[str, str] | None = None,
) -> str:
    """Docstring, imports, tables, the functions that make tensors, and those of fused kernels.

    `configs`: text of a config -> name under which the steps take it.
    """
    tables = [_constant_text(e) for e in (*inputs, *parameters) if e.data is not None]
    packed = any("numbers(" in text for text in tables)
    asked = {"base64": packed, "os": bool(fused), "struct": packed, "sys": host_ops}
    modules = [module for module, needed in asked.items() if needed]
    imports = "".join(f"import {module}\n" for module in modules) + ("\n" if modules else "") + "import ttnn"
    constants = "\n".join(laid_out(f"{n} = {text}") for text, n in (configs or {}).items())
    blocks = [
        part("docstring").format(title=docstring_text(name) or "A model", board=docstring_text(board), file=file),
        imports + "\n",
        part("tensor") + "\n",
        *([part("numbers") + "\n"] if packed else []),
        _table("INPUTS", "[", [_entry_text(e) for e in inputs], "]") + '\n"""What `run` takes on every call."""',
        _table("PARAMETERS", "[", [_entry_text(e) for e in parameters], "]")
        + '\n"""Weights and constants of the model; a memory config of None: stays on the host."""',
        laid_out(f"OUTPUTS = {literal(list(outputs))}") + '\n"""Names of what `run` returns, in order."""',
        _table("CONSTANTS", "{", tables, "}")
        + '\n"""Elements of the parameters that are part of the model\'s graph, in row-major order."""',
        *([constants] if constants else []),
    ]
    over_banks = any(entry.spec.layout.is_over_banks for entry in parameters)
    made = part("make").replace(_PLACED, _BANKS + _PLACED) if over_banks else part("make")
    functions = [made, *([part("host")] if host_ops else [])]
    return "\n\n\n".join(["\n\n".join(blocks), *functions]) + "\n" + fused


def _table(name: str, opening: str, rows: Sequence[str], closing: str) -> str:
    if not rows:
        return f"{name} = {opening}{closing}"
    return "\n".join([f"{name} = {opening}", *rows, closing])


def _entry_text(entry: TensorEntry) -> str:
    spec = entry.spec
    name, shape, dtype = quoted(entry.name), literal(tuple(spec.shape)), dtype_text(host_dtype(spec))
    row = [name, shape, dtype]
    memory = "None" if spec.layout.is_host else memory_config_text(spec.layout.memory)
    if not spec.layout.is_tile or memory != "ttnn.DRAM_MEMORY_CONFIG":
        row.append(layout_text(spec.layout.page_layout))
    if memory != "ttnn.DRAM_MEMORY_CONFIG":
        row.append(memory)
    return laid_out(call("tensor", *row, below=None if entry.below is None else literal(entry.below)), 1, ",")


def host_dtype(spec: TensorSpec) -> DType:
    """Element type in which a tensor is kept: block formats have no row-major form, so the host keeps bfloat16."""
    return DType.BF16 if spec.dtype.is_block_float and not spec.layout.is_tile else spec.dtype


def _constant_text(entry: TensorEntry) -> str:
    """One row of CONSTANTS: a list, a repeated number, or packed numbers."""
    assert entry.data is not None
    key = quoted(entry.name)
    data = [float(v) if entry.spec.dtype.is_float else int(v) for v in entry.data]
    if len(data) <= LISTED:
        return laid_out(f"{key}: {literal(data)}", 1, ",")
    if all(repr(value) == repr(data[0]) for value in data):
        return f"{INDENT}{key}: [{literal(data[0])}] * {len(data)},"
    code = "f" if entry.spec.dtype.is_float else "I" if entry.spec.dtype in (DType.U32, DType.U16, DType.U8) else "i"
    packed = base64.b64encode(b"".join(_packed(code, value) for value in data)).decode("ascii")
    lines = [packed[at : at + _BASE64_COLUMNS] for at in range(0, len(packed), _BASE64_COLUMNS)]
    head = [f"{INDENT}{key}: numbers(", f'{INDENT * 2}"{code}",']
    body = [f'{INDENT * 2}"{line}"' for line in lines]
    body[-1] += ","
    return "\n".join([*head, *body, f"{INDENT}),"])


def _packed(code: str, value: float) -> bytes:
    """Four bytes; a float beyond 32 bits is infinite, as it is on the device."""
    if code != "f":
        return struct.pack("<" + code, int(value) & 0xFFFFFFFF if code == "I" else int(value))
    try:
        return struct.pack("<f", value)
    except OverflowError:
        return struct.pack("<f", math.copysign(math.inf, value))


def placeholder_text(spec: TensorSpec) -> str:
    """An expression that makes a tensor of this shape, type and layout, with no particular elements."""
    dtype, layout = dtype_text(host_dtype(spec)), layout_text(spec.layout.page_layout)
    if spec.layout.is_host:
        return call(ZEROS, literal(tuple(spec.shape)), dtype=dtype, layout=layout)
    memory = memory_config_text(spec.layout.memory)
    shape = literal(tuple(spec.shape))
    return call("ttnn.empty", shape, dtype=dtype, layout=layout, device="device", memory_config=memory)
