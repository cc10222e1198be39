"""Register allocation of kernels: liveness, intervals, spills, and the check of the outcome."""
