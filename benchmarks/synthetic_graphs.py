"""Graphs of any number of ops for measuring how the pipeline scales.

`repeated` is a network as people build them: residual convolution blocks, then transformer layers, each one like the
next. `irregular` is one that nobody would build: random widths, forks, concats and long skips, no two parts alike.
Both are the same on every machine.
"""

from __future__ import annotations

import random

from optimizer.ir.builder import GraphBuilder
from optimizer.ir.graph import Graph

KINDS = ("repeated", "irregular")
SEED = 20_240

_SIDE, _CHANNELS, _INNER = 32, 256, 64
"""Convolution blocks work on side x side pixels of so many channels, inside the block on fewer."""
_HIDDEN, _HEADS = 512, 8
_ROWS = 256
"""Rows of every activation of an irregular graph."""
_WIDTHS = (64, 96, 128, 192, 256, 384, 512)
_NEAR, _FAR = 4, 40
"""An operand is one of the last few values, or now and then one of many."""
_FAR_SHARE = 0.1
_UNARY = ("relu", "gelu", "sigmoid", "tanh", "silu")


def synthetic_graph(kind: str, ops: int) -> Graph:
    """A graph of the kind with at least `ops` ops, and at most a layer more."""
    return {"repeated": repeated_graph, "irregular": irregular_graph}[kind](ops)


def repeated_graph(ops: int) -> Graph:
    """A third of the ops in residual convolution blocks, the rest in transformer layers."""
    b = GraphBuilder(f"repeated_{ops}")
    x = b.input("x", (1, 1, _SIDE * _SIDE, _CHANNELS))
    count = 0
    while count < ops // 3:
        x = _conv_block(b, x, count)
        count += 4
    x = b.op("ttnn.reshape", x, shape=(1, _SIDE * _SIDE, _CHANNELS), name="tokens")
    x = _linear(b, x, _CHANNELS, _HIDDEN, "embed")
    count += 2
    while count < ops:
        x = _transformer_layer(b, x, count)
        count += 13
    return b.finish(x)


def irregular_graph(ops: int, seed: int = SEED) -> Graph:
    """Random linears, norms, unary and binary ops and concats; what nobody reads is returned."""
    rng = random.Random(seed)
    b = GraphBuilder(f"irregular_{ops}")
    values = [(b.input("x", (1, 1, _ROWS, 256)), 256)]
    unread: dict[str, None] = {}
    for n in range(ops):
        picked = _picked(rng, values)
        values.append(_random_op(b, rng, picked, values, n, unread))
        unread[values[-1][0]] = None
    return b.finish(*unread)


def _picked(rng: random.Random, values: list[tuple[str, int]]) -> tuple[str, int]:
    back = _FAR if rng.random() < _FAR_SHARE else _NEAR
    return rng.choice(values[-back:])


def _random_op(
    b: GraphBuilder,
    rng: random.Random,
    picked: tuple[str, int],
    values: list[tuple[str, int]],
    n: int,
    unread: dict[str, None],
) -> tuple[str, int]:
    x, width = picked
    unread.pop(x, None)
    kind = rng.choices(("linear", "unary", "norm", "add", "concat"), (4, 2, 1, 2, 1))[0]
    if kind == "unary":
        return b.op(f"ttnn.{rng.choice(_UNARY)}", x, name=f"unary_{n}"), width
    if kind == "norm":
        return b.op("ttnn.layer_norm", x, b.parameter(f"g_{n}", (width,)), name=f"norm_{n}"), width
    if kind == "add":
        alike = [v for v, w in values[-_FAR:] if w == width and v != x]
        if alike:
            y = rng.choice(alike[-_NEAR:])
            unread.pop(y, None)
            return b.op("ttnn.add", x, y, name=f"add_{n}"), width
    if kind == "concat":
        y, other = _picked(rng, values)
        if y != x and width + other <= max(_WIDTHS):
            unread.pop(y, None)
            return b.op("ttnn.concat", x, y, dim=-1, name=f"concat_{n}"), width + other
    wanted = rng.choice(_WIDTHS)
    return _linear(b, x, width, wanted, f"linear_{n}"), wanted


def _linear(b: GraphBuilder, x: str, wide: int, out: int, name: str, activation: str | None = None) -> str:
    weight, bias = b.parameter(f"{name}.w", (wide, out)), b.parameter(f"{name}.b", (out,))
    return b.op("ttnn.linear", x, weight, bias, name=name, activation=activation)


def _conv(b: GraphBuilder, x: str, wide: int, out: int, side: int, name: str, activation: str | None) -> str:
    weight, bias = b.parameter(f"{name}.w", (out, wide, side, side)), b.parameter(f"{name}.b", (1, 1, 1, out))
    window = {"batch_size": 1, "input_height": _SIDE, "input_width": _SIDE, "kernel_size": (side, side)}
    padding = (side // 2,) * 4
    channels = {"in_channels": wide, "out_channels": out}
    return b.op("ttnn.conv2d", x, weight, bias, name=name, activation=activation, padding=padding, **window, **channels)


def _conv_block(b: GraphBuilder, x: str, n: int) -> str:
    y = _conv(b, x, _CHANNELS, _INNER, 1, f"conv_{n}", "relu")
    y = _conv(b, y, _INNER, _INNER, 3, f"conv_{n + 1}", "relu")
    y = _conv(b, y, _INNER, _CHANNELS, 1, f"conv_{n + 2}", None)
    return b.op("ttnn.add", y, x, activations=("relu",), name=f"add_{n + 3}")


def _transformer_layer(b: GraphBuilder, x: str, n: int) -> str:
    y = _norm(b, x, f"norm_{n}")
    y = _linear(b, y, _HIDDEN, 3 * _HIDDEN, f"qkv_{n}")
    q, k, v = b.ops("ttnn.split_query_key_value_and_split_heads", y, num_heads=_HEADS, name=f"split_{n}")
    y = b.op("ttnn.scaled_dot_product_attention", q, k, v, name=f"sdpa_{n}")
    y = b.op("ttnn.concatenate_heads", y, name=f"heads_{n}")
    y = _linear(b, y, _HIDDEN, _HIDDEN, f"proj_{n}")
    x = b.op("ttnn.add", x, y, name=f"add_{n}")
    y = _norm(b, x, f"norm2_{n}")
    gate = _linear(b, y, _HIDDEN, 2 * _HIDDEN, f"gate_{n}", "silu")
    up = _linear(b, y, _HIDDEN, 2 * _HIDDEN, f"up_{n}")
    y = b.op("ttnn.multiply", gate, up, name=f"mul_{n}")
    y = _linear(b, y, 2 * _HIDDEN, _HIDDEN, f"down_{n}")
    return b.op("ttnn.add", x, y, name=f"add2_{n}")


def _norm(b: GraphBuilder, x: str, name: str) -> str:
    return b.op(
        "ttnn.layer_norm", x, b.parameter(f"{name}.g", (_HIDDEN,)), b.parameter(f"{name}.b", (_HIDDEN,)), name=name
    )
