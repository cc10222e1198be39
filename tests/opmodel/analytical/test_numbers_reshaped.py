"""A number without dims and a row of one are the same buffer, as TTNN's reshape has them."""

from __future__ import annotations

from itertools import permutations

import pytest

from optimizer.device import DeviceSpec
from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import BufferType, interleaved
from optimizer.opmodel import registry
from optimizer.opmodel.base import OpQuery, TensorSpec

PAIRS = list(permutations([(), (1,), (1, 1)], 2))


@pytest.mark.parametrize(("given", "wanted"), PAIRS, ids=str)
@pytest.mark.parametrize("backend", ["analytical", "ttmetal"])
@pytest.mark.usefixtures("needs_ttnn")
def test_nothing_is_allocated(backend: str, given: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    place = interleaved(BufferType.L1)
    query = OpQuery("ttnn.reshape", (TensorSpec(given, DType.BF16, place),), (("shape", wanted),), None, place.memory)

    answer = registry.create(backend, DeviceSpec.preset("n150"), 32768).constraints(query)

    assert (answer.valid, answer.l1_peak_bytes) == (True, 0)
