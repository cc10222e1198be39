"""Fuzz targets, one module each, and the harness that runs their cases in forked workers with limits."""
