"""The committed JSON Schemas are those of the code, and real documents satisfy the models."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from optimizer.cli import main
from optimizer.export.schema import SCHEMAS, AnnotatedGraph, schema_text


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_committed_schema_is_current(project_root: Path, name: str) -> None:
    committed = (project_root / "docs" / name).read_text(encoding="utf-8")
    assert committed == schema_text(SCHEMAS[name]), "run `make schema`"


@pytest.mark.parametrize(("flags", "only"), [((), {"refused_kernels"}), (("--fuse-kernels",), set())])
@pytest.mark.slow
def test_a_result_satisfies_its_model_and_names_every_field(
    mlp_onnx: Path, tmp_path: Path, flags: tuple[str, ...], only: set[str]
) -> None:
    assert main(["optimize", str(mlp_onnx), *flags, "-o", str(tmp_path)]) == 0
    document = json.loads((tmp_path / "graph.json").read_text(encoding="utf-8"))
    AnnotatedGraph.model_validate(document)
    described = {field.alias or name for name, field in AnnotatedGraph.model_fields.items()}
    assert set(document) == described - only


def test_a_wrong_layout_does_not_satisfy_the_model(mlp_onnx: Path, tmp_path: Path) -> None:
    assert main(["optimize", str(mlp_onnx), "-o", str(tmp_path)]) == 0
    document = json.loads((tmp_path / "graph.json").read_text(encoding="utf-8"))
    document["values"]["x"]["layout"]["memory_layout"] = "diagonal"
    with pytest.raises(ValidationError, match="memory_layout"):
        AnnotatedGraph.model_validate(document)
