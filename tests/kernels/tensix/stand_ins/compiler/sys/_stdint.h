// Stand-in: where newlib, the C library of tt-metal's compiler, has the fixed-width integers.
#pragma once
#include <stdint.h>
