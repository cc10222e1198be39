"""Plans that tt-mlir's own optimizer made, as annotated graphs of ours and as the problems they solve."""
