"""Names of the kernel API by tt-metal version. `tile_ops` spells them as 0.81; a profile says what differs.

0.81   ttnn 0.81.1, headers `ttnn/tt_metal/hw/inc/api/compute`
0.69   tt-metal 0.69 to 0.72, as tt-lang 1.1.1 emits it
"""

from __future__ import annotations

import csv
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files

from optimizer.kernels.tensix.tile_ops import NEAREST, Call, Form, Unit

_THREE = ("#0", "#1", "#2")


@dataclass(frozen=True)
class ApiProfile:
    """One version of the API."""

    name: str
    includes: tuple[str, ...]
    """Headers of every compute kernel, without the directory."""
    directory: str
    renamed: Mapping[str, str]
    pack_block: str
    startups: Mapping[str, Call]
    """Common init by kind of kernel: `matmul`, `fpu`, `sfpu`."""

    def headers(self, called: Collection[str]) -> tuple[str, ...]:
        """Headers of a compute kernel that calls these functions, in alphabetical order.

        Most SFPU functions are in a header each, which `sfpu_split_includes.h` leaves out unless it is asked for it.
        """
        found = {declared_in()[name] for name in called if name in declared_in()}
        if self.name != "0.81":
            kept = ("eltwise_unary/", "reconfig_data_format")
            found = {header for header in found if header.startswith(kept)}
        return tuple(f"{self.directory}/{header}" for header in sorted({*self.includes, *found}))

    def startup(self, kind: str, reversed_sources: bool) -> Call:
        """The common init of a kind of kernel, whose first op has its operands in source registers B and A or not."""
        found = self.startups[kind]
        turned = reversed_sources and found.function == "compute_kernel_hw_startup"
        return replace(found, template=("SrcOrder::Reverse",)) if turned else found

    def rename(self, call: Call, form: Form) -> Call:
        """A call of `tile_ops` in this version's spelling."""
        if NEAREST in call.template and self.name != "0.81":
            return replace(call, template=())
        if form.unit is Unit.REUSE and self.name != "0.81":
            return _dest_reuse(call)
        function = self.renamed.get(call.function, call.function)
        if call.function in ("unary_bcast_init", "transpose_init") and self.name != "0.81":
            return replace(call, function=function, args=("a_cb", "a_cb"))
        return replace(call, function=function)


@cache
def declared_in() -> dict[str, str]:
    """Function -> header below `api/compute` that declares it in 0.81; of the functions that kernels of ours call."""
    text = (files("optimizer.kernels.tensix.executor") / "kernel_api.tsv").read_text(encoding="utf-8")
    rows = csv.DictReader(text.splitlines(), delimiter="\t")
    return {row["name"]: row["header"].removeprefix("compute/") for row in rows}


def _dest_reuse(call: Call) -> Call:
    """`add_reuse_dest_tiles<R>(..)` was `binary_dest_reuse_tiles<ELWADD, R>(..)`."""
    kind = {"add": "ELWADD", "sub": "ELWSUB", "mul": "ELWMUL"}[call.function.split("_")[0]]
    suffix = "_init" if call.function.endswith("_init") else ""
    template = (f"EltwiseBinaryType::{kind}", *call.template)
    return Call(f"binary_dest_reuse_tiles{suffix}", call.args, template)


_RENAMED_0_69 = {
    "copy_init": "copy_tile_init",
    "add_init": "add_tiles_init",
    "sub_init": "sub_tiles_init",
    "mul_init": "mul_tiles_init",
    "matmul_init": "mm_init_short",
    "transpose_init": "transpose_wh_init",
    "transpose_tile": "transpose_wh_tile",
    **{
        f"{op}_bcast_{axis}_init": f"{op}_bcast_{axis}_init_short"
        for op in ("add", "sub", "mul")
        for axis in ("rows", "cols")
    },
    "add_bcast_scalar_init": "add_bcast_scalar_init_short",
    "sub_bcast_scalar_init": "sub_tiles_bcast_scalar_init_short",
    "mul_bcast_scalar_init": "mul_tiles_bcast_scalar_init_short",
}
_COMMON = (
    "eltwise_unary/eltwise_unary.h", "eltwise_unary/sfpu_split_includes.h", "eltwise_binary.h",
    "eltwise_binary_sfpu.h", "tile_move_copy.h", "bcast.h", "matmul.h", "reduce.h", "pack.h",
)  # fmt: skip
PROFILES: Mapping[str, ApiProfile] = {
    "0.81": ApiProfile(
        "0.81",
        ("cb_api.h", "reg_api.h"),
        "api/compute",
        {},
        "pack_block",
        {
            "matmul": Call("compute_kernel_hw_startup", _THREE),
            "fpu": Call("compute_kernel_hw_startup", _THREE),
            "sfpu": Call("init_sfpu", ("#0", "#2")),
        },
    ),
    "0.69": ApiProfile(
        "0.69",
        ("binary_max_min.h", "copy_dest_values.h", *_COMMON, "transpose_wh.h"),
        "compute_kernel_api",
        _RENAMED_0_69,
        "pack_tile_block",
        {
            "matmul": Call("mm_init", _THREE),
            "fpu": Call("binary_op_init_common", _THREE),
            "sfpu": Call("init_sfpu", ("#0", "#2")),
        },
    ),
}
"""By the name that `--api` takes."""
