"""Values on the way to a device and back, in the child process: loaded by its path, standard library, NumPy, ttnn.

Arrays travel as `.npz` files. Integers stay what they are, everything else is f32 outside of the device.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Message = dict[str, Any]
_INTEGERS = {"u32": np.uint32, "i32": np.int32, "u16": np.uint16, "u8": np.uint8}
_TILE = 32
_NARROW = ("bf16", "bfp8_b", "bfp4_b")


def read(path: str) -> dict[str, Any]:
    """The arrays of a file by name."""
    with np.load(path, allow_pickle=False) as arrays:
        return {key: arrays[key] for key in arrays.files}


def write(path: str, arrays: dict[str, Any]) -> None:
    np.savez(path, **arrays)


def values_of(board: Any, tensor: Any) -> Any:
    """The elements of a tensor as an array of its shape."""
    ttnn = board.ttnn
    if board.on_device(tensor):
        tensor = ttnn.from_device(tensor)
    if board.dtype_names[str(tensor.dtype)] in _NARROW:
        tensor = ttnn.to_dtype(tensor, ttnn.float32)
    if tensor.layout != ttnn.ROW_MAJOR_LAYOUT:
        tensor = ttnn.to_layout(tensor, ttnn.ROW_MAJOR_LAYOUT)
    return tensor.to_numpy()


def tensor_of(board: Any, record: Message, array: Any) -> Any:
    """A tensor with these elements as a record describes it (type, page layout, place, padding of its tiles)."""
    ttnn, dtype = board.ttnn, record["dtype"]
    whole = _INTEGERS.get(dtype)
    array = np.ascontiguousarray(array, dtype=whole or np.float32).reshape(record["shape"])
    padded = _padded(array, record.get("padding", ())) if record["layout"] == "tile" else array
    tensor = ttnn.Tensor(padded, board.dtypes[dtype] if whole else ttnn.float32)
    if record["layout"] == "tile":
        tensor = ttnn.to_layout(tensor, ttnn.TILE_LAYOUT)
    if padded is not array:
        tensor = ttnn.reshape(tensor, ttnn.Shape(array.shape), ttnn.Shape(padded.shape))
    if not whole and dtype != "f32":
        tensor = ttnn.to_dtype(tensor, board.dtypes[dtype])
    if record.get("host"):
        return tensor
    return ttnn.to_device(tensor, board.device, memory_config=board.memory_config(record))


def _padded(array: Any, padding: Any) -> Any:
    """The array in whole tiles, these numbers by turns in what is added; the array itself if nothing is to be added."""
    missing = [(0, 0)] * (array.ndim - 2) + [(0, -size % _TILE) for size in array.shape[-2:]]
    if not len(padding) or not any(after for _, after in missing):
        return array
    shape = [size + after for size, (_, after) in zip(array.shape, missing, strict=True)]
    padded = np.resize(np.asarray(padding, array.dtype), shape)
    padded[tuple(slice(0, size) for size in array.shape)] = array
    return padded


def evaluate(board: Any, request: Message) -> Message:
    """One call on operands with values: `operands` records, arrays `x0`, `x1`, ... of the file `path`.

    Writes the operands as the device holds them and the results `y0`, `y1`, ... to the file `into`.
    """
    arrays = read(request["path"])
    names: dict[str, Any] = {"ttnn": board.ttnn, "device": board.device}
    found: dict[str, Any] = {}
    try:
        for k, record in enumerate(request["inputs"]):
            names[f"x{k}"] = tensor_of(board, record, arrays[f"x{k}"])
            found[f"x{k}"] = values_of(board, names[f"x{k}"])
        results = board.tensors_in(eval(request["call"], names))
        for k, tensor in enumerate(results):
            found[f"y{k}"] = values_of(board, tensor)
        write(request["into"], found)
        return {"valid": True, "outputs": [board.record(tensor) for tensor in results]}
    finally:
        names.clear()
        board.free_everything()
