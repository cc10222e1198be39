"""Corruptions of finished plans: what `ttopt check` has to see."""
