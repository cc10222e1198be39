"""Tensix kernels: block and tile IR, DST allocation, loops, TTKernel calls, C++."""
