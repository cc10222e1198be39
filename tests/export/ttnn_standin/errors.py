"""What the stand-in raises."""

from __future__ import annotations


class Refused(RuntimeError):
    """A call that TTNN refuses, or that cannot be meant. TTNN raises RuntimeError too."""


class UseAfterFree(Refused):
    """A tensor whose buffer was freed is read or written."""


class Unmodelled(Exception):
    """Something that TTNN has and the stand-in lacks: says nothing about the program."""
