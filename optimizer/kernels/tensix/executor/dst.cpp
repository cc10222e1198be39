#include "dst.hpp"

namespace tensix {

void expect(Phase phase, const char* what) {
    static const char* names[] = {"release", "acquire", "commit", "wait"};
    if (dst.phase != phase) fail("%s after tile_regs_%s", what, names[int(dst.phase)]);
}

void tile_regs_acquire() {
    expect(Phase::Released, "tile_regs_acquire");
    if (!dst.started) fail("tile_regs_acquire before the common init");
    dst.phase = Phase::Acquired;
    dst.defined.assign(dst.capacity, 0);
    for (auto& t : dst.tiles) memset(t.at, 0, sizeof t.at);
    ++dst.sections;
}

void tile_regs_commit() { expect(Phase::Acquired, "tile_regs_commit"); dst.phase = Phase::Committed; }
void tile_regs_wait() { expect(Phase::Committed, "tile_regs_wait"); dst.phase = Phase::Waited; }
void tile_regs_release() { expect(Phase::Waited, "tile_regs_release"); dst.phase = Phase::Released; }

void reconfigure(const char* what, uint32_t a, uint32_t b) {
    dst.source_a = buffer(what, a).format;
    dst.source_b = buffer(what, b).format;
}

void reconfigure_packer(const char* what, uint32_t cb) { dst.packer = buffer(what, cb).format; }

void startup(const char* what, uint32_t a, uint32_t b, uint32_t out) {
    if (dst.phase != Phase::Released) fail("%s within a section", what);
    dst.started = true;
    reconfigure(what, a, b);
    reconfigure_packer(what, out);
}

void unpacks(const char* what, uint32_t a, uint32_t b) {
    for (auto [cb, set] : {std::pair{a, dst.source_a}, std::pair{b, dst.source_b}})
        if (buffer(what, cb).format != set)
            fail("%s: buffer %u holds %s, the unpacker is set to %s", what, cb, name_of(buffer(what, cb).format), name_of(set));
}

void keeps_format(const char* what, bool wide) {
    if (wide == dst.sixteen_bits) fail("%s: its data format is not that of DST", what);
}

void writes_sixteen_bits(const char* what, uint32_t cb) {
    if (!dst.sixteen_bits && buffer(what, cb).format != Format::Float32)
        fail("%s: buffer %u holds %s, of which it writes 16 bits to a DST of 32 bits", what, cb, name_of(buffer(what, cb).format));
}

uint32_t slot(const char* what, uint32_t index) {
    if (index >= uint32_t(dst.capacity)) fail("%s: slot %u of %d", what, index, dst.capacity);
    if (int(index) + 1 > dst.most) dst.most = index + 1;
    return index;
}

const Tile& read(const char* what, uint32_t index) {
    if (!dst.defined[slot(what, index)]) fail("%s reads slot %u, which holds nothing", what, index);
    return dst.tiles[index];
}

void write(const char* what, uint32_t index, const Tile& value) {
    Tile& t = dst.tiles[slot(what, index)];
    const Format format = dst.sixteen_bits && !on_device ? Format::Float16_b : Format::Float32;
    for (int k = 0; k < kElements; ++k) t.at[k] = round_to(value.at[k], format);
    dst.defined[index] = 1;
}

void write_vector(const char* what, uint32_t index, Tile value, bool nearest, bool signless) {
    if (on_device)
        for (float& v : value.at) v = stored(signless ? no_denormal(v) : v, nearest);
    write(what, index, value);
}

Tile for_source(Tile tile, uint32_t cb) {
    if (on_device)
        for (float& v : tile.at) v = in_source(v, core.buffers[cb].format);
    return tile;
}

Tile for_dst(Tile tile, uint32_t cb) {
    const auto& b = core.buffers[cb];
    if (on_device && !b.straight && wide_dst) return for_source(tile, cb);
    if (on_device && !b.straight && b.format == Format::Float32)
        for (float& v : tile.at) v = kept(v, 16);
    return tile;
}

Tile reused(Tile tile, uint32_t cb) {
    if (on_device)
        for (float& v : tile.at) v = no_denormal(kept(v, source_bits(core.buffers[cb].format)));
    return tile;
}

void for_the_fpu(const char* what, uint32_t cb) {
    if (buffer(what, cb).straight) fail("%s: buffer %u is unpacked to DST past the FPU", what, cb);
}

void clear_slot(const char* what, uint32_t index) {
    if (dst.defined[slot(what, index)]) fail("%s adds to slot %u, which is not clear", what, index);
}

void init(bool sfpu, const std::string& key) {
    if (!dst.started) fail("%s before the common init", key.c_str());
    (sfpu ? dst.sfpu : dst.fpu) = key;
    ++dst.inits;
}

void computes(const char* what, bool sfpu, const std::string& key) {
    expect(Phase::Acquired, what);
    const std::string& last = sfpu ? dst.sfpu : dst.fpu;
    if (last != key) fail("%s needs %s, the last init was %s", what, key.c_str(), last.empty() ? "none" : last.c_str());
}

void pack(const char* what, uint32_t index, uint32_t cb, int64_t at) {
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

}  // namespace tensix
