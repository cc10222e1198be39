"""What a Wormhole's units make of numbers, bit for bit: unpackers, FPU, stores of the SFPU, packers."""
