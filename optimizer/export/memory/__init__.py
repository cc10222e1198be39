"""Emitters whose artifact shows what lies in memory, and where: they replay the plan as `verify` does."""
