"""What the host sets for a compute kernel: the arguments of `ttnn.ComputeConfigDescriptor`.

Fidelity, approximation, the width of DST and its double buffering are not in a kernel's C++: tt-metal compiles it with
them (`MATH_FIDELITY`, `APPROX`, `DST_ACCUM_MODE`, `DST_SYNC_MODE`).
"""

from __future__ import annotations

from dataclasses import dataclass

from optimizer.kernels.tensix.ir import Op

FIDELITIES = ("LoFi", "HiFi2", "HiFi3", "HiFi4")


@dataclass(frozen=True)
class ComputeConfig:
    """Of one program; without a fidelity, ttnn takes HiFi4."""

    math_fidelity: str | None
    math_approx_mode: bool
    fp32_dest_acc_en: bool
    dst_full_sync_en: bool
    unpack_to_dst: tuple[int, ...] = ()
    """Circular buffers that are unpacked to DST past the source registers (`UnpackToDestMode.UnpackToDestFp32`), by
    index: of a program after `insert-inits`, which decides it."""

    def to_json(self) -> dict[str, str | bool | list[int]]:
        """Arguments of the descriptor by name."""
        return {
            "math_fidelity": self.math_fidelity or "HiFi4",
            "math_approx_mode": self.math_approx_mode,
            "fp32_dest_acc_en": self.fp32_dest_acc_en,
            "dst_full_sync_en": self.dst_full_sync_en,
            "unpack_to_dst_fp32": list(self.unpack_to_dst),
        }


def compute_config(program: Op) -> ComputeConfig:
    """As the program says it."""
    fidelity = dict(program.attrs).get("math_fidelity")
    approximate, wide, full = (
        bool(program.attr(name, False)) for name in ("math_approx_mode", "fp32_dest_acc_en", "dst_full_sync_en")
    )
    straight = tuple(
        op.integer("index") for op in program.body.ops if op.name == "ttl.bind_cb" and op.attr("unpack_to_dst", False)
    )
    return ComputeConfig(None if fidelity is None else str(fidelity), approximate, wide, full, straight)
