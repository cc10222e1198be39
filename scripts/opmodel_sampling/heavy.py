"""Samplers of matmul, linear, convolution, pooling, upsampling and attention ops."""

from __future__ import annotations

import math
from random import Random
from typing import Any

from opmodel_sampling import shapes
from opmodel_sampling.ops import Builder, asked, first_input, row
from opmodel_sampling.places import BOARDS, Sharder, input_place, interleaved, pick, tensor

MATMUL_DTYPES = (("bf16", 66), ("f32", 17), ("bfp8_b", 17))
WEIGHT_DTYPES = (("bf16", 58), ("f32", 9), ("bfp8_b", 33))
REQUESTS = (("none", 37), ("dram", 14), ("l1", 10), ("same", 4), ("spec", 14), ("bare", 21))


def matmul(sharder: Sharder, family: str) -> dict[str, Any]:
    rng = sharder.rng
    left, right = shapes.matmul(rng, family)
    out = (*left[:-1], right[-1])
    a = first_input(sharder, left, 0.0, MATMUL_DTYPES, sharded=0.52)
    attrs: dict[str, Any] = {}
    if rng.random() < 0.055:
        attrs["transpose_b"] = True
        right = (*right[:-2], right[-1], right[-2])
    dtype = pick(rng, WEIGHT_DTYPES)
    b = tensor(right, dtype, "tile", input_place(sharder, right, "tile", dtype, sharded=0.09))
    draw = rng.random()
    if draw < 0.32:
        attrs["program_config"] = _matmul_config(rng, left, out)
    elif draw < 0.4:
        attrs["core_grid"] = rng.choice(([8, 8], [1, 8], [12, 12], [8, 4], [4, 4], [8, 1], list(BOARDS[sharder.board])))
    if rng.random() < 0.1:
        attrs["compute"] = {
            "fid": rng.choice(("HiFi4", "HiFi2", "LoFi")),
            "fp32": rng.random() < 0.5,
            "l1acc": rng.random() < 0.5,
        }
    asked_dtype = pick(rng, ((None, 50), ("f32", 17), ("bf16", 16), ("bfp8_b", 17)))
    return row(attrs, [a, b], asked(sharder, out, a, weights=REQUESTS), asked_dtype)


def linear(sharder: Sharder, family: str) -> dict[str, Any]:
    rng = sharder.rng
    built = matmul(sharder, family)
    left, right = built["inputs"]
    columns = right["shape"][-2 if built["attrs"].get("transpose_b") else -1]
    if rng.random() < 0.7:
        dtype = pick(rng, (("bf16", 80), ("bfp8_b", 16), ("f32", 4)))
        ones = [1] * (len(left["shape"]) - 1)
        built["inputs"].append(tensor((*ones, columns), dtype, "tile", interleaved("dram")))
    if rng.random() < 0.24:
        built["attrs"]["activation"] = rng.choice(("relu", "silu", "gelu"))
    return built


def _matmul_config(rng: Random, left: tuple[int, ...], out: tuple[int, ...]) -> dict[str, Any]:
    kind = rng.choice(("1d", "1d", "2d", "2d", "reuse"))
    grid = rng.choice(([8, 8], [8, 8], [8, 8], [8, 4], [4, 4], [8, 7], [5, 8]))
    fuse = rng.random() < 0.65
    mt, kt, nt = (math.ceil(size / 32) for size in (left[-2], left[-1], out[-1]))
    rows = mt * math.prod(left[:-2]) if fuse else mt
    in0 = rng.random() < 0.5
    if kind == "2d":
        per_m, per_n = math.ceil(rows / grid[1]), math.ceil(nt / grid[0])
    elif kind == "1d":
        cores = grid[0] * grid[1]
        per_m, per_n = (rows, math.ceil(nt / cores)) if in0 else (math.ceil(rows / cores), nt)
    else:
        per_m, per_n = rng.choice([n for n in (1, 2, 4, mt) if mt % n == 0]), nt
    if rng.random() < 0.12:
        per_m, per_n = (per_m + 1, per_n) if rng.random() < 0.5 else (per_m, per_n + 1)
    block = rng.choice([n for n in (1, 2, 3, 4, 6, 8, kt) if kt % n == 0 or rng.random() < 0.05])
    sub_h, sub_w = rng.choice(
        [(h, w) for h in range(1, 9) for w in range(1, 9) if h * w <= 8 and per_m % h == 0 and per_n % w == 0]
    )
    config: dict[str, Any] = {
        "kind": kind,
        "grid": grid,
        "in0_block_w": block,
        "out_subblock_h": sub_h,
        "out_subblock_w": sub_w,
        "per_core_M": per_m,
        "per_core_N": per_n,
    }
    if kind == "reuse":
        return config
    config |= {"fuse_batch": fuse, "fused_activation": rng.choice((None, None, None, "RELU", "GELU", "SILU"))}
    config |= {"transpose_mcast": rng.random() < 0.3} if kind == "2d" else {"mcast_in0": in0}
    if rng.random() < 0.3:
        config |= {"out_block_h": _out_block(rng, per_m, sub_h), "out_block_w": _out_block(rng, per_n, sub_w)}
    return config


