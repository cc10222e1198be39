// Tensix cores for kernels compiled with g++: circular buffers with credits, DST files, three threads each, a NoC.
//
// Every thread has a clock of what it knows to have happened in all threads: by credits of circular buffers and by
// semaphores. What one core does in another's L1 has to be known there, whatever the order in which threads happen to
// run here, so that a missing wait fails always.
//
// Every op is computed in long double, rounded to float32, and then to 16 bits where the hardware keeps 16 bits; or as a
// Wormhole's units compute it (device.hpp).
// It is here to fail: on every use of the API that a core would get wrong it ends the program with the thread, the
// function and the reason.
#pragma once
#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace tensix {

constexpr int kTile = 32, kElements = kTile * kTile, kBuffers = 32;

struct Failure {
    std::string message;
};

inline thread_local const char* thread_name = "main";

[[noreturn]] inline void fail(const char* format, ...) {
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    throw Failure{std::string(thread_name) + ": " + text};
}

struct Tile {
    float at[kElements];
    float& operator()(int r, int c) { return at[r * kTile + c]; }
    float operator()(int r, int c) const { return at[r * kTile + c]; }
};

enum class Format { Float32 = 0, Float16_b = 5, Bfp8_b = 6, Bfp4_b = 7 };  // as tt-metal numbers them

inline const char* name_of(Format format) {
    switch (format) {
        case Format::Float32: return "Float32";
        case Format::Float16_b: return "Float16_b";
        case Format::Bfp8_b: return "Bfp8_b";
        default: return "Bfp4_b";
    }
}

inline float round_to(float value, Format format) {
    if (format == Format::Float32 || !std::isfinite(value)) return value;
    uint32_t bits;
    memcpy(&bits, &value, 4);
    bits = (bits + 0x7fffu + ((bits >> 16) & 1u)) & 0xffff0000u;
    memcpy(&value, &bits, 4);
    return value;
}

using wide = long double;

// A number in L1 that the packer adds to, rounded once: to float32, or to 16 bits, where a float32 halfway between two
// of them is first moved to the side that the exact sum is on.
inline float packer_sum(float kept, float added, Format format) {
    const double exact = double(kept) + double(added);
    float near = float(exact);
    if (format == Format::Float32 || !std::isfinite(near)) return near;
    uint32_t bits;
    memcpy(&bits, &near, 4);
    if ((bits & 0xffffu) == 0x8000u && double(near) != exact)
        near = std::nextafter(near, exact > near ? std::numeric_limits<float>::infinity() : -std::numeric_limits<float>::infinity());
    return round_to(near, format);
}

// NaN if one is; of two zeros the second.
inline wide larger(wide a, wide b) { return a > b || std::isnan(a) ? a : b; }
inline wide smaller(wide a, wide b) { return a < b || std::isnan(a) ? a : b; }

