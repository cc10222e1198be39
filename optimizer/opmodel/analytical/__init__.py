"""The analytical backend: tt-metal's acceptance rules, buffer sizes and a roofline, as formulas."""

from __future__ import annotations

from optimizer.opmodel.analytical.model import AnalyticalOpModel

__all__ = ["AnalyticalOpModel"]
