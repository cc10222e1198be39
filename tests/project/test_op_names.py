"""Rooms that ask the vocabulary about an op instead of knowing it by its name."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import optimizer

PACKAGE = Path(optimizer.__file__).parent
ROOMS = ("sharding", "solver", "layouts", "verify", "l1")
MODULES = sorted(path for room in ROOMS for path in (PACKAGE / room).rglob("*.py"))


def named_ops(source: str) -> list[str]:
    """`line: literal` of every string of a module that begins with `ttnn.`, f-strings included, docstrings left out."""
    tree = ast.parse(source)
    texts = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return [
        f"{node.lineno}: {node.value}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if node.value.startswith("ttnn.") and id(node) not in texts
    ]


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_op_is_known_by_its_name(module: Path) -> None:
    assert not named_ops(module.read_text()), "a trait of its row (ir/opdef.py) or a name of ir/vocabulary.py says it"


def test_a_name_is_found_wherever_it_stands() -> None:
    source = '"""ttnn.add"""\nOPS = ("ttnn.add",)\ndef f(name):\n    """ttnn.x."""\n    return f"ttnn.{name}"\n'
    assert named_ops(source) == ["2: ttnn.add", "5: ttnn."]