// Has the sign of the divisor.
inline wide remainder(wide a, wide b) {
    const wide rest = std::fmod(a, b);
    if (rest == 0 && b != 0) return std::copysign(wide(0), b);
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

inline float from_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

// 16 neighbours of a row share the largest exponent: 7 or 3 bits of magnitude below it, ties to even.
inline void share_exponents(Tile& t, Format format) {
    if (format != Format::Bfp8_b && format != Format::Bfp4_b) return;
    const int bits = format == Format::Bfp8_b ? 7 : 3;
    const float most = float((1 << bits) - 1);
    for (int at = 0; at < kElements; at += 16) {
        float largest = 0.0f;
        for (int k = 0; k < 16; ++k) largest = float(larger(largest, std::fabs(t.at[at + k])));
        int exponent = 0;
        std::frexp(largest, &exponent);
        const float quantum = std::ldexp(1.0f, exponent - bits);
        for (int k = 0; k < 16; ++k) {
            const float steps = std::nearbyint(t.at[at + k] / quantum);
            const float empty = std::isnan(t.at[at + k]) ? t.at[at + k] : 0.0f;  // NaN or zeros only: nothing to share
            t.at[at + k] = (largest > 0.0f ? std::fmax(-most, std::fmin(most, steps)) * quantum : empty) + 0.0f;
        }
    }
}

}  // namespace tensix
#include "device.hpp"
namespace tensix {

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

// -- DST ---------------------------------------------------------------------------------------------------
enum class Phase { Released, Acquired, Committed, Waited };
enum class Mask { None, Row, Column, Element };

struct Dst {
    int capacity = 8;
    bool sixteen_bits = true;
    Phase phase = Phase::Released;
    std::vector<Tile> tiles;
    std::vector<char> defined;
    std::string fpu, sfpu;  // last init of each unit
    bool started = false, transpose = false, adds = false;  // adds: the packer to L1
    Mask mask = Mask::None;
    int sections = 0, inits = 0, most = 0;
    Format source_a = Format::Float16_b, source_b = Format::Float16_b, packer = Format::Float16_b;
};

inline thread_local Dst& dst = *this_core->dst;

inline void expect(Phase phase, const char* what) {
    static const char* names[] = {"release", "acquire", "commit", "wait"};
    if (dst.phase != phase) fail("%s after tile_regs_%s", what, names[int(dst.phase)]);
}

inline void tile_regs_acquire() {
    expect(Phase::Released, "tile_regs_acquire");
    if (!dst.started) fail("tile_regs_acquire before the common init");
    dst.phase = Phase::Acquired;
    dst.defined.assign(dst.capacity, 0);
    for (auto& t : dst.tiles) memset(t.at, 0, sizeof t.at);
    ++dst.sections;
}
inline void tile_regs_commit() { expect(Phase::Acquired, "tile_regs_commit"); dst.phase = Phase::Committed; }
inline void tile_regs_wait() { expect(Phase::Committed, "tile_regs_wait"); dst.phase = Phase::Waited; }
inline void tile_regs_release() { expect(Phase::Waited, "tile_regs_release"); dst.phase = Phase::Released; }

inline void reconfigure(const char* what, uint32_t a, uint32_t b) {
    dst.source_a = buffer(what, a).format;
    dst.source_b = buffer(what, b).format;
}
inline void reconfigure_packer(const char* what, uint32_t cb) { dst.packer = buffer(what, cb).format; }

inline void startup(const char* what, uint32_t a, uint32_t b, uint32_t out) {
    if (dst.phase != Phase::Released) fail("%s within a section", what);
    dst.started = true;
    reconfigure(what, a, b);
    reconfigure_packer(what, out);
}

inline void unpacks(const char* what, uint32_t a, uint32_t b) {
    for (auto [cb, set] : {std::pair{a, dst.source_a}, std::pair{b, dst.source_b}})
        if (buffer(what, cb).format != set)
            fail("%s: buffer %u holds %s, the unpacker is set to %s", what, cb, name_of(buffer(what, cb).format), name_of(set));
}

inline void keeps_format(const char* what, bool wide) {
    if (wide == dst.sixteen_bits) fail("%s: its data format is not that of DST", what);
}

// Moves 16 bits per element to DST: where it has 32, to other rows than it should. Float32 is unpacked straight to DST.
inline void writes_sixteen_bits(const char* what, uint32_t cb) {
    if (!dst.sixteen_bits && buffer(what, cb).format != Format::Float32)
        fail("%s: buffer %u holds %s, of which it writes 16 bits to a DST of 32 bits", what, cb, name_of(buffer(what, cb).format));
}

inline uint32_t slot(const char* what, uint32_t index) {
    if (index >= uint32_t(dst.capacity)) fail("%s: slot %u of %d", what, index, dst.capacity);
    if (int(index) + 1 > dst.most) dst.most = index + 1;
    return index;
}

inline const Tile& read(const char* what, uint32_t index) {
    if (!dst.defined[slot(what, index)]) fail("%s reads slot %u, which holds nothing", what, index);
    return dst.tiles[index];
}

// Ideally rounded to what DST holds; values of a device's units are as they are.
inline void write(const char* what, uint32_t index, const Tile& value) {
    Tile& t = dst.tiles[slot(what, index)];
    const Format format = dst.sixteen_bits && !on_device ? Format::Float16_b : Format::Float32;
    for (int k = 0; k < kElements; ++k) t.at[k] = round_to(value.at[k], format);
    dst.defined[index] = 1;
}

inline void write_vector(const char* what, uint32_t index, Tile value, bool nearest, bool signless) {
    if (on_device)
        for (float& v : value.at) v = stored(signless ? no_denormal(v) : v, nearest);
    write(what, index, value);
}

// A tile in a source register of the FPU.
inline Tile for_source(Tile tile, uint32_t cb) {
    if (on_device)
        for (float& v : tile.at) v = in_source(v, core.buffers[cb].format);
    return tile;
}

// A tile on its way to DST, through a source register or past it.
inline Tile for_dst(Tile tile, uint32_t cb) {
    const auto& b = core.buffers[cb];
    if (on_device && !b.straight && wide_dst) return for_source(tile, cb);
    if (on_device && !b.straight && b.format == Format::Float32)
        for (float& v : tile.at) v = kept(v, 16);
    return tile;
}

// DST in a source register that is set to the other operand's element type.
inline Tile reused(Tile tile, uint32_t cb) {
    if (on_device)
        for (float& v : tile.at) v = no_denormal(kept(v, source_bits(core.buffers[cb].format)));
    return tile;
}

inline void for_the_fpu(const char* what, uint32_t cb) {
    if (buffer(what, cb).straight) fail("%s: buffer %u is unpacked to DST past the FPU", what, cb);
}

inline void clear_slot(const char* what, uint32_t index) {
    if (dst.defined[slot(what, index)]) fail("%s adds to slot %u, which is not clear", what, index);
}

inline void init(bool sfpu, const std::string& key) {
    if (!dst.started) fail("%s before the common init", key.c_str());
    (sfpu ? dst.sfpu : dst.fpu) = key;
    ++dst.inits;
}

inline void computes(const char* what, bool sfpu, const std::string& key) {
    expect(Phase::Acquired, what);
    const std::string& last = sfpu ? dst.sfpu : dst.fpu;
    if (last != key) fail("%s needs %s, the last init was %s", what, key.c_str(), last.empty() ? "none" : last.c_str());
}

inline void pack(const char* what, uint32_t index, uint32_t cb, int64_t at) {
    expect(Phase::Waited, what);
    const Tile& value = read(what, index);
    auto& b = buffer(what, cb);
    if (b.format != dst.packer)
        fail("%s: buffer %u holds %s, the packer is set to %s", what, cb, name_of(b.format), name_of(dst.packer));
    std::unique_lock held(machine.lock);
    const uint64_t place = at < 0 ? b.packed : uint64_t(at);
    if (place >= b.reserved) fail("%s: tile %llu of buffer %u, %llu are reserved", what, (unsigned long long)place, cb, (unsigned long long)b.reserved);
    Tile t;
    for (int r = 0; r < kTile; ++r)
        for (int c = 0; c < kTile; ++c) {
            const bool kept = dst.mask == Mask::None || (dst.mask == Mask::Row && c % 16 == 0) || (dst.mask == Mask::Column && r == 0) || (r == 0 && c == 0);
            t(r, c) = kept ? value(r, c) : 0.0f;
        }
    if (on_device) {
        pack_format(t, b.format);
    } else {
        for (float& v : t.at) v = b.format == Format::Float16_b ? round_to(v, b.format) : v;
        share_exponents(t, b.format);
    }
    Tile& target = b.tiles[(b.pushed + place) % b.capacity];
    if (dst.adds) {
        if (at < 0) fail("%s: packs in order while the packer adds to L1", what);
        if (b.format != Format::Float32 && b.format != Format::Float16_b) fail("%s: adds to buffer %u, which holds %s", what, cb, name_of(b.format));
        if (!b.filled[(b.pushed + place) % b.capacity]) fail("%s: adds to tile %llu of buffer %u, which holds nothing", what, (unsigned long long)place, cb);
        for (int k = 0; k < kElements; ++k) t.at[k] = packer_sum(target.at[k], t.at[k], b.format);
    }
    target = t;
    b.filled[(b.pushed + place) % b.capacity] = 1;
    b.poisoned[(b.pushed + place) % b.capacity] = 0;
    if (at < 0) ++b.packed;
}

// -- data movement ---------------------------------------------------------------------------------------
struct Tensor {
    std::vector<Tile> tiles;
    std::vector<Event> written;  // when each tile was
};

inline void knows_what_was_written(const char* what, Tensor& tensor, uint32_t tile) {
    tensor.written.resize(tensor.tiles.size());
    if (!knows(tensor.written[tile])) fail("%s: tile %u was written by another thread, which nobody said", what, tile);
}
inline std::vector<Tensor> tensors;
inline thread_local std::vector<uint32_t> common_args;

inline thread_local std::vector<uint32_t> unique_args;  // of the core

// A circular buffer in the shard of a tensor: what it holds is there from the start, and stays in the tensor.
// The shards of the cores lie one after the other in a tensor.
inline void back_by_tensor(Core& core, uint32_t cb, size_t tensor, size_t shard) {
    auto& b = core.buffers[cb];
    b.backed = true;
    auto first = tensors[tensor].tiles.begin() + shard * b.capacity;
    b.tiles.assign(first, first + b.capacity);
    b.poisoned.assign(b.tiles.size(), 0);
}
inline void keep_in_tensor(Core& core, uint32_t cb, size_t tensor, size_t shard) {
    auto& b = core.buffers[cb];
    std::copy(b.tiles.begin(), b.tiles.end(), tensors[tensor].tiles.begin() + shard * b.capacity);
}

constexpr uint32_t kSpan = 1u << 26;  // addresses of one circular buffer
inline uint32_t write_pointer(uint32_t cb) { auto& b = buffer("get_write_ptr", cb); return cb * kSpan + uint32_t(own_pushed[cb] % b.capacity) * b.tile_bytes; }
inline uint32_t read_pointer(uint32_t cb) { auto& b = buffer("get_read_ptr", cb); return cb * kSpan + uint32_t(own_popped[cb] % b.capacity) * b.tile_bytes; }

inline Transfer transfer(const char* what, uint32_t tensor, uint32_t tile, uint32_t address) {
    const uint32_t cb = address / kSpan;
    auto& b = buffer(what, cb);
    if (address % kSpan % b.tile_bytes) fail("%s: address %u is not at a tile", what, address);
    if (tile >= tensors[tensor].tiles.size()) fail("%s: tile %u of %zu", what, tile, tensors[tensor].tiles.size());
    return {tensor, tile, cb, address % kSpan / b.tile_bytes};
}

inline void start_read(uint32_t tensor, uint32_t tile, uint32_t address) {
    const Transfer t = transfer("noc_async_read_page", tensor, tile, address);
    auto& b = core.buffers[t.cb];
    std::unique_lock held(machine.lock);
    const uint64_t offset = (t.place + b.capacity - b.pushed % b.capacity) % b.capacity;
    if (offset >= b.reserved) fail("noc_async_read_page: writes to buffer %u beyond what is reserved", t.cb);
    knows_what_was_written("noc_async_read_page", tensors[tensor], tile);
    b.poisoned[t.place] = 1;
    reads.push_back(t);
}

inline void finish_reads() {
    std::unique_lock held(machine.lock);
    for (const Transfer& t : reads) {
        core.buffers[t.cb].tiles[t.place] = tensors[t.tensor].tiles[t.tile];
        core.buffers[t.cb].poisoned[t.place] = 0;
    }
    reads.clear();
}

inline void start_write(uint32_t tensor, uint32_t tile, uint32_t address) {
    const Transfer t = transfer("noc_async_write_page", tensor, tile, address);
    auto& b = core.buffers[t.cb];
    std::unique_lock held(machine.lock);
    const uint64_t offset = (t.place + b.capacity - b.popped % b.capacity) % b.capacity;
    if (offset >= b.waited) fail("noc_async_write_page: reads from buffer %u beyond what was waited for", t.cb);
    writes.push_back(t);
}

inline void finish_writes() {
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
