// Stand-in for what tt-metal writes for every kernel from its descriptor: circular buffers that all hold tiles of
// BUFFER_FORMAT, a DST of 32 bits if WIDE_DST.
#pragma once

#if defined(COMPILE_FOR_TRISC)
#include "llk_defs.h"
constexpr ckernel::MathFidelity MATH_FIDELITY = ckernel::MathFidelity::HiFi4;
constexpr bool APPROX = false;
constexpr bool DST_ACCUM_MODE = WIDE_DST;
#define DST_SYNC_MODE DstSync::SyncHalf
#endif

#define OF_EACH_BUFFER(x) \
    {x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x}
#define OF_BOTH_SIDES(type, name, x)                      \
    constexpr type unpack_##name[32] = OF_EACH_BUFFER(x); \
    constexpr type pack_##name[32] = OF_EACH_BUFFER(x)
OF_BOTH_SIDES(unsigned char, src_format, BUFFER_FORMAT);
OF_BOTH_SIDES(unsigned char, dst_format, BUFFER_FORMAT);
OF_BOTH_SIDES(unsigned char, tile_num_faces, 4);
OF_BOTH_SIDES(unsigned char, partial_face, 0);
OF_BOTH_SIDES(unsigned char, tile_face_r_dim, 16);
OF_BOTH_SIDES(unsigned char, narrow_tile, 0);
OF_BOTH_SIDES(unsigned char, tile_r_dim, 32);
OF_BOTH_SIDES(unsigned char, tile_c_dim, 32);
OF_BOTH_SIDES(unsigned char, num_faces_r_dim, 2);
OF_BOTH_SIDES(unsigned char, num_faces_c_dim, 2);
OF_BOTH_SIDES(unsigned short, tile_size, 2048);
