"""Options written as text: command-line flags, `--sweep k=v1,v2`, HTTP query parameters."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterable
from dataclasses import MISSING, Field, dataclass, fields
from typing import Any

from optimizer.errors import OptionError, UnknownNameError
from optimizer.options import Options

NONE_WORDS = ("none", "null")
MAX_DIGITS = 400
"""Longest text taken for a number; Python itself refuses to convert a few thousand digits."""
SHOWN_CHARACTERS = 60
"""How much of a wrong text an error repeats."""
TRUE_WORDS = ("true", "1", "yes", "on")
FALSE_WORDS = ("false", "0", "no", "off")


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
