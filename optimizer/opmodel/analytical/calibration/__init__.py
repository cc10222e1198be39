"""Rows of the measured-times table (`calibration.csv`) as `Work`.

A row is one device operation under tt-metal's own name (`HaloDeviceOperation`) with padded shapes, placements
and the cores it ran on. Only the columns that describe it are read, never a measured one.
"""

from __future__ import annotations

from optimizer.errors import UnknownNameError
from optimizer.opmodel.analytical.calibration import moves, products, windows
from optimizer.opmodel.analytical.calibration.columns import Row
from optimizer.opmodel.analytical.work import Work

_CLASSES = {
    "matmul": products.matmul,
    "matmul_hs": products.matmul,
    "conv": windows.conv,
    "eltwise": moves.eltwise,
    "norm": windows.norm,
    "tm": moves.movement,
    "reshard": moves.reshard,
    "noc_trace": moves.trace,
    "tilize": moves.tilize,
    "pool": windows.pool,
    "sdpa": products.sdpa,
    "ccl": moves.movement,
}
"""`op_class` of the table. Collectives are priced as the data that a chip moves itself."""


def row_work(row: Row) -> Work:
    """The work of one row; FormatError where a column cannot be read."""
    name = row.get("op_class") or ""
    reader = _CLASSES.get(name)
    if reader is None:
        raise UnknownNameError("op class", name, tuple(_CLASSES))
    return reader(row)
