"""Policies by name, loaded on first use; the names are in `optimizer.process.plugins`."""

from __future__ import annotations

from optimizer.process.registered import POLICIES
from optimizer.sharding.base import Policy


def policy_names() -> tuple[str, ...]:
    """Names accepted by `--policy`, sorted."""
    return POLICIES.names()


def create_policy(name: str) -> Policy:
    """A fresh policy object."""
    policy: Policy = POLICIES.load(name)()
    return policy
