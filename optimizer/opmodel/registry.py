"""OpModel backends by name.

Built-in backends are listed in `_BUILT_IN` as `module:attribute` and imported on first use; other
distributions add theirs through the entry-point group `ttopt.opmodels`, whose objects are factories
`(device, l1_small_bytes) -> OpModel`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from importlib import import_module
from importlib.metadata import entry_points
from threading import Lock

from optimizer.device import DeviceSpec
from optimizer.errors import OpModelError, StateError, UnknownNameError
from optimizer.opmodel.base import OpModel

Factory = Callable[[DeviceSpec, int], OpModel]
ENTRY_POINT_GROUP = "ttopt.opmodels"
_BUILT_IN = {
    "analytical": "optimizer.opmodel.analytical.model:AnalyticalOpModel",
    "ttmetal": "optimizer.opmodel.ttmetal.model:TTMetalOpModel",
}


def _load(target: str) -> Factory:
    module, _, attribute = target.partition(":")
    factory: Factory = getattr(import_module(module), attribute)
    return factory


class Registry:
    """Backend name -> lazy factory. `load` functions run on first `create` of their name."""

    def __init__(self) -> None:
        self._loaders: dict[str, Callable[[], Factory]] = {}
        self._lock = Lock()

    def register(self, name: str, load: Callable[[], Factory]) -> None:
        """Add a backend; a name that is taken is a StateError."""
        with self._lock:
            if name in self._loaders:
                raise StateError(f"OpModel backend '{name}' is registered twice")
            self._loaders[name] = load

    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._loaders))

    def create(self, name: str, device: DeviceSpec, l1_small_bytes: int) -> OpModel:
        """A backend for one board; UnknownNameError lists what there is, OpModelError says why it cannot start."""
        if name not in self._loaders:
            raise UnknownNameError("OpModel backend", name, self._loaders)
        try:
            factory = self._loaders[name]()
        except (ImportError, AttributeError) as error:
            raise OpModelError(f"OpModel backend '{name}' cannot be loaded: {error}") from error
        return factory(device, l1_small_bytes)


@cache
def default_registry() -> Registry:
    """The process-wide registry, filled on first use."""
    registry = Registry()
    for name, target in _BUILT_IN.items():
        registry.register(name, partial(_load, target))
    for point in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda p: (p.name, p.value)):
        registry.register(point.name, point.load)
    return registry


def names() -> tuple[str, ...]:
    """Known backends, sorted."""
    return default_registry().names()


def create(name: str, device: DeviceSpec, l1_small_bytes: int = 32768) -> OpModel:
    """A backend by name for one board."""
    return default_registry().create(name, device, l1_small_bytes)