def _out_block(rng: Random, whole: int, subblock: int) -> int:
    """Mostly a divisor of a core's tiles that subblocks divide."""
    fitting = [n for n in range(subblock, whole + 1, subblock) if whole % n == 0]
    return rng.choice(fitting) if rng.random() < 0.9 else rng.randint(1, whole)


def conv2d(sharder: Sharder, family: str) -> dict[str, Any]:
    rng = sharder.rng
    problem = shapes.convolution(rng, family)
    n, h, w, cin, cout = (int(problem[key]) for key in ("n", "h", "w", "cin", "cout"))  # type: ignore[call-overload]
    kernel = problem["k"]
    x = first_input(sharder, (1, 1, n * h * w, cin), 0.65, (("bf16", 83), ("f32", 9), ("bfp8_b", 8)), sharded=0.34)
    host = {"layout": "rm", "host": True, "dtype": "bf16"}
    inputs = [x, {"shape": [cout, cin, *kernel], **host}]  # type: ignore[misc]
    if rng.random() < 0.62:
        inputs.append({"shape": [1, 1, 1, cout], **host})
    attrs: dict[str, Any] = dict(problem)
    if rng.random() < 0.71:
        attrs["config"] = _conv_config(rng)
    draw = rng.random()
    if draw < 0.6:
        attrs["slice"] = "l1"
    elif draw < 0.74:
        attrs["slice"] = [rng.choice(("h", "w")), rng.choice((2, 4, 8))]
    if rng.random() < 0.11:
        attrs["compute"] = {"fid": rng.choice(("LoFi", "HiFi4")), "fp32": rng.random() < 0.5}
    k, stride, edge = int(kernel[0]), int(problem["s"][0]), int(problem["p"][0])  # type: ignore[index]
    side = (h + 2 * edge - k) // stride + 1
    out = (1, 1, n * side * side, cout)
    weights = (("none", 67), ("dram", 6), ("l1", 4), ("bare", 13), ("spec", 10))
    wanted = asked(sharder, out, {**x, "layout": "tile"}, weights=weights)
    return row(attrs, inputs, wanted, pick(rng, ((None, 62), ("f32", 19), ("bfp8_b", 19))))


def _conv_config(rng: Random) -> dict[str, Any]:
    config: dict[str, Any] = {}
    for chance, key, values in (
        (0.68, "shard_layout", ("height", "height", "block", "block", "width")),
        (0.31, "activation", ("RELU",)),
        (0.36, "weights_dtype", ("bf16", "bfp8_b")),
        (0.37, "act_block_h_override", (32, 32, 64, 96, 128, 160, 224, 256, 416, 512)),
        (0.08, "act_block_w_div", (2, 3, 4)),
        (0.20, "enable_weights_double_buffer", (True,)),
        (0.20, "reshard_if_not_optimal", (True,)),
        (0.18, "enable_act_double_buffer", (True,)),
        (0.17, "deallocate_activation", (True,)),
        (0.15, "output_layout", ("rm",)),
        (0.11, "transpose_shards", (True,)),
        (0.10, "full_inner_dim", (True,)),
        (0.09, "config_tensors_in_dram", (True,)),
    ):
        if rng.random() < chance:
            config[key] = rng.choice(values)
    return config


