// A Tensix core for kernels compiled with g++: circular buffers with credits, a DST file, three threads.
//
// Every op is computed in long double, rounded to float32, and then to 16 bits where the hardware keeps 16 bits; or as a
// Wormhole's units compute it (device.hpp).
// It is here to fail: on every use of the API that a core would get wrong it ends the program with the thread, the
// function and the reason.
#pragma once
#include <cmath>
#include <condition_variable>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
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
            t.at[at + k] = largest > 0.0f ? std::fmax(-most, std::fmin(most, steps)) * quantum : empty;
        }
    }
}

}  // namespace tensix
#include "device.hpp"
namespace tensix {

// -- circular buffers -----------------------------------------------------------------------------------
struct CircularBuffer {
    bool bound = false;
    bool straight = false;  // unpacked to DST past the source registers
    Format format = Format::Float16_b;
    uint32_t capacity = 0, tile_bytes = 0;
    std::vector<Tile> tiles;
    std::vector<char> poisoned;  // a read into it is not waited for yet
    uint64_t pushed = 0, popped = 0, waited = 0, reserved = 0, packed = 0;
};

struct Core {
    CircularBuffer buffers[kBuffers];
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
    void wait(std::unique_lock<std::mutex>& held, const char* what, uint32_t cb, Ready ready) {
        while (!ready()) {
            if (dead) fail("stopped");
            if (++blocked == alive) {
                dead = true;
                signal.notify_all();
                fail("%s(%u) waits for ever: deadlock", what, cb);
            }
            const uint64_t seen = changes;
            signal.wait(held, [&] { return dead || changes != seen; });
        }
    }
};

inline Core core;

inline CircularBuffer& buffer(const char* what, uint32_t cb) {
    if (cb >= kBuffers || !core.buffers[cb].bound) fail("%s: circular buffer %u is not bound", what, cb);
    return core.buffers[cb];
}

struct Transfer {
    uint32_t tensor, tile, cb, place;
};
inline thread_local std::vector<Transfer> reads, writes;  // under way

inline void cb_wait_front(uint32_t cb, uint32_t count) {
    auto& b = buffer("cb_wait_front", cb);
    if (count > b.capacity) fail("cb_wait_front(%u, %u): the buffer has %u tiles", cb, count, b.capacity);
    std::unique_lock held(core.lock);
    core.wait(held, "cb_wait_front", cb, [&] { return b.pushed - b.popped >= count; });
    if (b.waited < count) b.waited = count;
}

inline void cb_pop_front(uint32_t cb, uint32_t count) {
    auto& b = buffer("cb_pop_front", cb);
    std::unique_lock held(core.lock);
    if (count > b.waited) fail("cb_pop_front(%u, %u): %llu tiles were waited for", cb, count, (unsigned long long)b.waited);
    if (b.popped % b.capacity + count > b.capacity) fail("cb_pop_front(%u, %u): straddles the end", cb, count);
    for (const Transfer& t : writes)
        if (t.cb == cb) fail("cb_pop_front(%u, %u): tile %u is still being written", cb, count, t.place);
    b.popped += count;
    b.waited -= count;
    core.changed();
}

inline void cb_reserve_back(uint32_t cb, uint32_t count) {
    auto& b = buffer("cb_reserve_back", cb);
    if (count > b.capacity) fail("cb_reserve_back(%u, %u): the buffer has %u tiles", cb, count, b.capacity);
    std::unique_lock held(core.lock);
    core.wait(held, "cb_reserve_back", cb, [&] { return b.capacity - (b.pushed - b.popped) >= count; });
    if (b.reserved < count) b.reserved = count;
}

inline void cb_push_back(uint32_t cb, uint32_t count) {
    auto& b = buffer("cb_push_back", cb);
    std::unique_lock held(core.lock);
    if (count > b.reserved) fail("cb_push_back(%u, %u): %llu tiles are reserved", cb, count, (unsigned long long)b.reserved);
    if (b.pushed % b.capacity + count > b.capacity) fail("cb_push_back(%u, %u): straddles the end", cb, count);
    for (uint32_t k = 0; k < count; ++k)
        if (b.poisoned[(b.pushed + k) % b.capacity]) fail("cb_push_back(%u, %u): tile %u is not written", cb, count, k);
    b.pushed += count;
    b.reserved -= count;
    b.packed = 0;
    core.changed();
}

inline const Tile& front(const char* what, uint32_t cb, uint32_t tile) {
    auto& b = buffer(what, cb);
    std::unique_lock held(core.lock);
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
    bool started = false, transpose = false;
    Mask mask = Mask::None;
    int sections = 0, inits = 0, most = 0;
    Format source_a = Format::Float16_b, source_b = Format::Float16_b, packer = Format::Float16_b;
};

inline Dst dst;

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
    std::unique_lock held(core.lock);
    const uint64_t place = at < 0 ? b.packed : uint64_t(at);
    if (place >= b.reserved) fail("%s: tile %llu of buffer %u, %llu are reserved", what, (unsigned long long)place, cb, (unsigned long long)b.reserved);
    Tile& t = b.tiles[(b.pushed + place) % b.capacity];
    for (int r = 0; r < kTile; ++r)
        for (int c = 0; c < kTile; ++c) {
            const bool kept = dst.mask == Mask::None || (dst.mask == Mask::Row && c == 0) || (dst.mask == Mask::Column && r == 0) || (r == 0 && c == 0);
            t(r, c) = kept ? value(r, c) : 0.0f;
        }
    if (on_device) {
        pack_format(t, b.format);
    } else {
        for (float& v : t.at) v = b.format == Format::Float16_b ? round_to(v, b.format) : v;
        share_exponents(t, b.format);
    }
    b.poisoned[(b.pushed + place) % b.capacity] = 0;
    if (at < 0) ++b.packed;
}

