"""Plans that tt-mlir's own optimizer made, as our annotated graphs and as the problems they solve."""
