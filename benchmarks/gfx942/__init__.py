"""What only benchmarks and tests of the gfx942 back end need: sample kernels, LLVM as a witness, broken texts."""
