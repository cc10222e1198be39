"""The policies and OpModel backends that there are: name, where the code is, and a line about it.

Names stand here, below the rooms that hold the code, so that `Options` can refuse a wrong one at once without loading
any of it. Other distributions add theirs as entry points.
"""

from __future__ import annotations

from optimizer.process.plugins import Catalogue

POLICIES = Catalogue(
    "policy",
    "ttopt.policies",
    {
        "dram": ("optimizer.sharding.dram:DramPolicy", "everything in DRAM: what the others are compared with"),
        "dfsharding": (
            "optimizer.sharding.dfsharding:DFShardingPolicy",
            "sharded chains of ops, one after the other, each spilled to DRAM at its end",
        ),
        "dfsharding2": (
            "optimizer.sharding.dfsharding2:DFSharding2Policy",
            "the same chains, whose results stay in L1 across chains where that fits and pays",
        ),
        "global": (
            "optimizer.sharding.whole_graph.global_policy:GlobalPolicy",
            "all ops decided together, with a bound: at least as fast as the three others (the default)",
        ),
    },
)
"""Classes with `run(PolicyInput) -> Plan`."""

OPMODELS = Catalogue(
    "OpModel backend",
    "ttopt.opmodels",
    {
        "analytical": (
            "optimizer.opmodel.analytical.model:AnalyticalOpModel",
            "tt-metal's rules and a fitted cost model, both written down here; needs nothing (the default)",
        ),
        "ttmetal": (
            "optimizer.opmodel.ttmetal.model:TTMetalOpModel",
            "the real tt-metal on a mock device, asked op by op; needs the extra `ttmetal` (docs/ttmetal.md)",
        ),
    },
)
"""Factories `(device, l1_small_bytes) -> OpModel`."""
