"""Samples of op queries for OpModel backends: shapes of known networks, placements, attributes."""
