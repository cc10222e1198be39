#include "noc.hpp"

namespace tensix {

thread_local uint8_t noc = 0;

uint64_t packed(uint32_t x0, uint32_t y0, uint32_t x1, uint32_t y1, uint32_t address, bool many) {
    return uint64_t(address) | uint64_t(x0) << 32 | uint64_t(y0) << 39 | uint64_t(x1) << 46 | uint64_t(y1) << 53 | uint64_t(many) << 63;
}

NocAddress unpacked(uint64_t a) {
    return {uint32_t(a >> 32 & 127), uint32_t(a >> 39 & 127), uint32_t(a >> 46 & 127), uint32_t(a >> 53 & 127), uint32_t(a), bool(a >> 63)};
}

Core* core_on_noc(const char* what, uint32_t x, uint32_t y) {
    Core* found = x < kVirtual || y < kVirtual ? nullptr : core_at(x - kVirtual, y - kVirtual);
    if (!found) fail("%s: no core of the program is at (%u, %u) of the NoC", what, x, y);
    return found;
}

std::vector<Core*> named(const char* what, const NocAddress& a, bool many, uint32_t count, bool self) {
    if (a.many != many) fail("%s: an address of %s core", what, a.many ? "more than one" : "one");
    if (!many) return {core_on_noc(what, a.x0, a.y0)};
    const bool forward = noc == 0;
    const uint32_t left = forward ? a.x0 : a.x1, right = forward ? a.x1 : a.x0;
    const uint32_t top = forward ? a.y0 : a.y1, bottom = forward ? a.y1 : a.y0;
    if (left > right || top > bottom) fail("%s: the rectangle is against the direction of NoC %d", what, noc);
    std::vector<Core*> found;
    for (uint32_t y = top; y <= bottom; ++y)
        for (uint32_t x = left; x <= right; ++x) {
            Core* c = core_on_noc(what, x, y);
            if (self || c != this_core) found.push_back(c);
        }
    if (found.size() != count) fail("%s: %u cores are said, %zu are in the rectangle", what, count, found.size());
    if (found.size() == 1 && found[0] == this_core) fail("%s: goes to the sender only", what);
    return found;
}

Semaphore& semaphore(const char* what, Core* c, uint32_t address) {
    const uint32_t number = (address - kSemaphoreBase) / 16;
    if (address < kSemaphoreBase || number >= kSemaphores || address % 16 || !c->semaphores[number].there)
        fail("%s: no semaphore is at %u", what, address);
    return c->semaphores[number];
}

uint32_t address_of(volatile uint32_t* word) { return uint32_t(reinterpret_cast<uintptr_t>(word)); }

void send(const char* what, uint32_t source, uint64_t target, uint32_t bytes, bool many, uint32_t count, bool self) {
    const NocAddress a = unpacked(target);
    std::unique_lock held(machine.lock);
    auto to = named(what, a, many, count, self);
    auto& from = buffer(what, source / kSpan);
    const uint32_t cb = a.address / kSpan, tiles = bytes / from.tile_bytes;
    Parcel p{to, source / kSpan, source % kSpan / from.tile_bytes, cb, 0, tiles, many, false};
    if (bytes % from.tile_bytes || source % kSpan % from.tile_bytes) fail("%s: not whole tiles", what);
    for (uint32_t k = 0; k < tiles; ++k) {
        const uint64_t place = p.source_place + k;
        const uint64_t front = (place + from.capacity - from.popped % from.capacity) % from.capacity;
        const uint64_t back = (place + from.capacity - from.pushed % from.capacity) % from.capacity;
        const bool written = back < from.reserved && !from.poisoned[place % from.capacity];
        if (place >= from.capacity || !(front < from.waited || written)) fail("%s: tile %u of buffer %u is not there to be sent", what, k, p.source_cb);
    }
    for (Core* c : to) {
        if (cb >= kBuffers || !c->buffers[cb].bound) fail("%s: address %u is in no circular buffer", what, a.address);
        auto& b = c->buffers[cb];
        if (b.tile_bytes != from.tile_bytes || a.address % kSpan % b.tile_bytes) fail("%s: the receiver's tiles are others", what);
        p.place = a.address % kSpan / b.tile_bytes;
        if (!knows(b.room)) fail("%s: core (%d, %d) did not say that it has room in buffer %u", what, c->x, c->y, cb);
        for (uint32_t k = 0; k < tiles; ++k) {
            const uint64_t place = p.place + k;
            const uint64_t offset = (place + b.capacity - b.pushed % b.capacity) % b.capacity;
            if (place >= b.capacity || offset >= b.reserved) fail("%s: overwrites tile %llu of buffer %u on core (%d, %d)", what, (unsigned long long)place, cb, c->x, c->y);
            b.poisoned[place] = 1;
        }
    }
    parcels.push_back(p);
}

void deliver(Parcel& p) {
    if (p.delivered) return;
    p.delivered = true;
    const Event event = happens();
    auto& from = core.buffers[p.source_cb];
    for (Core* c : p.to)
        for (uint32_t k = 0; k < p.tiles; ++k) {
            auto& b = c->buffers[p.cb];
            b.tiles[p.place + k] = from.tiles[p.source_place + k];
            b.poisoned[p.place + k] = 0;
            b.arrived[p.place + k] = event;
        }
}

void finish_parcels() {
    std::unique_lock held(machine.lock);
    for (Parcel& p : parcels) deliver(p);
    parcels.clear();
    semaphore_writes = false;
}

void set_semaphore(Semaphore& s, uint32_t value) {
    happens();
    s.value = s.was_set_to = value;
    s.known = now;
    s.adds.clear();
    machine.changed();
}

void add_semaphore(uint64_t target, uint32_t value) {
    std::unique_lock held(machine.lock);
    const NocAddress a = unpacked(target);
    Semaphore& s = semaphore("noc_semaphore_inc", named("noc_semaphore_inc", a, false, 1, true)[0], a.address);
    happens();
    s.value += value;
    for (uint32_t k = 0; k < value; ++k) s.adds.push_back(now);
    semaphore_adds = true;
    machine.changed();
}

void send_semaphore(const char* what, uint32_t source, uint64_t target, bool many, uint32_t count, bool self) {
    std::unique_lock held(machine.lock);
    const NocAddress a = unpacked(target);
    const uint32_t value = semaphore(what, this_core, source).value;
    for (Parcel& p : parcels)
        if (p.ordered && many) deliver(p);
    for (Core* c : named(what, a, many, count, self)) set_semaphore(semaphore(what, c, a.address), value);
    semaphore_writes = true;
}

void wait_semaphore(const char* what, uint32_t address, uint32_t value, bool at_least) {
    std::unique_lock held(machine.lock);
    Semaphore& s = semaphore(what, this_core, address);
    machine.wait(held, what, (address - kSemaphoreBase) / 16, [&] { return at_least ? s.value >= value : s.value == value; });
    s.teach(value);
}

}  // namespace tensix

