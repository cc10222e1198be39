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

void learn(Clock& clock, const Clock& other);

// Something that a thread did: its number and how far it was then.
struct Event {
    int thread = -1;
    uint64_t time = 0;
};

extern thread_local int this_thread;
extern thread_local Clock now;

Event happens();
bool knows(const Event& e);

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

extern Machine machine;

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

extern std::vector<std::unique_ptr<Core>> cores;
extern thread_local Core* this_core;
inline thread_local Core& core = *this_core;  // this_core is set before anything else happens in a thread

Core* core_at(uint32_t x, uint32_t y);

CircularBuffer& buffer(const char* what, uint32_t cb);

struct Transfer {
    uint32_t tensor, tile, cb, place;
};
extern thread_local std::vector<Transfer> reads, writes;  // under way

// A block on its way to other cores.
struct Parcel {
    std::vector<Core*> to;
    uint32_t source_cb, source_place, cb, place, tiles;
    bool ordered, delivered;  // multicasts of one thread arrive in order
};
extern thread_local std::vector<Parcel> parcels;
extern thread_local bool semaphore_writes, semaphore_adds;  // under way
extern thread_local uint64_t own_pushed[kBuffers], own_popped[kBuffers];  // a thread keeps pointers of its own

void leaves(const char* what, uint32_t cb, uint32_t count);

void cb_wait_front(uint32_t cb, uint32_t count);

void cb_pop_front(uint32_t cb, uint32_t count);

void cb_reserve_back(uint32_t cb, uint32_t count);

void cb_push_back(uint32_t cb, uint32_t count);

const Tile& front(const char* what, uint32_t cb, uint32_t tile);

}  // namespace tensix
