"""Cases run on the simulator, and what it gave of each, kept in a folder."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emulation_cases.cases import Case
from optimizer.device import DeviceSpec
from optimizer.errors import ExecutionError
from optimizer.opmodel.ttmetal.execution import ExecutionSession, open_execution
from optimizer.options import Options
from optimizer.values.operands import paddings, random_operands

Arrays = list[NDArray[Any]]


def record_path(folder: Path, case: Case) -> Path:
    return folder / f"{hashlib.sha256(case.name.encode()).hexdigest()[:16]}.npz"


def record(cases: Iterable[Case], folder: Path, board: str, report: Callable[[str], None]) -> None:
    """Run the cases that the folder lacks; one that does not run leaves a text with the reason."""
    device = DeviceSpec.preset(board)
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        session: ExecutionSession | None = None
        for case in cases:
            path = record_path(folder, case)
            if path.exists() or path.with_suffix(".json").exists():
                continue
            if session is None or not session.alive:
                stack.close()
                session = stack.enter_context(open_execution(device, Options().l1_small_bytes, "sim"))
            try:
                held, results = session.evaluate(case.query, random_operands(case.query, 0), paddings(case.query))
            except ExecutionError as error:
                path.with_suffix(".json").write_text(json.dumps({"name": case.name, "problem": str(error)}))
                report(f"{case.name}: {error}")
                continue
            arrays = {f"x{k}": x for k, x in enumerate(held)} | {f"y{k}": y for k, y in enumerate(results)}
            unfinished = path.with_suffix(".part.npz")
            np.savez_compressed(unfinished, **arrays)
            unfinished.rename(path)
            report(case.name)


def recorded(folder: Path, case: Case) -> tuple[Arrays, Arrays] | str | None:
    """Operands as the device holds them and its results; why it did not run; None where it was not asked."""
    path = record_path(folder, case)
    if path.exists():
        with np.load(path, allow_pickle=False) as found:
            names = found.files
            return tuple([found[n] for n in sorted(names, key=lambda n: int(n[1:])) if n[0] == of] for of in "xy")  # type: ignore[return-value]
    reason = path.with_suffix(".json")
    return str(json.loads(reason.read_text())["problem"]) if reason.exists() else None
