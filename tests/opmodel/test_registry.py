"""Backends by name."""

from __future__ import annotations

import pytest

from optimizer.device import DeviceSpec
from optimizer.errors import OpModelError, StateError, UnknownNameError
from optimizer.opmodel import registry
from optimizer.opmodel.analytical.model import AnalyticalOpModel
from optimizer.opmodel.base import OpModel
from optimizer.opmodel.registry import Registry


def test_the_analytical_backend_is_built_in(n150: DeviceSpec) -> None:
    model = registry.create("analytical", n150, 16384)
    assert "analytical" in registry.names()
    assert isinstance(model, OpModel)
    assert (model.name, model.device, model.l1_small_bytes) == ("analytical", n150, 16384)


def test_an_unknown_name_lists_what_there_is(n150: DeviceSpec) -> None:
    with pytest.raises(UnknownNameError, match="analytical"):
        registry.create("analytic", n150)


def test_a_name_is_registered_once() -> None:
    own = Registry()
    own.register("a", lambda: AnalyticalOpModel)
    with pytest.raises(StateError, match="'a' is registered twice"):
        own.register("a", lambda: AnalyticalOpModel)


def test_a_backend_is_loaded_only_when_asked_for(n150: DeviceSpec) -> None:
    def missing() -> registry.Factory:
        raise ImportError("no module named ttnn")

    own = Registry()
    own.register("real", missing)
    assert own.names() == ("real",)
    with pytest.raises(OpModelError, match="no module named ttnn"):
        own.create("real", n150, 0)