// -- data movement ---------------------------------------------------------------------------------------
struct Tensor {
    std::vector<Tile> tiles;
    bool written = false;
};
inline std::vector<Tensor> tensors;
inline thread_local std::vector<uint32_t> common_args;

inline uint8_t core_x = 0, core_y = 0;  // of the core that runs this

// A circular buffer in the shard of a tensor: what it holds is there from the start, and stays in the tensor.
inline void back_by_tensor(uint32_t cb, size_t tensor) {
    auto& b = core.buffers[cb];
    b.tiles = tensors[tensor].tiles;
    b.poisoned.assign(b.tiles.size(), 0);
}
inline void keep_in_tensor(uint32_t cb, size_t tensor) { tensors[tensor].tiles = core.buffers[cb].tiles; }

constexpr uint32_t kSpan = 1u << 26;  // addresses of one circular buffer
inline uint32_t write_pointer(uint32_t cb) { auto& b = buffer("get_write_ptr", cb); return cb * kSpan + uint32_t(b.pushed % b.capacity) * b.tile_bytes; }
inline uint32_t read_pointer(uint32_t cb) { auto& b = buffer("get_read_ptr", cb); return cb * kSpan + uint32_t(b.popped % b.capacity) * b.tile_bytes; }

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
    std::unique_lock held(core.lock);
    const uint64_t offset = (t.place + b.capacity - b.pushed % b.capacity) % b.capacity;
    if (offset >= b.reserved) fail("noc_async_read_page: writes to buffer %u beyond what is reserved", t.cb);
    b.poisoned[t.place] = 1;
    reads.push_back(t);
}

inline void finish_reads() {
    std::unique_lock held(core.lock);
    for (const Transfer& t : reads) {
        core.buffers[t.cb].tiles[t.place] = tensors[t.tensor].tiles[t.tile];
        core.buffers[t.cb].poisoned[t.place] = 0;
    }
    reads.clear();
}

inline void start_write(uint32_t tensor, uint32_t tile, uint32_t address) {
    const Transfer t = transfer("noc_async_write_page", tensor, tile, address);
    auto& b = core.buffers[t.cb];
    std::unique_lock held(core.lock);
    const uint64_t offset = (t.place + b.capacity - b.popped % b.capacity) % b.capacity;
    if (offset >= b.waited) fail("noc_async_write_page: reads from buffer %u beyond what was waited for", t.cb);
    writes.push_back(t);
}

inline void finish_writes() {
    std::unique_lock held(core.lock);
    for (const Transfer& t : writes) tensors[t.tensor].tiles[t.tile] = core.buffers[t.cb].tiles[t.place];
    writes.clear();
}

inline void run_thread(const char* name, std::vector<uint32_t> args, void (*kernel)(), std::string* error) {
    thread_name = name;
    common_args = std::move(args);
    try {
        kernel();
        if (!reads.empty()) fail("ends before its reads have arrived");
        if (!writes.empty()) fail("ends before its writes have arrived");
    } catch (const Failure& failure) {
        std::unique_lock held(core.lock);
        *error = failure.message;
        core.dead = true;
    }
    std::unique_lock held(core.lock);
    --core.alive;
    if (core.alive > 0 && core.blocked == core.alive) core.dead = true;
    core.signal.notify_all();
}

inline std::string left_over() {
    if (dst.phase != Phase::Released) return "compute: ends within a section";
    for (int k = 0; k < kBuffers; ++k) {
        auto& b = core.buffers[k];
        const std::string name = "circular buffer " + std::to_string(k);
        if (b.bound && b.pushed != b.popped) return name + " is not drained: " + std::to_string(b.pushed - b.popped) + " tiles left";
        if (b.bound && b.reserved) return name + " is reserved and not pushed";
    }
    return "";
}

}  // namespace tensix
