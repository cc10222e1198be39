"""What a device gives for an op, rounding by rounding, on the CPU (docs/values.md, "Emulation")."""
