"""Children, and questions of known answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from optimizer.device import DeviceSpec
from optimizer.opmodel.ttmetal import location
from optimizer.opmodel.ttmetal.child import ChildKey
from optimizer.opmodel.ttmetal.pool import Pool

Record = dict[str, Any]


@pytest.fixture(scope="session")
def n150() -> DeviceSpec:
    return DeviceSpec.preset("n150")


@pytest.fixture(scope="module")
def pool(needs_ttnn: None) -> Iterator[Pool]:
    """Children for n150 with little patience."""
    made = Pool(ChildKey(location.find(), "n150", 32768), timeout_seconds=20)
    yield made
    made.close()


class Ask:
    """Requests for the child."""

    l1 = {"shape": [256, 128], "dtype": "bf16", "layout": "tile", "memory_layout": "interleaved", "buffer": "l1"}
    crash = "__import__('os').kill(__import__('os').getpid(), 8)"
    hang = "__import__('time').sleep(100)"

    @staticmethod
    def query(call: str, *inputs: Record) -> Record:
        return {"kind": "query", "call": call, "inputs": list(inputs)}

    @classmethod
    def softmax(cls, rows: int = 256) -> Record:
        return cls.query("ttnn.softmax(x0, dim=-1)", {**cls.l1, "shape": [rows, 128]})


@pytest.fixture(scope="session")
def ask() -> type[Ask]:
    return Ask
