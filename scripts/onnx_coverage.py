"""Writes the table of docs/onnx-coverage.md: what each ONNX op becomes.

    python scripts/onnx_coverage.py [--check]

The rows come from the importer itself: each mapped op is imported with every test case that the tests in
`tests/importers` have for it, and the most frequent result is listed; the others carry the importer's reason.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import onnx.defs

from optimizer.importers import load
from optimizer.importers.onnx_front_end import OPSETS
from optimizer.importers.onnx_ops import TABLE
from optimizer.importers.onnx_refusals import reason

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "onnx-coverage.md"
TESTS = ROOT / "tests" / "importers"
HEAD, FOOT = "<!-- table -->\n", "<!-- end of table -->\n"
SHAPES = frozenset({"reshape", "permute", "typecast", "repeat"})
"""Ops that only fit shapes and types; an op that needs no other than these and one more is native."""
FOLDED = frozenset({"Shape", "Size", "Constant"})
REFUSED = frozenset({"If", "Loop", "Scan", "SequenceMap"})


def standard_ops() -> list[str]:
    """Names in ONNX's own domain, of the opsets that are read, without deprecated ones."""
    found: set[str] = set()
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "" and schema.since_version <= OPSETS[-1]:
            found.add(schema.name)
    return sorted(found)


def cases() -> Iterator[object]:
    """Every one-node case of the tests."""
    sys.path.insert(0, str(TESTS))
    try:
        for path in sorted(TESTS.glob("meaning/test_meaning_*.py")):
            spec = importlib.util.spec_from_file_location(f"coverage_{path.stem}", path)
            assert spec is not None
            assert spec.loader is not None
            module: ModuleType = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            yield from getattr(module, "CASES", ())
    finally:
        sys.path.remove(str(TESTS))


def typical_ops() -> dict[str, tuple[list[str], int]]:
    """`[domain.]OpType` -> (ops of most of its cases, of those the fewest; number of cases)."""
    sys.path.insert(0, str(TESTS))
    from op_case import model_of  # type: ignore[import-not-found]

    found: dict[str, Counter[tuple[str, ...]]] = {}
    for case in cases():
        key = f"{case.domain}.{case.op}" if case.domain else case.op  # type: ignore[attr-defined]
        graph = load(model_of(case)[0].SerializeToString(), fuse=False).graph
        names = tuple(dict.fromkeys(op.op.removeprefix("ttnn.") for op in graph.run_ops()))
        found.setdefault(key, Counter())[names] += 1
    return {key: (list(_typical(counts)), counts.total()) for key, counts in found.items()}


def _typical(counts: Counter[tuple[str, ...]]) -> tuple[str, ...]:
    """A result without ops says nothing of the op, so it comes last."""
    return min(counts, key=lambda names: (not names, names == ("identity",), -counts[names], len(names), names))


def row(key: str, imported: dict[str, tuple[list[str], int]]) -> str:
    """One line of the table."""
    if key in REFUSED:
        return f"| {key} | refused | {reason(key)}; with a constant condition If is folded |"
    if key not in TABLE and key not in FOLDED:
        return f"| {key} | host | {reason(key)} |"
    names, count = imported.get(key, ([], 0))
    if key not in FOLDED and not count:
        return f"| {key} | mapped | no case: not among the opsets or domains that onnxruntime runs |"
    if not names:
        return f"| {key} | folded | known when the model is imported |"
    core = [n for n in names if n not in SHAPES]
    kind = "native" if len(core) <= 1 else "decomposed"
    shown = ", ".join(f"`{n}`" for n in names)
    return f"| {key} | {kind} | {shown} ({count} case{'s' if count > 1 else ''}) |"


def table() -> str:
    imported = typical_ops()
    keys = sorted({*standard_ops(), *TABLE}, key=lambda k: ("." in k, k))
    lines = ["| ONNX op | runs | as |", "|---|---|---|", *(row(key, imported) for key in keys)]
    return "\n".join(lines) + "\n"


def page_with(text: str, rows: str) -> str:
    """The page with its table replaced."""
    before, _, rest = text.partition(HEAD)
    return before + HEAD + rows + FOOT + rest.partition(FOOT)[2]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="only say whether the page is up to date")
    arguments = parser.parse_args()
    text = PAGE.read_text(encoding="utf-8")
    fresh = page_with(text, table())
    if arguments.check:
        print("up to date" if fresh == text else f"{PAGE.name} is out of date: run this script without --check")
        return int(fresh != text)
    PAGE.write_text(fresh, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
