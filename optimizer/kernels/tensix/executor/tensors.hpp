// Tensors, and transfers between them and circular buffers.
#pragma once
#include "cores.hpp"

namespace tensix {

struct Tensor {
    std::vector<Tile> tiles;
    std::vector<Event> written;  // when each tile was
};

void knows_what_was_written(const char* what, Tensor& tensor, uint32_t tile);
extern std::vector<Tensor> tensors;
extern thread_local std::vector<uint32_t> common_args;

extern thread_local std::vector<uint32_t> unique_args;  // of the core

// A circular buffer in the shard of a tensor: what it holds is there from the start, and stays in the tensor.
// The shards of the cores lie one after the other in a tensor.
void back_by_tensor(Core& core, uint32_t cb, size_t tensor, size_t shard);
void keep_in_tensor(Core& core, uint32_t cb, size_t tensor, size_t shard);

constexpr uint32_t kSpan = 1u << 26;  // addresses of one circular buffer
uint32_t write_pointer(uint32_t cb);
uint32_t read_pointer(uint32_t cb);

Transfer transfer(const char* what, uint32_t tensor, uint32_t tile, uint32_t address);

void start_read(uint32_t tensor, uint32_t tile, uint32_t address);

void finish_reads();

void start_write(uint32_t tensor, uint32_t tile, uint32_t address);

void finish_writes();

}  // namespace tensix
