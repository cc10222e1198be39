"""Backends by name."""

from __future__ import annotations

import pytest

from optimizer.device import DeviceSpec
from optimizer.errors import OpModelError, UnknownNameError
from optimizer.opmodel import registry
from optimizer.opmodel.base import OpModel
from optimizer.process.plugins import Catalogue


def test_the_analytical_backend_is_built_in(n150: DeviceSpec) -> None:
    model = registry.create("analytical", n150, 16384)
    assert "analytical" in registry.names()
    assert isinstance(model, OpModel)
    assert (model.name, model.device, model.l1_small_bytes) == ("analytical", n150, 16384)


def test_an_unknown_name_lists_what_there_is(n150: DeviceSpec) -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'analytical'"):
        registry.create("analytic", n150)


def test_a_backend_is_loaded_only_when_asked_for(n150: DeviceSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    own = Catalogue("backend", "ttopt.opmodels", {"real": ("optimizer.no_such_module:Model", "")})
    monkeypatch.setattr(registry, "OPMODELS", own)
    assert registry.names() == ("real",)
    with pytest.raises(OpModelError, match=r"No module named 'optimizer.no_such_module'"):
        registry.create("real", n150, 0)
