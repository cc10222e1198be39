"""Reductions, sorting, running sums, softmax and norms."""
