"""Ops that move elements, look them up, make tensors, or put them elsewhere."""
