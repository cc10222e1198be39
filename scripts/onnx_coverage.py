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


def typical_ops() -> dict[str, tuple[str, ...]]:
    """`[domain.]OpType` -> ops of most of its cases, of those the fewest."""
    sys.path.insert(0, str(TESTS))
    from op_case import model_of  # type: ignore[import-not-found]

    found: dict[str, Counter[tuple[str, ...]]] = {}
    for case in cases():
        key = f"{case.domain}.{case.op}" if case.domain else case.op  # type: ignore[attr-defined]
        graph = load(model_of(case)[0].SerializeToString(), fuse=False).graph
        names = tuple(dict.fromkeys(op.op.removeprefix("ttnn.") for op in graph.run_ops()))
        found.setdefault(key, Counter())[names] += 1
    return {key: _typical(counts) for key, counts in found.items()}


def _typical(counts: Counter[tuple[str, ...]]) -> tuple[str, ...]:
    """A result without ops says nothing of the op, so it comes last."""
    return min(counts, key=lambda names: (not names, names == ("identity",), -counts[names], len(names), names))


def outcome(key: str, imported: dict[str, tuple[str, ...]]) -> tuple[str, str]:
    """How an op runs, and what it becomes or why it does not."""
    if key in REFUSED:
        return "refused", f"{reason(key)}; with a constant condition If is folded"
    if key not in TABLE and key not in FOLDED:
        return "host", reason(key)
    if key not in FOLDED and key not in imported:
        return "mapped", "no case: not among the opsets or domains that onnxruntime runs"
    names = imported.get(key, ())
    if not names:
        return "folded", "known when the model is imported"
    core = [n for n in names if n not in SHAPES]
    if len(core) > 1:
        return "decomposed", ", ".join(f"`{n}`" for n in names)
    return "native", ", ".join(f"`{n}`" for n in core or names)


def table() -> str:
    """The native ops in two rows, the others in a row for all that become the same."""
    imported = typical_ops()
    same_name, other_name = [], []
    alike: dict[tuple[str, str], list[str]] = {}
    for key in sorted({*standard_ops(), *TABLE}, key=lambda k: ("." in k, k)):
        how, what = outcome(key, imported)
        if how != "native":
            alike.setdefault((how, what), []).append(key)
        elif what.strip("`").replace("_", "") == key.lower():
            same_name.append(key)
        else:
            other_name.append(f"{key}: {what}")
    rows = [
        ("native", ", ".join(same_name), "the op of that name"),
        ("native", "; ".join(other_name), "the op behind the colon"),
        *sorted((how, ", ".join(keys), what) for (how, what), keys in alike.items()),
    ]
    return "\n".join(["| run | ONNX ops | as |", "|---|---|---|", *(f"| {' | '.join(row)} |" for row in rows)]) + "\n"


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
