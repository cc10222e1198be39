"""Random and mutated input for everything that reads files of strangers.

    python benchmarks/fuzz.py [TARGET...] [--cases N] [--seed S] [--jobs J] [-o DIR]

Every case runs in a forked worker under the target's limits of time and memory. It may end in a result or in a refusal;
anything else is a finding: its seed and traceback are printed, its bytes written to DIR, and the exit code is 1. The
same seeds make the same cases; `--seed S --cases 1` repeats one.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections import Counter
from importlib import import_module
from pathlib import Path

from fuzzing.harness import Target, Verdict, make_case, run_cases

TARGETS = {
    "json": ("fuzzing.json_graphs", "JsonTarget"),
    "onnx": ("fuzzing.onnx_models", "OnnxTarget"),
    "plans": ("fuzzing.plan_corruptions", "PlanTarget"),
    "documents": ("fuzzing.documents", "DocumentTarget"),
    "http": ("fuzzing.http_server", "HttpTarget"),
    "kernel": ("fuzzing.kernel_programs", "KernelTarget"),
    "asm": ("fuzzing.asm_programs", "AsmTarget"),
    "asm-kernels": ("fuzzing.random_kernels", "RandomKernelTarget"),
}


def load_target(name: str) -> Target:
    module, cls = TARGETS[name]
    target: Target = getattr(import_module(module), cls)()
    return target


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"default: all of {', '.join(TARGETS)}")
    parser.add_argument("--cases", type=int, default=1000, help="of each target (default: 1000)")
    parser.add_argument("--seed", type=int, default=0, help="of the first case (default: 0)")
    parser.add_argument("--jobs", type=int, default=2, help="workers (default: 2)")
    parser.add_argument("-o", "--output", type=Path, default=Path("bench-out/fuzz"), help="findings (bench-out/fuzz)")
    args = parser.parse_args()
    for name in args.targets:
        if name not in TARGETS:
            parser.error(f"unknown target '{name}' (one of: {', '.join(TARGETS)})")
    found = [_fuzz(load_target(name), args) for name in args.targets or TARGETS]
    return 1 if any(found) else 0


def _fuzz(target: Target, args: argparse.Namespace) -> int:
    """Run one target; returns how many findings it gave."""
    began = time.monotonic()
    verdicts = []
    for verdict in run_cases(target, range(args.seed, args.seed + args.cases), args.jobs):
        verdicts.append(verdict)
        if verdict.finding:
            _report(target, verdict, args.output)
    seconds = sorted(v.seconds for v in verdicts)
    findings = sum(bool(v.finding) for v in verdicts)
    print(
        f"{target.name}: {len(verdicts)} cases from seed {args.seed}, {findings} findings, "
        f"{time.monotonic() - began:.0f} s; a case takes {statistics.median(seconds) * 1e3:.0f} ms, "
        f"at most {seconds[-1]:.1f} s"
    )
    for outcome, count in Counter(v.outcome for v in verdicts).most_common():
        print(f"  {count:6d}  {outcome}")
    sys.stdout.flush()
    return findings


def _report(target: Target, verdict: Verdict, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{target.name}-{verdict.seed}"
    path.write_bytes(make_case(target, verdict.seed).payload)
    print(f"{target.name} seed {verdict.seed}: {verdict.name}: {verdict.outcome}, written to {path}")
    print("  " + "\n  ".join(verdict.finding.rstrip().splitlines()[-6:]), flush=True)


if __name__ == "__main__":
    sys.exit(main())
