"""What kernels compute, in three ways: what a program means, what its slots of DST hold, what its C++ does."""
