// All of the executor that is the same for every kernel.
#include "running.hpp"
#include "numbers.cpp"
#include "device.cpp"
#include "cores.cpp"
#include "tensors.cpp"
#include "dst.cpp"
#include "noc.cpp"
#include "running.cpp"
