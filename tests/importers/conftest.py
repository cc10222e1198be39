"""The witness (numpy interpreter against onnxruntime), small ONNX models to try it on, and passes that are checked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from types import ModuleType

import onnx
import pytest
import witness as witness_module
from op_case import build

from optimizer.importers import passes
from optimizer.ir.graph import Graph
from optimizer.ir.making import check_graph


@pytest.fixture(scope="session")
def witness() -> ModuleType:
    """The module `witness`."""
    return witness_module


@pytest.fixture(scope="session")
def make_model() -> Callable[..., onnx.ModelProto]:
    return build


def checked(step: passes.Pass) -> passes.Pass:
    """The pass, after which every op has to give what its row says."""

    def apply(graph: Graph) -> int:
        rewrites = step.apply(graph)
        if rewrites:
            check_graph(graph)
        return rewrites

    apply.__doc__ = step.apply.__doc__
    return replace(step, apply=apply)


@pytest.fixture(autouse=True, scope="session")
def checked_passes() -> Iterator[None]:
    """Every import of these tests checks its graph after each pass that has changed it."""
    unchecked = passes.passes

    def chosen(causal: frozenset[str] = frozenset()) -> tuple[passes.Pass, ...]:
        return tuple(map(checked, unchecked(causal)))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passes, "passes", chosen)
        yield
