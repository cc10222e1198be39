#include "tensors.hpp"

namespace tensix {

void knows_what_was_written(const char* what, Tensor& tensor, uint32_t tile) {
    tensor.written.resize(tensor.tiles.size());
    if (!knows(tensor.written[tile])) fail("%s: tile %u was written by another thread, which nobody said", what, tile);
}

std::vector<Tensor> tensors;
thread_local std::vector<uint32_t> common_args;
thread_local std::vector<uint32_t> unique_args;

void back_by_tensor(Core& core, uint32_t cb, size_t tensor, size_t shard) {
    auto& b = core.buffers[cb];
    b.backed = true;
    auto first = tensors[tensor].tiles.begin() + shard * b.capacity;
    b.tiles.assign(first, first + b.capacity);
    b.poisoned.assign(b.tiles.size(), 0);
}

void keep_in_tensor(Core& core, uint32_t cb, size_t tensor, size_t shard) {
    auto& b = core.buffers[cb];
    std::copy(b.tiles.begin(), b.tiles.end(), tensors[tensor].tiles.begin() + shard * b.capacity);
}

uint32_t write_pointer(uint32_t cb) { auto& b = buffer("get_write_ptr", cb); return cb * kSpan + uint32_t(own_pushed[cb] % b.capacity) * b.tile_bytes; }
uint32_t read_pointer(uint32_t cb) { auto& b = buffer("get_read_ptr", cb); return cb * kSpan + uint32_t(own_popped[cb] % b.capacity) * b.tile_bytes; }

Transfer transfer(const char* what, uint32_t tensor, uint32_t tile, uint32_t address) {
    const uint32_t cb = address / kSpan;
    auto& b = buffer(what, cb);
    if (address % kSpan % b.tile_bytes) fail("%s: address %u is not at a tile", what, address);
    if (tile >= tensors[tensor].tiles.size()) fail("%s: tile %u of %zu", what, tile, tensors[tensor].tiles.size());
    return {tensor, tile, cb, address % kSpan / b.tile_bytes};
}

void start_read(uint32_t tensor, uint32_t tile, uint32_t address) {
    const Transfer t = transfer("noc_async_read_page", tensor, tile, address);
    auto& b = core.buffers[t.cb];
    std::unique_lock held(machine.lock);
    const uint64_t offset = (t.place + b.capacity - b.pushed % b.capacity) % b.capacity;
    if (offset >= b.reserved) fail("noc_async_read_page: writes to buffer %u beyond what is reserved", t.cb);
    knows_what_was_written("noc_async_read_page", tensors[tensor], tile);
    b.poisoned[t.place] = 1;
    reads.push_back(t);
}

void finish_reads() {
    std::unique_lock held(machine.lock);
    for (const Transfer& t : reads) {
        core.buffers[t.cb].tiles[t.place] = tensors[t.tensor].tiles[t.tile];
        core.buffers[t.cb].poisoned[t.place] = 0;
    }
    reads.clear();
}

void start_write(uint32_t tensor, uint32_t tile, uint32_t address) {
    const Transfer t = transfer("noc_async_write_page", tensor, tile, address);
    auto& b = core.buffers[t.cb];
    std::unique_lock held(machine.lock);
    const uint64_t offset = (t.place + b.capacity - b.popped % b.capacity) % b.capacity;
    if (offset >= b.waited) fail("noc_async_write_page: reads from buffer %u beyond what was waited for", t.cb);
    writes.push_back(t);
}

void finish_writes() {
    std::unique_lock held(machine.lock);
    const Event event = happens();
    for (const Transfer& t : writes) {
        knows_what_was_written("noc_async_write_page", tensors[t.tensor], t.tile);
        tensors[t.tensor].tiles[t.tile] = core.buffers[t.cb].tiles[t.place];
        tensors[t.tensor].written[t.tile] = event;
    }
    writes.clear();
}

}  // namespace tensix
