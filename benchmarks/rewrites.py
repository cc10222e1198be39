"""What computing parts in another way is worth: every model planned without and with it, in one run.

    python benchmarks/rewrites.py MODEL... [--board n150] [--policy global] [-o FILE]

Prints predicted times, their ratio, seconds of planning and the ways; `-o` appends a JSON line per model.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections import Counter
from pathlib import Path
from typing import Any

from optimizer import Options, load, optimize


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", type=Path, metavar="MODEL")
    parser.add_argument("--board", default="n150")
    parser.add_argument("--policy", default="global")
    parser.add_argument("-o", "--output", type=Path)
    args = parser.parse_args()
    ratios = []
    for path in args.models:
        row = compared(path, args.board, args.policy)
        ratios.append(row["before_ns"] / row["after_ns"])
        ways = ", ".join(f"{name} x{n}" for name, n in row["ways"].items()) or "-"
        print(
            f"{path.stem:32} {row['before_ns'] / 1e3:10.1f} us -> {row['after_ns'] / 1e3:10.1f} us  {ratios[-1]:6.2f}  "
            f"{row['before_s']:6.1f} s -> {row['after_s']:6.1f} s  {ways}",
            flush=True,
        )
        if args.output is not None:
            with args.output.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
    print(f"geometric mean of {len(ratios)}: {math.exp(sum(map(math.log, ratios)) / len(ratios)):.3f}")
    return 0


def compared(path: Path, board: str, policy: str) -> dict[str, Any]:
    """Predicted times and seconds of one model, without and with rewrites."""
    row: dict[str, Any] = {"model": path.stem, "board": board}
    for name, rewrites in (("before", False), ("after", True)):
        began = time.perf_counter()
        result = optimize(load(path), board, Options(policy=policy, rewrites=rewrites, allow_host_ops=True))
        row |= {f"{name}_ns": result.summary.predicted_time_ns, f"{name}_s": round(time.perf_counter() - began, 1)}
    return row | {"ways": dict(Counter(note.way for note in result.summary.rewritten if not note.is_needed))}


if __name__ == "__main__":
    raise SystemExit(main())
