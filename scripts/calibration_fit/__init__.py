"""Fitting of the time model's constants to measured rows."""
