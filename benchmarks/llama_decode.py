"""One decode step of a Llama-like network as a graph: every user adds a token, keys and values are cached.

Rotary embedding and the writing of the caches are left out; they take a few per cent of such a step.
"""

from __future__ import annotations

from optimizer.ir.builder import GraphBuilder
from optimizer.ir.graph import Graph


def llama_decode(
    layers: int = 16,
    hidden: int = 2048,
    heads: int = 32,
    kv_heads: int = 8,
    ffn: int = 8192,
    vocabulary: int = 128256,
    cached: int = 128,
    users: int = 32,
) -> Graph:
    """The sizes default to Llama-3.2-1B."""
    b = GraphBuilder("llama_decode")
    width = hidden // heads
    x = b.input("x", (1, 1, users, hidden))
    for i in range(layers):
        h = b.op("ttnn.rms_norm", x, b.parameter(f"n1_{i}", (hidden,)), name=f"norm1_{i}")
        qkv = b.op("ttnn.linear", h, b.parameter(f"wqkv_{i}", (hidden, hidden + 2 * kv_heads * width)), name=f"qkv_{i}")
        q = b.op("ttnn.slice", qkv, name=f"q_{i}", begins=(0, 0, 0, 0), ends=(1, 1, users, hidden))
        q = b.op("ttnn.reshape", q, name=f"heads_{i}", shape=(1, users, heads, width))
        keys, values = (b.input(f"{name}_{i}", (users, kv_heads, cached, width)) for name in ("k", "v"))
        a = b.op(
            "ttnn.scaled_dot_product_attention_decode", q, keys, values, name=f"sdpa_{i}",
            cur_pos=(cached - 1,) * users,
        )  # fmt: skip
        a = b.op("ttnn.reshape", a, name=f"joined_{i}", shape=(1, 1, users, hidden))
        a = b.op("ttnn.linear", a, b.parameter(f"wo_{i}", (hidden, hidden)), name=f"wo_{i}")
        x = b.op("ttnn.add", x, a, name=f"attended_{i}")
        h = b.op("ttnn.rms_norm", x, b.parameter(f"n2_{i}", (hidden,)), name=f"norm2_{i}")
        gate = b.op("ttnn.linear", h, b.parameter(f"w1_{i}", (hidden, ffn)), name=f"gate_{i}", activation="silu")
        up = b.op("ttnn.linear", h, b.parameter(f"w3_{i}", (hidden, ffn)), name=f"up_{i}")
        m = b.op("ttnn.multiply", gate, up, name=f"gated_{i}")
        m = b.op("ttnn.linear", m, b.parameter(f"w2_{i}", (ffn, hidden)), name=f"down_{i}")
        x = b.op("ttnn.add", x, m, name=f"fed_{i}")
    x = b.op("ttnn.rms_norm", x, b.parameter("n", (hidden,)), name="norm")
    return b.finish(b.op("ttnn.linear", x, b.parameter("head", (hidden, vocabulary)), name="head"))
