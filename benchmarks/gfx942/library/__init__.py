"""Kernels written with the builder and the expression emitter: copy, elementwise, reduction, matrix product."""
