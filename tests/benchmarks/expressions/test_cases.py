"""The expression cases of fixtures/kernels/amdgpu_cases.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import sympy
from gfx942.builder import KernelBuilder
from gfx942.expr import ExpressionEmitter

FILE = Path(__file__).parents[3] / "fixtures/kernels/amdgpu_cases.json"
CASES = [case["expect"] for case in json.loads(FILE.read_text())["cases"] if case["kind"] == "expr"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["expr"])
def test_case(case: dict[str, Any]) -> None:
    builder = KernelBuilder()
    emitter = ExpressionEmitter(builder)
    registers = {name: builder.vgpr() for name in case["bounds"]}
    for name, (low, high) in case["bounds"].items():
        emitter.bind(name, registers[name], low, high)
    result = emitter.emit(sympy.sympify(case["expr"]))
    names = [item.name for item in builder.program().body]
    if "result" in case:
        expected = case["result"]
        assert result == (registers[expected] if isinstance(expected, str) else emitter.emit(sympy.Integer(expected)))
    assert len(names) <= case.get("instructions_max", 99)
    assert len(names) == case.get("instructions", len(names))
    assert set(case.get("must_use", ())) <= set(names)
    assert set(case.get("no", ())).isdisjoint(names)
