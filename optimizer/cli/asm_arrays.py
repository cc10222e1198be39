"""Arrays and numbers that `ttopt asm run` hands to a kernel: said on the command line, read, shown and written."""

from __future__ import annotations

import hashlib
import re
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optimizer.errors import FormatError, LimitError, OptionError
from optimizer.process.files import make_folder, replacing

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[Any]

DTYPES = {"f32": "float32", "f16": "float16", "i32": "int32", "u32": "uint32", "u16": "uint16", "i8": "int8",
          "u8": "uint8", "u64": "uint64"}  # fmt: skip
FILLS = ("random", "range", "zeros")
SHOWN = 8
MAX_BYTES = 1 << 28
"""Of one array."""
_ARRAY = re.compile(r"(\w+):([0-9]{1,12}(?:x[0-9]{1,12}){0,7})(?::(\w+))?")
_SCALAR = re.compile(r"(\w+)=(\S+)")


def read_arguments(texts: list[str], seed: int) -> dict[str, Array | np.generic]:
    """What each `--argument` gives, by name."""
    import numpy as np

    found: dict[str, Array | np.generic] = {}
    random = np.random.default_rng(seed)
    for text in texts:
        name, _, value = text.partition(":")
        if not name or name in found:
            raise OptionError(f"--argument '{text}': a name, once", alternatives=("x:f32:64", "n:u32=5"))
        found[name] = _argument(value, text, random)
    return found


def _argument(value: str, text: str, random: np.random.Generator) -> Array | np.generic:
    import numpy as np

    if value.endswith(".npy"):
        try:
            # Mapped first: a header may claim any size, the file is what there is.
            mapped = np.load(value, mmap_mode="r", allow_pickle=False)
        except (ValueError, EOFError, SyntaxError, TypeError, OverflowError) as error:
            raise FormatError(f"no NumPy array: {error}", node=value) from None
        if not isinstance(mapped, np.ndarray):
            raise FormatError("no NumPy array but several", node=value)
        if mapped.dtype.kind not in "biufc":
            raise FormatError(f"elements of {mapped.dtype} are none that a kernel takes", node=value)
        _check_bytes(mapped.nbytes, text)
        return np.array(mapped)
    if match := _SCALAR.fullmatch(value):
        dtype = _dtype(match[1], text)
        return _scalar(match[2], dtype, text)
    match = _ARRAY.fullmatch(value)
    if match is None:
        raise OptionError(f"--argument '{text}' cannot be read", alternatives=("x:f32:64x16:random", "n:u32=5"))
    dtype, shape, fill = _dtype(match[1], text), tuple(map(int, match[2].split("x"))), match[3] or "random"
    if fill not in FILLS:
        raise OptionError(f"--argument '{text}': no fill '{fill}'", alternatives=FILLS)
    _check_bytes(prod(shape) * dtype.itemsize, text)
    if fill == "zeros":
        return np.zeros(shape, dtype)
    if fill == "range":
        return np.arange(np.prod(shape)).astype(dtype).reshape(shape)
    if dtype.kind == "f":
        return random.standard_normal(shape).astype(dtype)
    limits = np.iinfo(dtype)
    return random.integers(limits.min, limits.max, shape, dtype, endpoint=True)


def _check_bytes(count: int, text: str) -> None:
    if count > MAX_BYTES:
        raise LimitError(f"--argument '{text}': {count} bytes", node="--argument", limit=MAX_BYTES)


def _scalar(value: str, dtype: np.dtype[Any], text: str) -> np.generic:
    import numpy as np

    try:
        number: float | int = float(value) if dtype.kind == "f" else int(value, 0)
    except ValueError as error:
        raise OptionError(f"--argument '{text}': {error}") from None
    if isinstance(number, int):
        limits = np.iinfo(dtype)
        if not limits.min <= number <= limits.max:
            raise OptionError(f"--argument '{text}': not in {limits.min}..{limits.max}", limit=int(limits.max))
    scalar: np.generic = dtype.type(number)
    return scalar


def _dtype(name: str, text: str) -> np.dtype[Any]:
    import numpy as np

    if name not in DTYPES:
        raise OptionError(f"--argument '{text}': no type '{name}'", alternatives=DTYPES)
    return np.dtype(DTYPES[name])


def summary(array: Array) -> dict[str, Any]:
    first = [float(x) if array.dtype.kind == "f" else int(x) for x in array.reshape(-1)[:SHOWN]]
    return {
        "dtype": str(array.dtype),
        "shape": list(array.shape),
        "sha256": hashlib.sha256(array.tobytes()).hexdigest(),
        "first": first,
    }


def write_array(folder: Path, name: str, array: Array) -> None:
    import numpy as np

    if not re.fullmatch(r"[\w.-]+", name):
        raise FormatError(f"'{name}' cannot name a file", node=name)
    make_folder(folder)
    with replacing(folder / f"{name}.npy") as file:
        np.save(file, array, allow_pickle=False)
