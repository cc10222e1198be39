"""Single ops on the simulator and in the emulation: the cases, and what is measured of them."""
