"""The examples of the design documents, and broadcasts across tiles, with values on the simulator."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from optimizer.execution.launching import KernelDevice, launched
from optimizer.kernels.tensix import ttl
from optimizer.kernels.tensix.ir import Op
from optimizer.kernels.tensix.pipeline import KernelOptions
from optimizer.kernels.tensix.source.text import parse
from tests.kernels.tensix import test_documents_compute_operations as operations
from tests.kernels.tensix import test_documents_multitile as multitile
from tests.kernels.tensix import test_language_page as language
from tests.kernels.tensix.sample_kernels import Shape, one_block


def softmax(x: ttl.Block) -> ttl.Block:
    power = ttl.math.exp(x - ttl.math.bcast(ttl.math.reduce_max(x), dim=1))
    return power / ttl.math.bcast(ttl.math.reduce_sum(power), dim=1)


def repeated(*shapes: Shape) -> Op:
    """An op of every unit, each with an operand of fewer tiles."""

    def body(x: ttl.Block, a: ttl.Block, b: ttl.Block) -> ttl.Block:
        return (x * a + ttl.math.exp(x)) / b - a

    return one_block("repeated", list(shapes), [shapes[0]], body)


def page() -> str:
    return (Path(__file__).resolve().parents[2] / language.PAGE).read_text(encoding="utf-8")


EXAMPLES: dict[str, Callable[[], Op]] = {
    "the page's kernel in Python": lambda: language.in_python(page()),
    "the page's kernel in text": lambda: parse(language.shown(page(), "ttl")),
    "add": multitile.program,
    "dense": operations.dense,
    "dense, 32 bits": lambda: operations.dense(operations.WIDE),
    "attention": operations.attention,
    "attention, 32 bits": lambda: operations.attention(operations.WIDE),
    "chain": operations.chain,
    "store, wait, pop": lambda: operations.reused(taken_again=False),
    "softmax without a scaler": lambda: one_block("softmax", [(2, 3)], [(2, 3)], softmax),
    "a row and a column of tiles": lambda: repeated((2, 3), (1, 3), (2, 1)),
    "one tile": lambda: repeated((2, 3), (1, 1), (1, 3)),
    "a row within its tile": lambda: one_block(
        "rows", [(2, 3), (1, 1)], [(2, 3)], lambda x, b: ttl.math.relu(x - ttl.math.bcast(b, 0)) ** 3
    ),
    "numbers": lambda: one_block("numbers", [(1, 2)], [(1, 2)], lambda x: 2 / x + (x >= 0.75) * x**-2),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_right_on_the_simulator(name: str, simulator: KernelDevice) -> None:
    found = launched(EXAMPLES[name](), KernelOptions(), simulator)
    assert found.right
