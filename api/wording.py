"""What an error says, in the words of a request: fields instead of the command's flags."""

from __future__ import annotations

import re

from optimizer.options import option_infos

_FIELDS = {info.flag.removeprefix("--"): info.name for info in option_infos()}
_FLAG = re.compile(rf"(?<![\w-])--({'|'.join(_FIELDS)})(?![\w-])( (?=\S+[=:][0-9?]))?")
_BARE = re.compile(rf"(?<![\w-])({'|'.join(flag for flag in _FIELDS if '-' in flag)})(?![\w-])")
"""Overrides are called so in errors, as tt-mlir spells them."""


def as_fields(text: str) -> str:
    """`--dim batch=1` becomes `dims=batch=1`, `override-output-layout` the name of its field."""
    told = _FLAG.sub(lambda found: _FIELDS[found[1]] + ("=" if found[2] else ""), text)
    return _BARE.sub(lambda found: _FIELDS[found[1]], told)
