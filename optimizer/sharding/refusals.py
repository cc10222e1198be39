"""Why a value cannot stay in L1."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Cause(StrEnum):
    """What kind of reason forbids a change."""

    LAYOUT = "layout"
    """An op does not take the layouts."""
    TIME = "time"
    """It is predicted no faster."""
    L1 = "l1"
    """It does not fit."""


@dataclass(frozen=True)
class Refusal:
    """Why a change cannot be made."""

    op_id: str
    message: str
    cause: Cause

    def describe(self) -> str:
        return f"{self.op_id}: {self.message}"
