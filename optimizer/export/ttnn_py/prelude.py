"""The text of the emitted module up to `make_inputs`."""

from __future__ import annotations

import base64
import math
import struct
from collections.abc import Mapping, Sequence

from optimizer.export.ttnn_py.formatting import INDENT, docstring_text, laid_out
from optimizer.export.ttnn_py.program import TensorEntry
from optimizer.ir.dtype import DType
from optimizer.opmodel.base import TensorSpec
from optimizer.opmodel.ttnn_calls.text import call, dtype_text, layout_text, literal, memory_config_text, quoted

LISTED = 16
"""Elements up to which a constant is printed as a list of numbers."""
_BASE64_COLUMNS = 100

_DOCSTRING = '''"""{title}

Written by ttopt for board {board}. `run` executes the schedule that was planned: every memory config, program config
and deallocation is spelled out. How to run it, from the folder of this file:

    ttopt run . --device real --weights MODEL.onnx --compare    with the model's weights, compared with onnxruntime
    python run_model.py WEIGHTS [--inputs X.npz]                without ttopt, of weights.safetensors or an .npz file
    python run_model.py WEIGHTS --trace --queues 2 --check      the same at full speed, with --iterations N measured
    python {file}                                        once without values, on placeholders

`make_parameters` and `make_inputs` take mappings from the names in PARAMETERS and INPUTS to arrays (numpy of any
element type, torch). What is missing is an error unless placeholders are asked for.
"""'''

_TENSOR = '''

def tensor(name, shape, dtype, layout=ttnn.TILE_LAYOUT, memory_config=ttnn.DRAM_MEMORY_CONFIG, below=None):
    """An entry of INPUTS or PARAMETERS. Memory config None: stays on the host. `below`: indices are less than that."""
    entry = {"name": name, "shape": shape, "dtype": dtype, "layout": layout, "memory_config": memory_config}
    return entry if below is None else {**entry, "below": below}
'''

_NUMBERS = '''

def numbers(code, text):
    """The elements of an embedded constant: base64 of little-endian 32-bit floats ("f") or integers ("i", "I")."""
    return [value for (value,) in struct.iter_unpack("<" + code, base64.b64decode(text))]
'''

_MAKE = '''

def elements(entry, array):
    """An array as TTNN takes it for an entry: f32 or the entry's integers, writable. Torch tensors stay as they are."""
    name, shape, found, below = entry["name"], entry["shape"], tuple(array.shape), entry.get("below")
    if found != shape and (found, shape) != ((), (1,)):
        raise ValueError(f"{name} has shape {found}, {shape} is needed")
    if below is not None:
        least, most = int(array.min()), int(array.max())
        if least < 0 or most >= below:
            raise ValueError(f"{name} has indices from {least} to {most}, of a table of {below} rows")
    if not hasattr(array, "astype"):
        return array
    integers = {ttnn.int32: "int32", ttnn.uint32: "uint32", ttnn.uint16: "uint16", ttnn.uint8: "uint8"}
    wanted = integers.get(entry["dtype"])
    converted = array.astype(wanted or "float32", order="C").reshape(shape)
    if wanted and (converted != array.reshape(shape)).any():
        raise ValueError(f"{name} has elements that {wanted} does not hold")
    return converted


def make_tensor(device, entry, array=None):
    """The tensor of an entry of INPUTS or PARAMETERS: an array, an embedded constant, or a placeholder."""
    shape, dtype, layout, memory_config = entry["shape"], entry["dtype"], entry["layout"], entry["memory_config"]
    if isinstance(array, ttnn.Tensor):
        return array
    if array is not None:
        array = elements(entry, array)
        if memory_config is None:
            return ttnn.Tensor(array, dtype, layout=layout)
        return ttnn.Tensor(array, dtype, device, layout, memory_config)
    if entry["name"] in CONSTANTS:
        place = () if memory_config is None else (device, memory_config)
        return ttnn.Tensor(CONSTANTS[entry["name"]], list(shape), dtype, layout, *place)
    if memory_config is None:
        return ttnn.zeros(shape, dtype=dtype, layout=layout)
    if dtype in (ttnn.uint8, ttnn.uint16, ttnn.uint32, ttnn.int32):
        return ttnn.zeros(shape, dtype=dtype, layout=layout, device=device, memory_config=memory_config)
    return ttnn.empty(shape, dtype=dtype, layout=layout, device=device, memory_config=memory_config)


def make_tensors(device, entries, arrays=None, placeholders=False):
    """A tensor per entry, by name. ValueError for arrays that no entry asks for, and for those that are missing.

    With `placeholders`, tensors of no particular elements (also uninitialised memory) stand for those.
    """
    arrays = arrays or {}
    names = {entry["name"] for entry in entries}
    unknown = sorted(set(arrays) - names)
    if unknown:
        raise ValueError(f"no such tensors: {', '.join(unknown)}")
    missing = sorted(names - set(arrays) - set(CONSTANTS))
    if missing and not placeholders:
        raise ValueError(f"no arrays for {len(missing)} of {len(names)} tensors: {', '.join(missing[:10])}")
    return {entry["name"]: make_tensor(device, entry, arrays.get(entry["name"])) for entry in entries}


def make_inputs(device, arrays=None, placeholders=False):
    """What `run` takes as inputs, by name."""
    return make_tensors(device, INPUTS, arrays, placeholders)


def make_host_inputs(arrays):
    """The inputs as they are, but on the host: for `ttnn.copy_host_to_device_tensor` into those of `make_inputs`."""
    return make_tensors(None, [{**entry, "memory_config": None} for entry in INPUTS], arrays)
'''

