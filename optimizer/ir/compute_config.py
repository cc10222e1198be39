"""What an op asks of the math engine: fidelity and accumulation, stated in every call.

TTNN fills in for a compute config that is not given, and differently from op to op: a matmul with a program config
drops to LoFi, a convolution adds up in 16-bit registers and reloads its partial sums, a softmax takes an approximate
exponential. So every op that has such a config states one, and the one it states is priced. The rules below choose,
per kind of op, what takes the least time among what has no gain in its values (docs/cost-model.md, "Fidelity").
None of them chooses HiFi4, which with 32-bit sums gives single wrong values on Wormhole (tenstorrent/tt-metal #38306);
operands of 16 bits have the same values at HiFi3.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from optimizer.ir.dtype import DType
from optimizer.ir.graph import Attr

COMPUTE = "compute"
"""Attribute of a query that holds the value of a `ComputeConfig`."""

FIDELITIES = {"lofi": "LoFi", "hifi2": "HiFi2", "hifi3": "HiFi3", "hifi4": "HiFi4"}
"""Option `math_fidelity` -> tt-metal's spelling."""

PASSES = {"LoFi": 1, "HiFi2": 2, "HiFi3": 3, "HiFi4": 4}
"""Passes of the matrix engine over the same operands, by tt-metal's spelling of the fidelity."""

TILE_PRODUCT_CYCLES = 16
"""Cycles of a 32x32x32 product per pass of the matrix engine (tt-metal, tech_reports/GEMM_FLOPS)."""

MOST_TILES_IN_BF16 = 4
"""Tiles along K that 16-bit registers may add up in a row. They round every sum: with 128 products values come out up
to 0.4 % too large, with 256 0.8 %, with 1,024 1.5 % (HiFi2, operands of mixed signs, measured on Tenstorrent's
simulator; further blocks along K are added by the packer and add no gain)."""


@dataclass(frozen=True)
class ComputeConfig:
    """tt-metal's `DeviceComputeKernelConfig`, as far as it is chosen here."""

    math_fidelity: str
    """As option `math_fidelity` spells it."""
    fp32_dest_acc_en: bool
    """Whether destination registers are 32 bits wide; of those, half as many tiles fit."""
    packer_l1_acc: bool = False
    """Whether partial sums of further blocks along K are added up in L1 by the packer, not reloaded."""
    math_approx_mode: bool = False
    """Whether functions of the vector unit take their approximate form."""

    @property
    def attr(self) -> Attr:
        """The value of attribute `compute`, keys as recorded rows spell them."""
        return (
            ("approx", self.math_approx_mode),
            ("fid", FIDELITIES[self.math_fidelity]),
            ("fp32", self.fp32_dest_acc_en),
            ("l1acc", self.packer_l1_acc),
        )


@dataclass(frozen=True)
class Computation:
    """What a rule chooses by."""

    dtypes: tuple[DType, ...]
    """Element types of the operands."""
    depth_tiles: int = 0
    """Tiles along K that a matmul adds up in a row in the destination registers."""
    asked: str | None = None
    """The math fidelity that the user wants of matmuls and convolutions."""

    @property
    def in_f32(self) -> bool:
        return DType.F32 in self.dtypes[:2]


ComputeRule = Callable[[Computation], ComputeConfig]


def matmul(c: Computation) -> ComputeConfig:
    """HiFi2, which leaves out the last bit of a bf16 operand A: values come out 0.3 % too small.

    Of a pass, operand B has 5 bits, A 7. So weights of 4 bits need one pass (LoFi gives the same values as HiFi2),
    32-bit operands three. Who asks for more passes than two wants exact sums too.
    """
    fidelity = c.asked or ("hifi3" if c.in_f32 else "lofi" if c.dtypes[1] is DType.BFP4_B else "hifi2")
    exact_sums = fidelity in ("hifi3", "hifi4") or c.depth_tiles > MOST_TILES_IN_BF16
    return ComputeConfig(fidelity, c.in_f32 or exact_sums, packer_l1_acc=True)


def conv(c: Computation) -> ComputeConfig:
    """Networks chain dozens of convolutions, where even 0.3 % adds up: no gain and no loss at all.

    Operands of 16 bits need three passes, block floats two; sums are 32 bits wide.
    """
    blocks = all(dtype.is_block_float for dtype in c.dtypes[:2])
    fidelity = c.asked or ("hifi2" if blocks else "hifi3")
    return ComputeConfig(fidelity, True, packer_l1_acc=True)


def sdpa(c: Computation) -> ComputeConfig:
    """Three passes in 16-bit registers: HiFi2 values come out 1 % too small, those of 32-bit registers no better."""
    return ComputeConfig("hifi3", c.in_f32)


def rms_norm(c: Computation) -> ComputeConfig:
    """16-bit registers, as TTNN by itself: values come out 0.05 % too small, and buffers are half as large."""
    return ComputeConfig("hifi3", c.in_f32)


def upsample(c: Computation) -> ComputeConfig:
    """16-bit registers: tt-metal refuses bilinear upsampling with 32 bits, and nearest neighbours are as they are."""
    return ComputeConfig("hifi3", False)


def exact(c: Computation) -> ComputeConfig:
    """Products, sums and functions exact: of ops that are not bound by products."""
    return ComputeConfig("hifi3", True)
