#include "cores.hpp"

namespace tensix {

void learn(Clock& clock, const Clock& other) {
    if (clock.size() < other.size()) clock.resize(other.size());
    for (size_t k = 0; k < other.size(); ++k) clock[k] = std::max(clock[k], other[k]);
}

thread_local int this_thread = 0;
thread_local Clock now;

Event happens() {
    if (now.size() <= size_t(this_thread)) now.resize(this_thread + 1);
    return {this_thread, ++now[this_thread]};
}

bool knows(const Event& e) { return e.thread < 0 || (size_t(e.thread) < now.size() && now[e.thread] >= e.time); }
Machine machine;
std::vector<std::unique_ptr<Core>> cores;
thread_local Core* this_core = nullptr;

Core* core_at(uint32_t x, uint32_t y) {
    for (auto& c : cores)
        if (c->x == x && c->y == y) return c.get();
    return nullptr;
}

CircularBuffer& buffer(const char* what, uint32_t cb) {
    if (cb >= kBuffers || !core.buffers[cb].bound) fail("%s: circular buffer %u is not bound", what, cb);
    return core.buffers[cb];
}

thread_local std::vector<Transfer> reads, writes;
thread_local std::vector<Parcel> parcels;
thread_local bool semaphore_writes = false, semaphore_adds = false;
thread_local uint64_t own_pushed[kBuffers], own_popped[kBuffers];

void leaves(const char* what, uint32_t cb, uint32_t count) {
    for (const Parcel& p : parcels)
        if (p.source_cb == cb) fail("%s(%u, %u): tile %u is still being sent", what, cb, count, p.source_place);
}

void cb_wait_front(uint32_t cb, uint32_t count) {
    auto& b = buffer("cb_wait_front", cb);
    if (count > b.capacity) fail("cb_wait_front(%u, %u): the buffer has %u tiles", cb, count, b.capacity);
    std::unique_lock held(machine.lock);
    machine.wait(held, "cb_wait_front", cb, [&] { return b.pushed - b.popped >= count; });
    learn(now, b.pushes);
    if (b.waited < count) b.waited = count;
}

void cb_pop_front(uint32_t cb, uint32_t count) {
    auto& b = buffer("cb_pop_front", cb);
    std::unique_lock held(machine.lock);
    if (count > b.waited) fail("cb_pop_front(%u, %u): %llu tiles were waited for", cb, count, (unsigned long long)b.waited);
    if (b.popped % b.capacity + count > b.capacity) fail("cb_pop_front(%u, %u): straddles the end", cb, count);
    for (const Transfer& t : writes)
        if (t.cb == cb) fail("cb_pop_front(%u, %u): tile %u is still being written", cb, count, t.place);
    leaves("cb_pop_front", cb, count);
    b.popped += count;
    own_popped[cb] += count;
    b.waited -= count;
    happens();
    learn(b.pops, now);
    machine.changed();
}

void cb_reserve_back(uint32_t cb, uint32_t count) {
    auto& b = buffer("cb_reserve_back", cb);
    if (count > b.capacity) fail("cb_reserve_back(%u, %u): the buffer has %u tiles", cb, count, b.capacity);
    std::unique_lock held(machine.lock);
    machine.wait(held, "cb_reserve_back", cb, [&] { return b.capacity - (b.pushed - b.popped) >= count; });
    learn(now, b.pops);
    b.room = happens();
    for (uint64_t k = b.reserved; k < count && !b.backed; ++k) b.poisoned[(b.pushed + k) % b.capacity] = 1;
    if (b.reserved < count) b.reserved = count;
}

void cb_push_back(uint32_t cb, uint32_t count) {
    auto& b = buffer("cb_push_back", cb);
    std::unique_lock held(machine.lock);
    if (count > b.reserved) fail("cb_push_back(%u, %u): %llu tiles are reserved", cb, count, (unsigned long long)b.reserved);
    if (b.pushed % b.capacity + count > b.capacity) fail("cb_push_back(%u, %u): straddles the end", cb, count);
    for (uint32_t k = 0; k < count; ++k) {
        const uint64_t place = (b.pushed + k) % b.capacity;
        if (b.poisoned[place]) fail("cb_push_back(%u, %u): tile %u is not written", cb, count, k);
        if (!knows(b.arrived[place])) fail("cb_push_back(%u, %u): nobody said that tile %u has arrived", cb, count, k);
        b.arrived[place] = {};
    }
    leaves("cb_push_back", cb, count);
    b.pushed += count;
    own_pushed[cb] += count;
    for (uint32_t k = 0; k < count; ++k) b.filled[(b.pushed - count + k) % b.capacity] = 0;
    b.reserved -= count;
    b.packed = 0;
    happens();
    learn(b.pushes, now);
    machine.changed();
}

const Tile& front(const char* what, uint32_t cb, uint32_t tile) {
    auto& b = buffer(what, cb);
    std::unique_lock held(machine.lock);
    if (tile >= b.waited) fail("%s: tile %u of buffer %u, %llu were waited for", what, tile, cb, (unsigned long long)b.waited);
    return b.tiles[(b.popped + tile) % b.capacity];
}

}  // namespace tensix
