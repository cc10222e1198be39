// Tensix cores for kernels compiled with g++: circular buffers with credits, semaphores, threads that wait.
//
// Every thread has a clock of what it knows to have happened in all threads: by credits of circular buffers and by
// semaphores. What one core does in another's L1 has to be known there, whatever the order in which threads happen to
// run here, so that a missing wait fails always.
//
// It is here to fail, as all of the executor: on every use of the API that a core would get wrong it ends the program with
// the thread, the function and the reason.
#pragma once
#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>
#include "numbers.hpp"

namespace tensix {

constexpr int kBuffers = 32;

// -- threads and what they know ---------------------------------------------------------------------------
using Clock = std::vector<uint64_t>;  // per thread of the program, how far it is known to be

inline void learn(Clock& clock, const Clock& other) {
    if (clock.size() < other.size()) clock.resize(other.size());
    for (size_t k = 0; k < other.size(); ++k) clock[k] = std::max(clock[k], other[k]);
}

// Something that a thread did: its number and how far it was then.
struct Event {
    int thread = -1;
    uint64_t time = 0;
};

inline thread_local int this_thread = 0;
inline thread_local Clock now;

inline Event happens() {
    if (now.size() <= size_t(this_thread)) now.resize(this_thread + 1);
    return {this_thread, ++now[this_thread]};
}
inline bool knows(const Event& e) { return e.thread < 0 || (size_t(e.thread) < now.size() && now[e.thread] >= e.time); }

// -- circular buffers -----------------------------------------------------------------------------------
struct CircularBuffer {
    bool bound = false;
    bool straight = false;  // unpacked to DST past the source registers
    Format format = Format::Float16_b;
    uint32_t capacity = 0, tile_bytes = 0;
    std::vector<Tile> tiles;
    bool backed = false;         // lies in the shard of a tensor: what it holds is there
    std::vector<char> poisoned;  // reserved and not written, or what is to be there has not arrived yet
    std::vector<char> filled;    // packed since it was reserved
    std::vector<Event> arrived;  // when another core's block was complete
    Event room;                  // when the room that is reserved was found
    Clock pushes, pops;          // what threads know that found these credits
    uint64_t pushed = 0, popped = 0, waited = 0, reserved = 0, packed = 0;
};

// All threads of all cores.
struct Machine {
    std::mutex lock;
    std::condition_variable signal;
    int alive = 0, blocked = 0;
    uint64_t changes = 0;
    bool dead = false;

    void changed() {
        blocked = 0;
        ++changes;
        signal.notify_all();
    }

    template <class Ready>
    void wait(std::unique_lock<std::mutex>& held, const char* what, uint32_t number, Ready ready) {
        while (!ready()) {
            if (dead) fail("stopped");
            if (++blocked == alive) {
                dead = true;
                signal.notify_all();
                fail("%s(%u) waits for ever: deadlock", what, number);
            }
            const uint64_t seen = changes;
            signal.wait(held, [&] { return dead || changes != seen; });
        }
    }
};

inline Machine machine;

struct Semaphore {
    bool there = false;
    uint32_t value = 0, was_set_to = 0;
    Clock known;              // what the thread knew that set it
    std::vector<Clock> adds;  // what threads knew that added 1 since

    // What is known of a value: of more additions than it takes, any may have been the ones.
    void teach(uint32_t of) const {
        learn(now, known);
        const size_t due = of > was_set_to ? of - was_set_to : 0;
        if (adds.size() <= due) {
            for (const Clock& c : adds) learn(now, c);
        } else if (due) {
            Clock sure;
            for (const Clock& c : adds) sure.resize(std::max(sure.size(), c.size()));
            for (size_t t = 0; t < sure.size(); ++t) {
                std::vector<uint64_t> times;
                for (const Clock& c : adds) times.push_back(t < c.size() ? c[t] : 0);
                std::sort(times.begin(), times.end());
                sure[t] = times[due - 1];
            }
            learn(now, sure);
        }
    }
};
constexpr int kSemaphores = 16;

struct Dst;
struct Core {
    uint8_t x = 0, y = 0;
    CircularBuffer buffers[kBuffers];
    Semaphore semaphores[kSemaphores];
    Dst* dst = nullptr;
};

inline std::vector<std::unique_ptr<Core>> cores;
inline thread_local Core* this_core = nullptr;
inline thread_local Core& core = *this_core;  // this_core is set before anything else happens in a thread

inline Core* core_at(uint32_t x, uint32_t y) {
    for (auto& c : cores)
        if (c->x == x && c->y == y) return c.get();
    return nullptr;
}

inline CircularBuffer& buffer(const char* what, uint32_t cb) {
    if (cb >= kBuffers || !core.buffers[cb].bound) fail("%s: circular buffer %u is not bound", what, cb);
    return core.buffers[cb];
}

struct Transfer {
    uint32_t tensor, tile, cb, place;
};
inline thread_local std::vector<Transfer> reads, writes;  // under way

// A block on its way to other cores.
struct Parcel {
    std::vector<Core*> to;
    uint32_t source_cb, source_place, cb, place, tiles;
    bool ordered, delivered;  // multicasts of one thread arrive in order
};
inline thread_local std::vector<Parcel> parcels;
inline thread_local bool semaphore_writes = false, semaphore_adds = false;  // under way
inline thread_local uint64_t own_pushed[kBuffers], own_popped[kBuffers];    // a thread keeps pointers of its own

inline void leaves(const char* what, uint32_t cb, uint32_t count) {
    for (const Parcel& p : parcels)
        if (p.source_cb == cb) fail("%s(%u, %u): tile %u is still being sent", what, cb, count, p.source_place);
}

inline void cb_wait_front(uint32_t cb, uint32_t count) {
    auto& b = buffer("cb_wait_front", cb);
    if (count > b.capacity) fail("cb_wait_front(%u, %u): the buffer has %u tiles", cb, count, b.capacity);
    std::unique_lock held(machine.lock);
    machine.wait(held, "cb_wait_front", cb, [&] { return b.pushed - b.popped >= count; });
    learn(now, b.pushes);
    if (b.waited < count) b.waited = count;
}

inline void cb_pop_front(uint32_t cb, uint32_t count) {
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

inline void cb_reserve_back(uint32_t cb, uint32_t count) {
    auto& b = buffer("cb_reserve_back", cb);
    if (count > b.capacity) fail("cb_reserve_back(%u, %u): the buffer has %u tiles", cb, count, b.capacity);
    std::unique_lock held(machine.lock);
    machine.wait(held, "cb_reserve_back", cb, [&] { return b.capacity - (b.pushed - b.popped) >= count; });
    learn(now, b.pops);
    b.room = happens();
    for (uint64_t k = b.reserved; k < count && !b.backed; ++k) b.poisoned[(b.pushed + k) % b.capacity] = 1;
    if (b.reserved < count) b.reserved = count;
}

inline void cb_push_back(uint32_t cb, uint32_t count) {
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

inline const Tile& front(const char* what, uint32_t cb, uint32_t tile) {
    auto& b = buffer(what, cb);
    std::unique_lock held(machine.lock);
    if (tile >= b.waited) fail("%s: tile %u of buffer %u, %llu were waited for", what, tile, cb, (unsigned long long)b.waited);
    return b.tiles[(b.popped + tile) % b.capacity];
}

}  // namespace tensix
