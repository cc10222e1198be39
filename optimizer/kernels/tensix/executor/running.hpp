// A program told part by part, and run on cores: what main.cpp calls, and all that a kernel includes.
//
// Bodies are in the .cpp files beside the headers: compiled once (runtime.cpp), they are not again with every kernel.
#pragma once
#include <initializer_list>
#include "api_common.hpp"

namespace tensix {

// -- what the program is made of ------------------------------------------------------------------------------
void has_dst(int capacity, bool sixteen_bits);
void has_units(bool wide, int phases_of_fpu, bool slips, bool sums_without_sign);  // of a device
void has_buffer(uint32_t index, uint32_t tiles, Format format, uint32_t tile_bytes, bool straight);
void has_semaphore(uint32_t index, uint32_t value);
void has_tensor(size_t tiles, bool sharded);  // tiles of one core's shard, where it is sharded
void lies_in(uint32_t buffer, size_t tensor);  // a circular buffer in the shard of a tensor
void has_kernel(const char* kind, void (*kernel)(), std::initializer_list<uint32_t> common);

// Runs it: words are column, row and `own` run-time arguments of one core after the other. Tensors are read from
// tensors.in and written to tensors.out. The exit code of the program.
int run_program(int own, int count, char** words);

}  // namespace tensix
