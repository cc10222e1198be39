"""What `ttopt kernel compile` says of a program: its cores, what they hand to each other, and what each does in DST."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from optimizer.kernels.tensix.build import BuiltKernel
from optimizer.kernels.tensix.emitted import emitted, read_short
from optimizer.kernels.tensix.ir import Op
from optimizer.kernels.tensix.pipes import nets_of


def program_record(name: str, kernel: BuiltKernel, stages: Mapping[str, Op]) -> dict[str, Any]:
    """The record of a program that compiled; `stages`: the program after each pass.

    `pipes` counts by kind. Figures of DST are of one core, loops that end at a run-time argument counted as one round.
    """
    launch, inits = kernel.launch, stages["insert-inits"]
    pipes = Counter(pipe.kind for net in nets_of(kernel.program).values() for pipe in net.pipes)
    return {
        "id": name,
        "kernels": [source.kind for source in kernel.sources],
        "cores": launch.core_count,
        "runtime_args": list(launch.runtime_args),
        "semaphores": len(launch.semaphores),
        "pipes": dict(sorted(pipes.items())),
        "circular_buffers": len(launch.buffers),
        "circular_buffer_bytes": launch.l1_bytes,
        **asdict(emitted(stages["assign-dst"], inits)),
        "read_at_19_bits": list(read_short(inits)),
        "compute_config": launch.config.to_json(),
        "error": None,
    }
