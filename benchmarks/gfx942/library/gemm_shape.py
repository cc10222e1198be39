"""The sizes of a matrix product and how they are shared out."""

from __future__ import annotations

from dataclasses import dataclass

from optimizer.errors import OptionError

TILE = 16
"""Rows and columns of a tile: v_mfma_f32_16x16x16."""


@dataclass(frozen=True)
class GemmShape:
    """`c[m, n] = a[m, k] b[n, k]^T`, row-major: 16-bit inputs, float32 result.

    A workgroup computes `block_m x block_n` of c, its `waves_m x waves_n` waves equal parts of that, in steps of
    `block_k`. Any m and n; k a multiple of what a lane loads at once, 8 elements (4 where `block_k` is an odd multiple
    of 16).
    """

    m: int
    n: int
    k: int
    block_m: int = 16
    block_n: int = 16
    block_k: int = 16
    waves_m: int = 1
    waves_n: int = 1
    element: str = "f16"
    """f16 or bf16."""
    staged: bool = True
    """Bring a and b to the waves through LDS: each element is loaded once per workgroup, not once per wave."""

    def __post_init__(self) -> None:
        for name in ("m", "n", "k", "waves_m", "waves_n"):
            if getattr(self, name) < 1:
                raise OptionError(f"{name} is {getattr(self, name)}", limit=1)
        for name, unit in (("block_m", TILE * self.waves_m), ("block_n", TILE * self.waves_n), ("block_k", TILE)):
            if getattr(self, name) < 1 or getattr(self, name) % unit:
                raise OptionError(f"{name} {getattr(self, name)} is no multiple of {unit}", limit=unit)
        if self.element not in ("f16", "bf16"):
            raise OptionError(f"no product of '{self.element}'", alternatives=("f16", "bf16"))
        if self.k % self.lane_k:
            raise OptionError(f"k {self.k} is no multiple of {self.lane_k}", limit=self.lane_k)
        if self.waves > 16:
            raise OptionError(f"a workgroup of {self.waves} waves", limit=16)
        if self.staged:
            self.passes("a", self.block_m)
            self.passes("b", self.block_n)
            if self.lds_bytes > 65536:
                raise OptionError(f"blocks of {self.lds_bytes} bytes do not fit LDS", limit=65536)

    @property
    def waves(self) -> int:
        return self.waves_m * self.waves_n

    @property
    def lane_k(self) -> int:
        """Consecutive elements along k that a lane loads: 16 bytes, or 8."""
        return 8 if self.block_k % 32 == 0 else 4

    @property
    def fragment_k(self) -> int:
        """Elements along k of a fragment, which is 16 rows that a wave loads at once: four lanes share a row."""
        return 4 * self.lane_k

    @property
    def fragment_bytes(self) -> int:
        return 2 * TILE * self.fragment_k

    @property
    def slices(self) -> int:
        """Fragments along k in a block."""
        return self.block_k // self.fragment_k

    @property
    def tiles(self) -> tuple[int, int]:
        """16 x 16 tiles of c per wave, along m and n."""
        return self.block_m // (TILE * self.waves_m), self.block_n // (TILE * self.waves_n)

    @property
    def steps(self) -> int:
        """Blocks along k."""
        return -(-self.k // self.block_k)

    @property
    def grid(self) -> tuple[int, int, int]:
        return -(-self.m // self.block_m), -(-self.n // self.block_n), 1

    @property
    def lds_bytes(self) -> int:
        return 2 * (self.block_m + self.block_n) * self.block_k if self.staged else 0

    def passes(self, name: str, block: int) -> int:
        """How often all waves together load a fragment each, to bring in a block of `block` rows.

        OptionError where the fragments are not shared out evenly.
        """
        rows = block // TILE
        fragments = rows * self.slices
        if fragments % self.waves or (rows % self.waves and self.waves % rows):
            raise OptionError(
                f"{fragments} fragments of {name} ({rows} x {self.slices}) for {self.waves} waves",
                limit=self.waves,
                alternatives=("another block_k", "another block", "staged=False"),
            )
        return fragments // self.waves
