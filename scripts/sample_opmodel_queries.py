"""Samples op queries for OpModel backends: the same options give the same rows, byte for byte.

    python scripts/sample_opmodel_queries.py softmax matmul --family vit_b --family tiny --board n150 \
        --count 200 --seed 1 -o rows.jsonl

Writes questions only (one JSON object per line: id, board, arch, op, family, attrs, inputs, request_mem,
request_dtype); `ttopt opmodel query --opmodel ttmetal rows.jsonl` answers them and
`benchmarks/opmodel_agreement.py` compares a backend with the answers. Without OP every op is sampled, without
--family every family, without --board both boards. --count is per (op, family, board). With --block-floats the
tiled tensors of every row are bf16, bfp8_b or bfp4_b, each for itself, and so is what is asked of the result.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from opmodel_sampling import dram_sharded, heavy, moves, ops
from opmodel_sampling.elements import in_block_floats
from opmodel_sampling.places import ARCH, BOARDS, Sharder
from opmodel_sampling.shapes import FAMILIES

BUILDERS = {**ops.BUILDERS, **moves.BUILDERS, **heavy.BUILDERS, **dram_sharded.BUILDERS}


def sample(
    op: str, family: str, board: str, count: int, seed: int, block_floats: bool = False
) -> Iterator[dict[str, Any]]:
    """`count` rows of one op, family and board. Raises KeyError for an op without a sampler."""
    rng = Random(f"{seed} {op} {family} {board}")
    for _ in range(count):
        built = BUILDERS[op](Sharder(rng, board), family)
        if block_floats:
            built = in_block_floats(rng, op, built)
        yield {"board": board, "arch": ARCH[board], "op": op, "family": family, **built}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ops", nargs="*", metavar="OP", help="ops to sample; all of them when none is named")
    parser.add_argument("--family", action="append", choices=FAMILIES)
    parser.add_argument("--board", action="append", choices=sorted(BOARDS))
    parser.add_argument("--count", type=int, default=50, help="rows per (op, family, board)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--block-floats", action="store_true", help="tiles of bf16, bfp8_b and bfp4_b only")
    parser.add_argument("-o", "--output", type=Path, help="JSONL file (standard output when not given)")
    options = parser.parse_args()
    unknown = sorted(set(options.ops) - set(BUILDERS))
    if unknown:
        parser.error(f"no sampler for {', '.join(unknown)}; known: {', '.join(sorted(BUILDERS))}")
    rows = (
        row
        for op in options.ops or sorted(BUILDERS)
        for family in options.family or FAMILIES
        for board in options.board or sorted(BOARDS)
        for row in sample(op, family, board, options.count, options.seed, options.block_floats)
    )
    stream = options.output.open("w", encoding="utf-8") if options.output else sys.stdout
    with stream:
        for number, row in enumerate(rows):
            stream.write(json.dumps({"id": number, **row}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
