"""For benchmarks and tests of the gfx942 back end: sample kernels, LLVM as a witness, broken texts, counts of waits."""
