"""Packages that only some commands need, by the extra of `pyproject.toml` that brings them."""

from __future__ import annotations


def how_to_install(extra: str) -> str:
    """From a checkout: the distribution is on no package index, where its name would be anybody's."""
    return f"install the extra with `pip install '.[{extra}]'` in a checkout of ttopt"
