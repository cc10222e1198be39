"""Values: what ops compute in float64, how far a device may be from that, and how what it gives compares."""
