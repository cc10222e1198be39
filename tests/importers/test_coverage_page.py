"""docs/onnx-coverage.md says what the importer does, and every mapped op has a case."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import onnx.defs
import pytest

from optimizer.importers.onnx_ops import TABLE
from optimizer.importers.onnx_refusals import REASONS

WITHOUT_CASE = {
    "Constant": "folded; a returned one is tested with Shape and Size",
    "Swish": "of opset 24",
    "com.microsoft.SimplifiedLayerNormalization": "onnxruntime has it in ONNX's own domain",
}


@pytest.fixture
def script(project_root: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("onnx_coverage", project_root / "scripts" / "onnx_coverage.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_up_to_date(script: ModuleType) -> None:
    text = script.PAGE.read_text(encoding="utf-8")
    assert text == script.page_with(text, script.table()), "run scripts/onnx_coverage.py"


def test_every_mapped_op_has_a_case(script: ModuleType) -> None:
    tried = {f"{c.domain}.{c.op}" if c.domain else c.op for c in script.cases()}
    assert sorted(set(TABLE) - tried) == sorted(WITHOUT_CASE)


def test_an_op_is_mapped_or_lacking() -> None:
    assert sorted(set(TABLE) & set(REASONS)) == []
    known = {schema.name for schema in onnx.defs.get_all_schemas() if schema.domain == ""}
    assert sorted(set(REASONS) - known) == []
