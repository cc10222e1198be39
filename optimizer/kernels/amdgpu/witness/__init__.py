"""Independent witnesses of emitted gfx942 text: LLVM (`llvm`) and an interpreter (`interpreter`)."""