def pool(sharder: Sharder, family: str) -> dict[str, Any]:
    rng = sharder.rng
    attrs: dict[str, Any] = {**shapes.pool(rng, family), "ceil": rng.random() < 0.1}
    n, h, w, c = (int(attrs[key]) for key in ("n", "h", "w", "c"))
    x = first_input(sharder, (1, 1, n * h * w, c), 0.7, (("bf16", 90), ("f32", 10)), sharded=0.45)
    if rng.random() < 0.25:
        attrs["applied_shard_scheme"] = rng.choice(("block", "height", "width"))
    k, stride, edge = attrs["k"][0], attrs["s"][0], attrs["p"][0]
    side = max(1, (h + 2 * edge - k) // stride + 1)
    weights = (("none", 61), ("dram", 10), ("l1", 7), ("bare", 10), ("spec", 12))
    return row(attrs, [x], asked(sharder, (1, 1, n * side * side, c), x, weights=weights))


def upsample(sharder: Sharder, family: str) -> dict[str, Any]:
    rng = sharder.rng
    side, channels = rng.choice(shapes.UPSAMPLE)
    batch, scale = rng.choice((1, 2)), rng.choice((2, 2, [2, 1], 3, 1.5))
    shape = (batch, side, side, channels)
    x = first_input(sharder, shape, 0.67, (("bf16", 1),), sharded=0.46)
    high, wide = scale if isinstance(scale, list) else (scale, scale)
    out = (batch, int(side * high), int(side * wide), channels)
    weights = (("none", 57), ("dram", 12), ("l1", 5), ("spec", 16), ("bare", 10))
    attrs = {"scale": scale, "mode": "nearest" if rng.random() < 0.66 else "bilinear"}
    return row(attrs, [x], asked(sharder, out, x, weights=weights))


def sdpa(sharder: Sharder, family: str) -> dict[str, Any]:
    rng = sharder.rng
    batch, count, kv, seq, size = shapes.heads(rng, family)
    q = first_input(sharder, (batch, count, seq, size), 0.0, (("bf16", 89), ("f32", 4), ("bfp8_b", 7)), sharded=0.1)
    key_shape = (batch, kv, seq, size)
    k, v = (
        tensor(key_shape, q["dtype"], "tile", input_place(sharder, key_shape, "tile", q["dtype"], 0.03)) for _ in "kv"
    )
    inputs, attrs = [q, k, v], {"causal": rng.random() < 0.38}
    if rng.random() < 0.14:
        inputs.append(tensor((batch, 1, seq, seq), "bf16", "tile", interleaved("dram")))
    if rng.random() < 0.42:
        chunks = (32, 64, 96, 128, 160, 224, 256, 352, 512)
        grid = rng.choice(([8, 8], [8, 8], [8, 4], [4, 4], list(BOARDS[sharder.board])))
        attrs["program_config"] = {"grid": grid, "q_chunk_size": rng.choice(chunks), "k_chunk_size": rng.choice(chunks)}
        if rng.random() < 0.5:
            attrs["program_config"]["exp_approx_mode"] = rng.random() < 0.5
    weights = (("none", 54), ("dram", 11), ("l1", 8), ("bare", 16), ("spec", 11))
    return row(attrs, inputs, asked(sharder, (batch, count, seq, size), q, weights=weights))


def sdpa_decode(sharder: Sharder, family: str) -> dict[str, Any]:
    rng = sharder.rng
    batch, count, kv, seq, size = shapes.heads(rng, family)
    q = first_input(sharder, (1, batch, count, size), 0.0, (("bf16", 77), ("f32", 13), ("bfp8_b", 10)), sharded=0.52)
    cache = tensor((batch, kv, seq, size), q["dtype"], "tile", interleaved("dram"))
    weights = (("none", 61), ("dram", 11), ("l1", 6), ("bare", 12), ("spec", 10))
    wanted = asked(sharder, (1, batch, count, size), q, weights=weights)
    return row({"cur_pos": [seq // 2] * batch}, [q, cache, dict(cache)], wanted)


def split_qkv(sharder: Sharder, family: str, rank: int = 3) -> dict[str, Any]:
    rng = sharder.rng
    batch, count, kv, seq, size = shapes.heads(rng, family)
    if rank == 4 and rng.random() < 0.3:
        kv = 0  # queries alone
    columns = (count + 2 * kv) * size
    shape = (batch, seq, columns) if rank == 3 else (batch, 1, seq, columns)
    x = first_input(sharder, shape, 0.0, (("bf16", 87), ("f32", 6), ("bfp8_b", 7)))
    attrs: dict[str, Any] = {"heads": count, "tk": rng.random() < 0.52}
    if kv != count:
        attrs["kv"] = kv
    return row(attrs, [x], asked(sharder, (batch, count, seq, size), x))


def nlp_create_qkv_heads(sharder: Sharder, family: str) -> dict[str, Any]:
    return split_qkv(sharder, family, rank=4)


def concat_heads(sharder: Sharder, family: str) -> dict[str, Any]:
    batch, count, _, seq, size = shapes.heads(sharder.rng, family)
    x = first_input(sharder, (batch, count, seq, size), 0.0, (("bf16", 82), ("f32", 10), ("bfp8_b", 8)), sharded=0.48)
    return row({}, [x], asked(sharder, (batch, 1, seq, count * size), x))


def rotary_embedding(sharder: Sharder, family: str) -> dict[str, Any]:
    batch, count, _, seq, size = shapes.heads(sharder.rng, family)
    shape = (batch, count, seq, size)
    x = first_input(sharder, shape, 0.0, (("bf16", 87), ("f32", 7), ("bfp8_b", 6)), sharded=0.48)
    table = tensor((1, 1, seq, size), x["dtype"], "tile", interleaved("dram"))
    weights = (("none", 53), ("dram", 11), ("l1", 11), ("bare", 12), ("spec", 6), ("same", 7))
    return row({}, [x, table, dict(table)], asked(sharder, shape, x, weights=weights))


BUILDERS: dict[str, Builder] = {
    "matmul": matmul,
    "linear": linear,
    "conv2d": conv2d,
    "max_pool2d": pool,
    "avg_pool2d": pool,
    "upsample": upsample,
    "sdpa": sdpa,
    "sdpa_decode": sdpa_decode,
    "split_qkv": split_qkv,
    "nlp_create_qkv_heads": nlp_create_qkv_heads,
    "concat_heads": concat_heads,
    "nlp_concat_heads": concat_heads,
    "rotary_embedding": rotary_embedding,
}
