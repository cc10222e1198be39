"""Time of what runs no program: views, and transfers between host and board."""

from __future__ import annotations

from optimizer.opmodel.analytical.terms import Clock, Terms
from optimizer.opmodel.analytical.work import Place, Work
from optimizer.opmodel.base import Bound


def view(t: Clock, work: Work, terms: Terms) -> float:
    """Nothing runs on the device."""
    return 0.0


def transfer(t: Clock, work: Work, terms: Terms) -> float:
    """What one blocking transfer takes however small, and bytes over PCIe; DRAM is far faster than the link."""
    way = "pcie_read" if any(p.place is Place.HOST for p in work.writes) else "pcie_write"
    terms.add(Bound.PCIE, t.k[f"{way}_ns"] + sum(p.size for p in work.reads) / t.k[f"{way}_gbps"])
    return 0.0
