"""How attention over a sequence is cut into chunks and dealt to cores, and which chunk sizes are worth asking about.

Source: tt-metal 0.81 `sdpa_program_factory.cpp`. A chunk of queries goes over the keys chunk by chunk; whole query
chunks are dealt to cores, causal ones in pairs of a light and a heavy one, so that the busiest core sets the time
(tenstorrent/tt-metal #55766).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product

from optimizer.layouts.op_config import SDPAProgramConfig
from optimizer.layouts.tiling import TILE, ceil_div

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Dealt:
    """Attention cut into chunks of `q` and `k` tiles, on one board's cores."""

    q: int
    k: int
    chunks: int
    """Query chunks of the busiest core."""
    steps: int
    """Pairs of a query chunk and a key chunk that the busiest core multiplies."""
    active: int
    """Cores that have work."""
    sharers: int
    """Cores that work on the same head, to which keys and values may be passed on."""


@cache
def deal(q_shape: Shape, k_shape: Shape, causal: bool, cores: int, q: int, k: int) -> Dealt:
    """Chunks of `q` and `k` tiles of queries [B, heads, S, D] over keys [B, kv heads, T, D]."""
    heads = q_shape[0] * q_shape[1]
    per_head = ceil_div(q_shape[2], q * TILE)
    keys = ceil_div(k_shape[2], k * TILE)
    total = heads * per_head
    sharers = max(1, min(cores, total) // heads)
    if causal and per_head % 2 == 0:
        pairs = ceil_div(total // 2, cores)
        both = max(a + b for a, b in _pairs([_reached(i, q, k, keys) for i in range(per_head)]))
        return Dealt(q, k, 2 * pairs, pairs * both, min(cores, total // 2), sharers)
    chunks = ceil_div(total, cores)
    steps = chunks * keys
    if causal:  # a core has consecutive chunks: the heaviest ones of a head, and whole heads besides
        whole, rest = divmod(chunks, per_head)
        reached = [_reached(i, q, k, keys) for i in range(per_head)]
        steps = whole * sum(reached) + sum(reached[per_head - rest :])
    return Dealt(q, k, chunks, steps, min(cores, total), sharers)


def _reached(index: int, q: int, k: int, keys: int) -> int:
    """Key chunks that a query chunk sees under a causal mask."""
    return min(keys, ceil_div((index + 1) * q, k))


def _pairs(reached: list[int]) -> Iterator[tuple[int, int]]:
    return zip(reached, reversed(reached), strict=True)


@cache
def chunk_configs(
    q_shape: Shape, k_shape: Shape, causal: bool, grid_yx: tuple[int, int]
) -> tuple[SDPAProgramConfig, ...]:
    """Program configs over the whole grid whose chunks no other pair of chunks makes superfluous.

    One does where it takes no larger chunks (so no more L1), no more steps, no more products and no more keys fetched:
    time grows with each of these, L1 with both chunks. Of chunks that cut a sequence into as many parts only the
    smallest can pay, and of grids only the whole one.
    """
    cores = grid_yx[0] * grid_yx[1]
    sizes = (_part_sizes(ceil_div(shape[2], TILE)) for shape in (q_shape, k_shape))
    dealt = [deal(q_shape, k_shape, causal, cores, q, k) for q, k in product(*sizes)]
    fronts = {d: _demands(d, causal) for d in dealt}
    kept = [d for d in dealt if not any(_better(fronts[other], fronts[d]) for other in dealt if other is not d)]
    return tuple(SDPAProgramConfig(grid_yx, d.q * TILE, d.k * TILE, exp_approx_mode=False) for d in kept)


def _part_sizes(tiles: int) -> list[int]:
    """Smallest sizes that cut so many tiles into one, two, three ... parts, largest first."""
    return list(dict.fromkeys(ceil_div(tiles, parts) for parts in range(1, tiles + 1)))


def _demands(d: Dealt, causal: bool) -> tuple[int, ...]:
    """What L1 and time grow with. Under a causal mask the cores of a head share what they read on some boards only."""
    fetched = d.steps * d.k * d.active
    alone = (fetched,) if causal else ()
    return (d.q, d.k, d.steps, d.steps * d.q * d.k, ceil_div(fetched, d.sharers), *alone)


def _better(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    return a != b and all(x <= y for x, y in zip(a, b, strict=True))
