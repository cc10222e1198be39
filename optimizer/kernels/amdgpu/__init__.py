"""AMD GPU assembly for gfx942 and gfx950: kernel IR, liveness, register allocation, passes, text."""
