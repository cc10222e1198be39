"""How often garbage is looked for."""

from __future__ import annotations

import gc

import pytest

from optimizer.process.garbage import YOUNG_OBJECTS, rare_collections


def test_thresholds_come_back_whatever_happens() -> None:
    before, inside = gc.get_threshold(), []

    @rare_collections()
    def fail() -> None:
        inside.append(gc.get_threshold())
        raise ValueError("inside")

    with pytest.raises(ValueError, match="inside"):
        fail()
    assert inside == [(YOUNG_OBJECTS, *before[1:])]
    assert gc.get_threshold() == before


def test_collections_that_are_off_stay_off() -> None:
    before = gc.get_threshold()
    gc.set_threshold(0)
    try:
        with rare_collections():
            assert gc.get_threshold()[0] == 0
    finally:
        gc.set_threshold(*before)