uint64_t get_noc_addr(uint32_t noc_x, uint32_t noc_y, uint32_t addr) {
    return tensix::packed(noc_x, noc_y, noc_x, noc_y, addr, false);
}

uint64_t get_noc_multicast_addr(uint32_t x_start, uint32_t y_start, uint32_t x_end, uint32_t y_end, uint32_t addr) {
    return tensix::packed(x_start, y_start, x_end, y_end, addr, true);
}

void noc_async_write(uint32_t src_local_l1_addr, uint64_t dst_noc_addr, uint32_t size) {
    tensix::send("noc_async_write", src_local_l1_addr, dst_noc_addr, size, false, 1, true);
}

void noc_async_write_multicast(uint32_t src_local_l1_addr, uint64_t dst_noc_addr, uint32_t size, uint32_t num_dests) {
    tensix::send("noc_async_write_multicast", src_local_l1_addr, dst_noc_addr, size, true, num_dests, false);
}

void noc_async_write_multicast_loopback_src(
    uint32_t src_local_l1_addr, uint64_t dst_noc_addr, uint32_t size, uint32_t num_dests) {
    tensix::send("noc_async_write_multicast_loopback_src", src_local_l1_addr, dst_noc_addr, size, true, num_dests, true);
}

uintptr_t get_semaphore(uint32_t semaphore_id) { return tensix::kSemaphoreBase + semaphore_id * 16; }

void noc_semaphore_wait(volatile tt_l1_ptr uint32_t* sem_addr, uint32_t val) {
    tensix::wait_semaphore("noc_semaphore_wait", tensix::address_of(sem_addr), val, false);
}

void noc_semaphore_wait_min(volatile tt_l1_ptr uint32_t* sem_addr, uint32_t val) {
    tensix::wait_semaphore("noc_semaphore_wait_min", tensix::address_of(sem_addr), val, true);
}

void noc_semaphore_set(volatile tt_l1_ptr uint32_t* sem_addr, uint32_t val) {
    std::unique_lock held(tensix::machine.lock);
    tensix::set_semaphore(tensix::semaphore("noc_semaphore_set", &tensix::core, tensix::address_of(sem_addr)), val);
}

void noc_semaphore_inc(uint64_t addr, uint32_t incr) { tensix::add_semaphore(addr, incr); }

void noc_semaphore_set_remote(uint32_t src_local_l1_addr, uint64_t dst_noc_addr) {
    tensix::send_semaphore("noc_semaphore_set_remote", src_local_l1_addr, dst_noc_addr, false, 1, true);
}

void noc_semaphore_set_multicast(uint32_t src_local_l1_addr, uint64_t dst_noc_addr, uint32_t num_dests) {
    tensix::send_semaphore("noc_semaphore_set_multicast", src_local_l1_addr, dst_noc_addr, true, num_dests, false);
}

void noc_semaphore_set_multicast_loopback_src(uint32_t src_local_l1_addr, uint64_t dst_noc_addr, uint32_t num_dests) {
    tensix::send_semaphore("noc_semaphore_set_multicast_loopback_src", src_local_l1_addr, dst_noc_addr, true, num_dests, true);
}

void noc_async_atomic_barrier() { tensix::semaphore_adds = false; }
