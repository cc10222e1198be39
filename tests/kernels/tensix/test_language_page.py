"""The kernels on the page of the tile language do what the page says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from optimizer.kernels.tensix import ttl
from optimizer.kernels.tensix.ir import Op
from optimizer.kernels.tensix.pipeline import KernelOptions, lower, passes
from optimizer.kernels.tensix.source.text import parse, text_of
from optimizer.kernels.tensix.tile_ops import TILE_OPS
from optimizer.kernels.tensix.ttl.expressions import MOST_PRODUCTS
from optimizer.kernels.tensix.witness.reference import evaluate
from optimizer.kernels.tensix.witness.whole_tensors import witness

PAGE = "docs/tile-language.md"


@pytest.fixture
def page(project_root: Path) -> str:
    return (project_root / PAGE).read_text(encoding="utf-8")


def shown(page: str, language: str) -> str:
    (block,) = re.findall(rf"^```{language}\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    return str(block)


def in_python(page: str) -> Op:
    names: dict[str, Any] = {}
    exec(shown(page, "python"), names)
    program = names["dense"]()
    assert isinstance(program, Op)
    return program


def test_the_kernel_in_python_is_a_dense_layer(page: str) -> None:
    program = in_python(page)
    assert parse(text_of(program)) == program
    lower(program)
    rng = np.random.default_rng(1)
    x, w, bias = (rng.normal(size=shape).astype(np.float32) for shape in ((64, 96), (96, 64), (32, 64)))
    (got,) = evaluate(program, {"4": x, "5": w, "6": bias}).values()
    np.testing.assert_allclose(got, np.maximum(x @ w + bias[:1], 0), rtol=1e-4, atol=1e-4)


def test_the_kernel_in_text_is_the_same_layer(page: str) -> None:
    program = parse(shown(page, "ttl"))
    assert shown(page, "ttl") == Path("fixtures/kernels/dense.ttl").read_text(encoding="utf-8")
    assert parse(text_of(program)) == program
    assert witness(program, KernelOptions(), execute_cpp=False).agrees
    rng = np.random.default_rng(1)
    x, w, bias = (rng.normal(size=shape).astype(np.float32) for shape in ((64, 96), (96, 64), (32, 64)))
    got = evaluate(program, {"x_cb": x, "w_cb": w, "bias_cb": bias})["y_cb"]
    wanted = evaluate(in_python(page), {"4": x, "5": w, "6": bias})
    np.testing.assert_array_equal(got, wanted["7"])


def test_names_on_the_page_exist(page: str) -> None:
    known = {*TILE_OPS, *ttl.math.__dict__}
    for name in re.findall(r"`ttl\.math\.(\w+)", page):
        assert name in known
    for name in re.findall(r"(?<![\w.])ttl\.(make_\w+|grid_\w+|core\w*|copy|Tensor|where|Program|DType)\(", page):
        assert hasattr(ttl, name), name
    table = page.split("### Expressions")[1].split("### Broadcasts")[0].split("`ttl.math` has")[0]
    ops = {name for row in table.splitlines() for cell in row.split("|")[2:3] for name in re.findall(r"`(\w+)`", cell)}
    assert ops - {"y"} <= set(TILE_OPS)
    assert f"exponent {MOST_PRODUCTS}" in page


def test_passes_on_the_page_exist(page: str) -> None:
    rows = [row.split("|") for row in page.split("| stage there | pass here |")[1].splitlines()]
    named = {name for row in rows if len(row) > 2 for name in re.findall(r"`([a-z]+(?:-[a-z]+)+)`", row[2])}
    assert len(named) > 4
    assert named <= {p.name for p in passes(KernelOptions())}
