"""Time of what runs no program: views, and transfers between host and board."""

from __future__ import annotations

from optimizer.opmodel.analytical.terms import Clock, Terms
from optimizer.opmodel.analytical.work import Place, Work
from optimizer.opmodel.base import Bound


def view(t: Clock, work: Work, terms: Terms) -> float:
    """Nothing runs on the device."""
    return 0.0


def transfer(t: Clock, work: Work, terms: Terms) -> float:
    """Bytes over PCIe; DRAM is far faster than the link."""
    to_host = any(p.place is Place.HOST for p in work.writes)
    gbps = t.k["pcie_read_gbps" if to_host else "pcie_write_gbps"]
    terms.add(Bound.PCIE, sum(p.size for p in work.reads) / gbps)
    return 0.0
