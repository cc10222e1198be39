"""Values of single ops on tt-metal's simulator, with L1 tensors around every buffer that must keep what they hold."""
