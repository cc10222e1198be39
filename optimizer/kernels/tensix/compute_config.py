"""What the host sets for a compute kernel: the arguments of `ttnn.ComputeConfigDescriptor`.

Fidelity, approximation, the width of DST and its double buffering are not in a kernel's C++: tt-metal compiles it with
them (`MATH_FIDELITY`, `APPROX`, `DST_ACCUM_MODE`, `DST_SYNC_MODE`).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from optimizer.kernels.tensix.ir import Op

FIDELITIES = ("LoFi", "HiFi2", "HiFi3", "HiFi4")


@dataclass(frozen=True)
class ComputeConfig:
    """Of one program."""

    math_fidelity: str
    math_approx_mode: bool
    fp32_dest_acc_en: bool
    dst_full_sync_en: bool
    unpack_to_dst: tuple[int, ...] = ()
    """Circular buffers that are unpacked to DST past the source registers (`UnpackToDestMode.UnpackToDestFp32`), by
    index: of a program after `insert-inits`, which decides it."""

    def to_json(self) -> dict[str, str | bool | list[int]]:
        """Arguments of the descriptor by name."""
        return {**asdict(self), "unpack_to_dst": list(self.unpack_to_dst)}


def compute_config(program: Op, arch: str) -> ComputeConfig:
    """As the program says it; a fidelity that it does not name is the architecture's."""
    approximate, wide, full = (
        bool(program.attr(name, False)) for name in ("math_approx_mode", "fp32_dest_acc_en", "dst_full_sync_en")
    )
    straight = tuple(
        op.integer("index") for op in program.body.ops if op.name == "ttl.bind_cb" and op.attr("unpack_to_dst", False)
    )
    fidelity = str(program.attr("math_fidelity", _fidelity(arch, wide)))
    return ComputeConfig(fidelity, approximate, wide, full, straight)


def _fidelity(arch: str, wide: bool) -> str:
    """HiFi4, but not with a DST of 32 bits on Wormhole, whose FPU then gives single values that are off by a power of
    two, matmuls and products alike (tenstorrent/tt-metal #38306). HiFi3 is what tt-metal moved to (its pull 40089).
    """
    return "HiFi3" if wide and arch == "wormhole_b0" else "HiFi4"
