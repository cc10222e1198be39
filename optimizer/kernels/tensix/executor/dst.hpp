// The DST file of a core: its sections, the inits and element types of the units that fill and pack it.
#pragma once
#include "cores.hpp"
#include "device.hpp"

namespace tensix {

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

void expect(Phase phase, const char* what);

void tile_regs_acquire();
void tile_regs_commit();
void tile_regs_wait();
void tile_regs_release();

void reconfigure(const char* what, uint32_t a, uint32_t b);
void reconfigure_packer(const char* what, uint32_t cb);

void startup(const char* what, uint32_t a, uint32_t b, uint32_t out);

void unpacks(const char* what, uint32_t a, uint32_t b);

void keeps_format(const char* what, bool wide);

// Moves 16 bits per element to DST: where it has 32, to other rows than it should. Float32 is unpacked straight to DST.
void writes_sixteen_bits(const char* what, uint32_t cb);

uint32_t slot(const char* what, uint32_t index);

const Tile& read(const char* what, uint32_t index);

// Ideally rounded to what DST holds; values of a device's units are as they are.
void write(const char* what, uint32_t index, const Tile& value);

void write_vector(const char* what, uint32_t index, Tile value, bool nearest, bool signless);

// A tile in a source register of the FPU.
Tile for_source(Tile tile, uint32_t cb);

// A tile on its way to DST, through a source register or past it.
Tile for_dst(Tile tile, uint32_t cb);

// DST in a source register that is set to the other operand's element type.
Tile reused(Tile tile, uint32_t cb);

void for_the_fpu(const char* what, uint32_t cb);

void clear_slot(const char* what, uint32_t index);

void init(bool sfpu, const std::string& key);

void computes(const char* what, bool sfpu, const std::string& key);

void pack(const char* what, uint32_t index, uint32_t cb, int64_t at);

}  // namespace tensix
