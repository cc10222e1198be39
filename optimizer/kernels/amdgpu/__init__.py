"""AMD GPU assembly for gfx942: kernel IR, liveness, register allocation, passes, text."""
