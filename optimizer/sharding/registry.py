"""Policies by name, loaded on first use; others come through the entry-point group `ttopt.policies`."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points

from optimizer.errors import StateError, UnknownNameError
from optimizer.sharding.base import Policy

_BUILT_IN = {
    "dram": "optimizer.sharding.dram:DramPolicy",
    "dfsharding": "optimizer.sharding.dfsharding:DFShardingPolicy",
    "dfsharding2": "optimizer.sharding.dfsharding2:DFSharding2Policy",
    "global": "optimizer.sharding.whole_graph.global_policy:GlobalPolicy",
}


def _targets() -> dict[str, str]:
    targets = dict(_BUILT_IN)
    for point in entry_points(group="ttopt.policies"):
        if point.name in targets:
            raise StateError(f"policy '{point.name}' is registered twice: {targets[point.name]} and {point.value}")
        targets[point.name] = point.value
    return targets


def policy_names() -> tuple[str, ...]:
    """Names accepted by `--policy`, sorted."""
    return tuple(sorted(_targets()))


def create_policy(name: str) -> Policy:
    """A fresh policy object."""
    targets = _targets()
    if name not in targets:
        raise UnknownNameError("policy", name, targets)
    module, _, attribute = targets[name].partition(":")
    policy: Policy = getattr(import_module(module), attribute)()
    return policy
