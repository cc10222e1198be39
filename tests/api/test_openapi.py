"""The description of the service put to the service: requests that it allows, and such as it forbids."""

from __future__ import annotations

from pathlib import Path

import pytest
from service_attacks import LIMITS, PHASES, by_schema
from service_process import Service


@pytest.mark.parametrize(
    ("phases", "examples"),
    [
        pytest.param("fuzzing,stateful", 1, marks=pytest.mark.slow),
        pytest.param(PHASES, 3, marks=pytest.mark.long),
    ],
)
def test_the_service_answers_as_its_description_says(phases: str, examples: int, tmp_path: Path) -> None:
    """A sample; `benchmarks/service_attacks.py schema` tries more."""
    with Service(tmp_path, workers=1, settings=LIMITS) as service:
        finished = by_schema(service, tmp_path, examples, phases=phases)
        log = service.log_text()
    assert finished.returncode == 0, finished.stdout[-4000:]
    assert "Traceback" not in log
