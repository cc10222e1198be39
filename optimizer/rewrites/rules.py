"""All rules, in the order in which they are tried. Parts that one rule has rewritten are open to those after it."""

from __future__ import annotations

from optimizer.rewrites.convolutions import in_parts
from optimizer.rewrites.norms import by_channel
from optimizer.rewrites.rows import folded
from optimizer.rewrites.shuffles import shuffles
from optimizer.rewrites.turns import transposes
from optimizer.rewrites.way import Rule

RULES: tuple[Rule, ...] = (folded, shuffles, by_channel, in_parts, transposes)
