"""What programs state of their runs: times as the summary has them, and a trace region for their device programs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from optimizer.export.ttnn_py.stated import predicted_ns, trace_region_bytes

MOST_MEASURED_BYTES = 16384
"""Of one program on the 64 cores of a Wormhole: attention, captured on the simulator."""


def result(grid_yx: tuple[int, int] = (8, 8), **summary: Any) -> Any:
    return SimpleNamespace(device=SimpleNamespace(grid_yx=grid_yx), summary_json=lambda: summary)


def test_what_the_summary_does_not_say_is_left_out() -> None:
    assert predicted_ns(result(predicted_time_ns=5, traced_ns=None, untraced_ns=9)) == {"kernels": 5, "untraced": 9}
    assert predicted_ns(result()) == {}


@pytest.mark.parametrize(("programs", "steps"), [(126, 107), (0, 126), (1, 1)])
def test_a_trace_region_holds_the_largest_program_twice_for_every_program(programs: int, steps: int) -> None:
    found = trace_region_bytes(result(programs=programs), steps)

    assert found >= (programs or steps) * 2 * MOST_MEASURED_BYTES
    assert found % 65536 == 0


def test_a_trace_region_grows_with_the_cores_of_the_board() -> None:
    small, large = (trace_region_bytes(result(grid, programs=1000), 0) for grid in ((8, 8), (10, 11)))

    assert large / small == pytest.approx(110 / 64, rel=0.01)
