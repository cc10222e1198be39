"""AMD GPU assembly (gfx942): from a kernel IR with virtual registers to text that LLVM assembles."""
