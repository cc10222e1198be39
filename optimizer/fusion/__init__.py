"""Our kernels for regions of a finished result (`docs/tensix-kernels.md`)."""
