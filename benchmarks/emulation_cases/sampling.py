"""Some elements of every result that the simulator gave, in one small file: what the tests hold the emulation to."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emulation_cases.cases import Case
from emulation_cases.recording import record_path, recorded

ELEMENTS = 384
"""Most of a result that are kept: evenly spread."""


def sampled(values: NDArray[Any]) -> NDArray[np.float32]:
    """Elements of a result, the same ones every time. The step is odd, so that no column is left out."""
    flat = np.asarray(values, np.float32).ravel()
    step = max(1, flat.size // ELEMENTS) | 1
    return flat[::step][:ELEMENTS]


def write_sample(asked: Iterable[Case], folder: Path, into: Path) -> None:
    """The first result of every case that ran, as upper and lower halves of its f32 bits: the lower ones are mostly
    zeros."""
    arrays: dict[str, NDArray[Any]] = {}
    for case in asked:
        pair = recorded(folder, case)
        if pair is not None and not isinstance(pair, str):
            bits = sampled(pair[1][0]).view(np.uint32)
            arrays[record_path(folder, case).stem] = np.stack([bits >> 16, bits & 0xFFFF]).astype(np.uint16)
    np.savez_compressed(into, **arrays)


def read_sample(path: Path) -> dict[str, NDArray[np.float32]]:
    """By the stem of the case's record."""
    with np.load(path, allow_pickle=False) as found:
        halves = {name: found[name].astype(np.uint32) for name in found.files}
    return {name: ((upper << 16) | lower).view(np.float32) for name, (upper, lower) in halves.items()}
