"""What is known of an op stands in its family: other rooms ask its row, or for an aspect of it."""

from __future__ import annotations

import ast
from itertools import pairwise
from pathlib import Path

import pytest

import optimizer
from optimizer.ir.vocabulary import op_names

PACKAGE = Path(optimizer.__file__).parent
NAMING = (
    "families", "ir/row_forms.py", "ir/vocabulary.py", "importers", "rewrites", "fusion/operations.py",
    "opmodel/rows.py",
    "ir/numeric_risk.py", "values/judged.py", "values/random_arrays.py", "values/residual_branches.py",
    "values/typical_inputs.py", "kernels",
)  # fmt: skip
"""What names ops: families and the forms of their rows; the vocabulary those that are inserted; importers, rewrites and
fusion what they rewrite; recorded answers their spelling; what looks for patterns of several ops; kernels their own
IR's."""
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if not str(path.relative_to(PACKAGE)).startswith(NAMING))


def named_ops(source: str) -> list[str]:
    """`line: name` of every op that a module names as text; in f-strings any `ttnn.` that a name follows."""
    tree, known = ast.parse(source), set(op_names())
    written = [
        part
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        for part, value in pairwise(node.values)
        if isinstance(value, ast.FormattedValue) and isinstance(value.value, ast.Name)
    ]
    return [
        f"{node.lineno}: {node.value}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and (node.value in known or (node.value == "ttnn." and node in written))
    ]


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_op_is_known_by_its_name(module: Path) -> None:
    assert not named_ops(module.read_text()), "a trait of its row (ir/opdef.py) or an aspect of its family says it"


def test_a_name_is_found_wherever_it_stands() -> None:
    source = 'OPS = ("ttnn.add", "ttnn.other")\ndef f(name):\n    """ttnn.x."""\n    return f"ttnn.{name}"\n'
    assert named_ops(source) == ["1: ttnn.add", "4: ttnn."]
