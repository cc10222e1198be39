// Stand-in for the header of tt-metal's compiler that records and replays Tensix instructions.
#pragma once
#include <cstdint>

namespace lltt {
enum ExecBool : bool { NoExec, Exec };
template <ExecBool = NoExec>
inline void record(unsigned, unsigned) {}
inline void replay(unsigned, unsigned) {}
constexpr std::uint32_t replay_insn(unsigned, unsigned) { return 0; }
}  // namespace lltt
