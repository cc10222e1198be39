"""Which Chromium the browser tests drive."""

from __future__ import annotations

import os
import shutil

VARIABLE = "TTOPT_CHROMIUM"
"""Names one; else it is looked for on the path."""
NAMES = ("chromium", "chromium-browser", "google-chrome")


def chromium() -> str | None:
    """Path of the browser; None where there is none."""
    named = os.environ.get(VARIABLE)
    return named or next((found for name in NAMES if (found := shutil.which(name))), None)
