"""MLIR text of plain values: numbers with their types, arrays, strings, symbols."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

_PLAIN_SYMBOL = re.compile(r"[A-Za-z_][A-Za-z0-9_$.]*")


def quoted(text: str) -> str:
    """A string literal; what is not printable ASCII stands there as the bytes of its UTF-8 form."""
    data = text.encode("utf-8", "backslashreplace")
    return '"' + "".join(chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:02X}" for b in data) + '"'


def symbol(name: str) -> str:
    """A symbol's name, in quotes where MLIR needs them."""
    return f"@{name}" if _PLAIN_SYMBOL.fullmatch(name) else f"@{quoted(name)}"


def integer(value: Any, kind: str) -> str:
    """`8 : ui32`."""
    return f"{int(value)} : {kind}"


I32, SI8, SI32, UI32 = (partial(integer, kind=kind) for kind in ("i32", "si8", "si32", "ui32"))


def boolean(value: Any) -> str:
    return str(bool(value)).lower()


def real(value: Any) -> str:
    """A float as f32: in decimals, exact; infinities by their bits."""
    (rounded,) = struct.unpack("<f", struct.pack("<f", float(value)))
    if rounded in (float("inf"), float("-inf")):
        return f"{'0x7F800000' if rounded > 0 else '0xFF800000'} : f32"
    mantissa, _, exponent = f"{rounded:.9e}".partition("e")
    return f"{mantissa}E{exponent} : f32"


def dense(values: Iterable[Any], kind: str = "i32") -> str:
    """`array<i32: 1, 1>`."""
    inner = ", ".join(str(int(v)) for v in values)
    return f"array<{kind}: {inner}>" if inner else f"array<{kind}>"


def listed(values: Iterable[Any], kind: str = "i32") -> str:
    """`[1 : i32, 4 : i32]`."""
    return f"[{', '.join(integer(v, kind) for v in values)}]"


def struct_text(fields: Mapping[str, str | None]) -> str:
    """`<name = value, ...>`; a field that is None is left out."""
    return f"<{', '.join(f'{name} = {text}' for name, text in fields.items() if text is not None)}>"


def dictionary(entries: Mapping[str, str]) -> str:
    """`{name = value, ...}`, sorted as MLIR's printer does."""
    return f"{{{', '.join(f'{_key(name)} = {text}' for name, text in sorted(entries.items()))}}}"


def _key(name: str) -> str:
    return name if _PLAIN_SYMBOL.fullmatch(name) else quoted(name)
