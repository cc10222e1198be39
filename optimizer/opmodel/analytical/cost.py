"""Roofline time of an accepted query."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any

from optimizer.device import DeviceSpec
from optimizer.ir.opdef import CostClass
from optimizer.ir.vocabulary import opdef
from optimizer.opmodel.analytical.case import Usage
from optimizer.opmodel.analytical.tensors import tiles
from optimizer.opmodel.base import Bound, OpCost, OpQuery


@cache
def constants(arch: str) -> dict[str, float]:
    """The constants of one architecture: name -> value (the file also names each source)."""
    text = (resources.files("optimizer.opmodel.analytical") / "constants" / f"{arch}.json").read_text("utf-8")
    record: dict[str, Any] = json.loads(text)
    return {k: float(v["value"]) for k, v in record.items()}


class CostModel:
    """Time of one op on one board."""

    def __init__(self, device: DeviceSpec) -> None:
        self.device = device
        self.k = constants(device.arch)

    def cost(self, query: OpQuery, usage: Usage) -> OpCost:
        k = self.k
        read = write = l1 = 0
        for t in query.inputs:
            r, c = tiles(t.shape)
            size = r * c * t.dtype.tile_bytes
            if t.layout.is_dram:
                read += size
            else:
                l1 += size
        for t in usage.outputs:
            r, c = tiles(t.shape)
            size = r * c * t.dtype.tile_bytes
            if t.layout.is_dram:
                write += size
            else:
                l1 += size
        cores = max(1, usage.cores)
        compute = 0.0
        if usage.outputs:
            r, c = tiles(usage.outputs[0].shape)
            per = k["eltwise_cycles_per_tile"]
            if opdef(query.op).cost_class in (CostClass.MATMUL, CostClass.CONV) and len(query.inputs) > 1:
                per = tiles(query.inputs[0].shape)[1] * k["matmul_cycles_per_tile"]
                if opdef(query.op).cost_class is CostClass.CONV:
                    w = query.inputs[1].shape
                    per *= w[2] * w[3]
            compute = -(-r * c // cores) * per / self.device.clock_mhz * 1000
        dram = read / k["dram_read_gbps"] + write / k["dram_write_gbps"]
        time = k["launch_ns"] + max(compute, dram) + 0.2 * min(compute, dram)
        bound = Bound.COMPUTE if compute > dram else Bound.DRAM
        return OpCost(max(1, round(time)), bound, read, write)
