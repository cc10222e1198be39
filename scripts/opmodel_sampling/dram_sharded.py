"""Sampler of matmuls whose operand B lies in shards in the DRAM banks; in every third question something is wrong."""

from __future__ import annotations

import math
from random import Random
from typing import Any

from opmodel_sampling.ops import Builder, row
from opmodel_sampling.places import BOARDS, Place, Sharder, interleaved, pick, tensor

BANKS = {"n150": 12, "p150": 8}
DEPTHS = (256, 512, 768, 1024, 1536, 2048, 3072, 4096, 8192)
WIDTHS = (256, 320, 1000, 1024, 1280, 2048, 3072, 3000, 4096, 8192, 11008)
A_DTYPES = (("bf16", 80), ("bfp8_b", 15), ("f32", 5))
B_DTYPES = (("bfp8_b", 50), ("bfp4_b", 20), ("bf16", 30))


def dram_sharded(sharder: Sharder, family: str) -> dict[str, Any]:
    """A product of one row of tiles; `family` says nothing."""
    rng, board = sharder.rng, sharder.board
    depth, width = rng.choice(DEPTHS), rng.choice(WIDTHS)
    kt, nt = depth // 32, math.ceil(width / 32)
    cores = rng.choice([n for n in range(1, math.prod(BOARDS[board]) + 1) if kt % n == 0])
    readers = 1 if board == "n150" or rng.random() < 0.4 else rng.choice((2, 3))
    a = _row_of_shards((1, 1, rng.choice((32, 32, 32, 1, 20)), depth), kt // cores, cores, board, pick(rng, A_DTYPES))
    b_dtype = pick(rng, B_DTYPES)
    b = tensor((depth, width), b_dtype, "tile", _bank_shards(depth, nt, board, readers))
    config: dict[str, Any] = {
        "kind": "dram",
        "in0_block_w": rng.choice(_blocks(kt, kt // cores)),
        "per_core_M": 1,
        "per_core_N": rng.choice((1, 2, 3, 4, 8, 12, math.ceil(nt / 8), math.ceil(nt / 32), math.ceil(nt / 64))),
        "fused_activation": rng.choice((None, None, None, "RELU", "SILU", "GELU")),
        "num_workers_per_dram_bank": readers,
    }
    inputs = [a, b]
    if rng.random() < 0.3:
        inputs.append(tensor((1, width), "bf16", "tile", _bank_shards(32, nt, board, readers)))
    wanted: Place = {"memory_layout": "width", "buffer": "l1"}
    if rng.random() < 0.3:
        wanted = _spoilt(rng, inputs, config, wanted)
    block, fp32 = config["in0_block_w"], rng.random() < 0.4
    compute = {"fid": rng.choice(("LoFi", "HiFi2")), "fp32": fp32 or block > 4, "l1acc": rng.random() < 0.9}
    dtype = pick(rng, (("bf16", 70), ("bfp8_b", 20), ("f32", 10)))
    name = "linear" if len(inputs) > 2 else "matmul"
    return {"op": name, **row({"program_config": config, "compute": compute}, inputs, wanted, dtype)}


def _blocks(kt: int, shard: int) -> list[int]:
    return [n for n in range(1, kt + 1) if kt % n == 0 and (shard % n == 0 or n % shard == 0)]


def _row_of_shards(shape: tuple[int, ...], tiles: int, cores: int, board: str, dtype: str) -> dict[str, Any]:
    across = BOARDS[board][0]
    full, rest = divmod(cores, across)
    grid = [[0, 0, across - 1, full - 1]] if full else []
    grid += [[0, full, rest - 1, full]] if rest else []
    place = {"memory_layout": "width", "buffer": "l1", "shard_shape": [32, tiles * 32], "grid": grid}
    return tensor(shape, dtype, "tile", {**place, "orientation": "row"})


def _bank_shards(rows: int, columns: int, board: str, readers: int) -> Place:
    banks = BANKS[board]
    tiles = readers * math.ceil(columns / (banks * readers))
    place = {"memory_layout": "width", "buffer": "dram", "shard_shape": [rows, tiles * 32]}
    return {**place, "grid": [[0, 0, banks - 1, 0]], "orientation": "row"}


def _spoilt(rng: Random, inputs: list[dict[str, Any]], config: dict[str, Any], wanted: Place) -> Place:
    """One thing changed; the request for the result."""
    change = rng.randrange(10)
    if change == 0:
        config["in0_block_w"] += 1
    elif change == 1:
        config["per_core_M"] = 2
    elif change == 2:
        return rng.choice((interleaved("l1"), interleaved("dram"), {"memory_layout": "block", "buffer": "l1"}))
    elif change == 3:
        inputs[1].update(interleaved("dram"), shard_shape=None, grid=None)
    elif change == 4:
        inputs[0].update(interleaved("l1"), shard_shape=None, grid=None)
    elif change == 5:
        inputs[0]["shape"] = [1, 1, 64, inputs[0]["shape"][-1]]
        inputs[0]["shard_shape"][0] = 64
    elif change == 6:
        config["num_workers_per_dram_bank"] += 1
    elif change == 7:
        inputs[1]["shard_shape"][1] += 32
    elif change == 8:
        inputs[0]["orientation"] = "col"
    else:
        config["per_core_N"] = 1
    return wanted


BUILDERS: dict[str, Builder] = {"matmul_dram_sharded": dram_sharded}
