"""A worker program under a server: `python -m api.workers NAME`; settings come from the environment."""

from __future__ import annotations

import os
import sys

from api.settings import Settings
from api.workers.program import WorkerProgram
from optimizer.process import logs

if __name__ == "__main__":
    logs.configure(logs.LogSettings.parse(os.environ.get(logs.VARIABLE, "")))
    WorkerProgram(Settings.from_environment(), sys.argv[1], supervised=True).run()
