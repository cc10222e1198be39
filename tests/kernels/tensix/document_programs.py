"""The frame around a compute thread's text as the design documents show it: tensors, buffers, reader, writer."""

from __future__ import annotations

from collections.abc import Mapping

Shape = tuple[int, int]


def around(body: str, inputs: Mapping[str, Shape], output: Shape, config: str = "") -> str:
    """A program whose compute thread has `%<name>_blk` of every input, `%o_blk` to store in, and then the body."""
    shapes = {**inputs, "o": output}
    tensors = ", ".join(f"%{n}_dram: tensor<{r}x{c}xbf16>" for n, (r, c) in shapes.items())
    buffers = [
        f"%{n}_cb = ttl.create_cb {{shape = [{r}, {c}], element_type = !ttcore.tile<32x32, bf16>, buffer_factor = 2}}"
        for n, (r, c) in shapes.items()
    ]
    waits = [f"%{n}_blk = ttl.cb_wait %{n}_cb" for n in inputs]
    pops = [f"ttl.cb_pop %{n}_blk" for n in inputs]
    lines = [
        f'ttl.program @document {{grid = [1, 1], memory_space = "L1", tiled = true{config}}} {{',
        f"^bb0({tensors}):",
        *buffers,
        "ttl.compute_thread @compute {",
        *waits,
        "%o_blk = ttl.cb_reserve %o_cb",
        body,
        *pops,
        "ttl.cb_push %o_blk",
        "}",
        'ttl.datamovement_thread @read {processor = "reader"} {',
        "%first = ttl.constant {value = 0}",
        *(line for n in inputs for line in _brought(n)),
        "}",
        'ttl.datamovement_thread @write {processor = "writer"} {',
        "%origin = ttl.constant {value = 0}",
        "%result_blk = ttl.cb_wait %o_cb",
        "%away = ttl.copy_out(%result_blk, %o_dram, %origin, %origin)",
        "ttl.transfer_wait %away",
        "ttl.cb_pop %result_blk",
        "}",
        "}",
    ]
    return "\n".join(lines)


def _brought(name: str) -> tuple[str, ...]:
    return (
        f"%{name}_room = ttl.cb_reserve %{name}_cb",
        f"%{name}_move = ttl.copy_in(%{name}_dram, %first, %first, %{name}_room)",
        f"ttl.transfer_wait %{name}_move",
        f"ttl.cb_push %{name}_room",
    )
