"""The math fidelity at which kernels of ours run."""

from __future__ import annotations

from optimizer.kernels.tensix.compute_config import compute_config
from optimizer.kernels.tensix.ir import Op


def fidelity(program: Op, arch: str) -> str:
    """What the program says, else HiFi4, but not with a DST of 32 bits on Wormhole, whose FPU then gives single values
    that are off by a power of two, matmuls and products alike (tenstorrent/tt-metal #38306). HiFi3 is what tt-metal
    moved to (its pull 40089).
    """
    stated = compute_config(program)
    return stated.math_fidelity or ("HiFi3" if stated.fp32_dest_acc_en and arch == "wormhole_b0" else "HiFi4")
