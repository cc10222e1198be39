"""OpModel backends by name, loaded on first use; the names are in `optimizer.process.plugins`."""

from __future__ import annotations

from optimizer.device import DeviceSpec
from optimizer.errors import OpModelError
from optimizer.opmodel.base import OpModel
from optimizer.process.registered import OPMODELS


def names() -> tuple[str, ...]:
    """Known backends, sorted."""
    return OPMODELS.names()


def create(name: str, device: DeviceSpec, l1_small_bytes: int = 32768) -> OpModel:
    """A backend by name for one board; UnknownNameError lists what there is, OpModelError says why it cannot start."""
    try:
        factory = OPMODELS.load(name)
    except (ImportError, AttributeError) as error:
        raise OpModelError(f"OpModel backend '{name}' cannot be loaded: {error}") from error
    model: OpModel = factory(device, l1_small_bytes)
    return model