_BANKS = """\
        if memory_config.is_sharded():  # over the DRAM banks, where TTNN puts no array by itself
            return ttnn.to_device(ttnn.Tensor(array, dtype, layout=layout), device, memory_config=memory_config)
"""
_PLACED = "        return ttnn.Tensor(array, dtype, device, layout, memory_config)\n"
"""The line of `_MAKE` that `_BANKS` goes before."""

_HOST = '''

def placeholder(name, operands, attributes, results):
    """Stands for an op that TTNN lacks: zeros of the right shapes."""
    print(f"{name} has no implementation in HOST_OPS: its results are zeros", file=sys.stderr)
    return [entry and ttnn.zeros(entry[0], dtype=entry[1], layout=entry[2]) for entry in results]


HOST_OPS = {}
"""Op that TTNN lacks -> function (name, operands, attributes, results) that computes it on host tensors.

`operands` and `results` stand at the positions of the model's node: an operand that is absent is None, and so is a
result that nothing needs. Of the others `results` holds (shape, dtype, layout); the function returns a list of tensors.
"""


def host_op(name, operands, attributes, results):
    """Run an op on the host; the results that are needed."""
    made = HOST_OPS.get(name, placeholder)(name, operands, attributes, results)
    if len(made) != len(results):
        raise ValueError(f"{name} has {len(results)} results, its function in HOST_OPS gave {len(made)}")
    return [tensor for tensor, entry in zip(made, results, strict=True) if entry is not None]
'''


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
        _DOCSTRING.format(title=docstring_text(name) or "A model", board=docstring_text(board), file=file),
        imports + "\n",
        _TENSOR.strip("\n") + "\n",
        *([_NUMBERS.strip("\n") + "\n"] if packed else []),
        _table("INPUTS", "[", [_entry_text(e) for e in inputs], "]") + '\n"""What `run` takes on every call."""',
        _table("PARAMETERS", "[", [_entry_text(e) for e in parameters], "]")
        + '\n"""Weights and constants of the model; a memory config of None: stays on the host."""',
        laid_out(f"OUTPUTS = {literal(list(outputs))}") + '\n"""Names of what `run` returns, in order."""',
        _table("CONSTANTS", "{", tables, "}")
        + '\n"""Elements of the parameters that are part of the model\'s graph, in row-major order."""',
        *([constants] if constants else []),
    ]
    over_banks = any(entry.spec.layout.is_over_banks for entry in parameters)
    made = _MAKE.replace(_PLACED, _BANKS + _PLACED) if over_banks else _MAKE
    return "\n\n".join(blocks) + "\n" + made + (_HOST if host_ops else "") + fused


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
        return call("ttnn.zeros", literal(tuple(spec.shape)), dtype=dtype, layout=layout)
    memory = memory_config_text(spec.layout.memory)
    shape = literal(tuple(spec.shape))
    return call("ttnn.empty", shape, dtype=dtype, layout=layout, device="device", memory_config=memory)
