"""`ttopt kernel` on files of strangers, and what its flags do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from optimizer.cli import main

CASES = Path("fixtures/kernels/tile_cases.json")


def case(name: str = "c", **changes: Any) -> dict[str, Any]:
    ops = [{"name": "v", "op": "exp", "args": ["a"]}, {"name": "w", "op": "abs", "args": ["v"]}]
    return {"id": name, "inputs": ["a"], "outputs": ["o"], "ops": ops, "yield": ["w"], **changes}


def written(tmp_path: Path, *cases: Any) -> Path:
    path = tmp_path / "cases.json"
    path.write_text(json.dumps({"cases": cases}), encoding="utf-8")
    return path


def sections(text: str) -> int:
    return text.count("tile_regs_acquire()")


def test_no_fuse_takes_every_block_through_l1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, case())
    assert main(["kernel", "print", str(path)]) == 0
    fused = capsys.readouterr().out
    assert main(["kernel", "print", str(path), "--no-fuse"]) == 0
    assert (sections(fused), sections(capsys.readouterr().out)) == (1, 2)


@pytest.mark.parametrize("flags", [[], ["--no-fuse"]])
def test_what_is_handed_on_finds_room_in_l1(
    flags: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """L1 is as large as the program says, whatever is fused."""
    ops = [{"name": f"e{k}", "op": "exp", "args": [f"e{k - 1}" if k else "a"]} for k in range(12)]
    ops += [
        {"name": f"m{k}", "op": "max", "args": [f"m{k + 1}" if k < 10 else "e11", f"e{k}"]} for k in range(10, -1, -1)
    ]
    path = written(tmp_path, case(ops=ops, **{"yield": ["m0"]}, block=[2, 2], dtype="f32", capacity=4))
    assert main(["kernel", "compile", str(path), *flags]) == 0
    assert json.loads(capsys.readouterr().out)["error"] is None


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["kernel", *arguments]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("command", ["compile", "print", "run"])
@pytest.mark.slow
def test_the_allocator_is_the_one_that_was_named(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both operands of `add` are loaded by the document's, none by the default."""
    ops = [{"name": "v", "op": "add", "args": ["a", "b"]}]
    path = str(written(tmp_path, case(inputs=["a", "b"], ops=ops, **{"yield": ["v"]})))
    default, seed = (printed(capsys, command, path, "--allocator", name) for name in ("default", "seed"))
    if command == "print":
        assert ("add_tiles(" in default, "add_binary_tile<" in seed) == (True, True)
    else:
        field = "loads" if command == "compile" else "max_dst"
        assert (json.loads(default)[field], json.loads(seed)[field]) == ((0, 2) if field == "loads" else (1, 3))


@pytest.mark.parametrize("command", ["compile", "run"])
def test_only_the_case_that_was_named(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(written(tmp_path, case("one"), case("two")))
    lines = printed(capsys, command, path, "--id", "two").splitlines()
    assert [json.loads(line)["id"] for line in lines] == ["two"]
    assert main(["kernel", command, path, "--id", "tow"]) == 2
    assert "unknown case 'tow', did you mean 'two'" in capsys.readouterr().err


def test_stages_are_printed_as_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(written(tmp_path, case()))

    def heads(*flags: str) -> list[str]:
        return [line[6:] for line in printed(capsys, "print", path, *flags).splitlines() if line.startswith("// -- ")]

    kernels = ["reader", "compute", "writer"]
    assert heads() == kernels
    assert heads("--print-after", "assign-dst", "--print-after", "fold-grid") == ["fold-grid", "assign-dst"]
    every = heads("--stages")
    assert (every[0], every[-4:]) == ("initial", ["block-products", *kernels])
    assert "fuse-computes" in every
    assert "fuse-computes" not in heads("--stages", "--no-fuse")
    assert main(["kernel", "print", path, "--print-after", "asign-dst"]) == 2
    assert "unknown pass 'asign-dst', did you mean 'assign-dst'" in capsys.readouterr().err


@pytest.mark.slow
def test_unrolled_cpp_has_no_loops(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(written(tmp_path, case(block=[2, 3])))
    looped, straight = (printed(capsys, "print", path, *flags) for flags in ([], ["--enable-unroll"]))
    assert (looped.count("abs_tile("), straight.count("abs_tile(")) == (1, 6)
    assert json.loads(printed(capsys, "run", path, "--enable-unroll"))["agrees"]


def test_the_schedule_is_the_one_that_was_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`abs` overwrites what `max` still reads, unless it comes last."""
    ops = [("p", "max", "a b"), ("v", "abs", "p"), ("w", "max", "p b")]
    nodes = [{"name": name, "op": op, "args": args.split()} for name, op, args in ops]
    made = case(inputs=["a", "b"], outputs=["o", "q"], ops=nodes, **{"yield": ["v", "w"]})
    path = str(written(tmp_path, made))
    copies = {
        name: json.loads(printed(capsys, "compile", path, "--schedule", name))["copies"]
        for name in ("search", "pressure", "critical-path", "given")
    }
    assert copies == {"search": 0, "pressure": 0, "critical-path": 0, "given": 1}


def test_lifetimes_are_drawn_for_either_allocator(capsys: pytest.CaptureFixture[str]) -> None:
    seed = printed(capsys, "print", str(CASES), "--id", "s_ex4_bin_unary", "--lifetimes", "--allocator", "seed")
    default = printed(capsys, "print", str(CASES), "--id", "s_ex4_bin_unary", "--lifetimes")
    assert "%in0  [1-3]" in seed
    assert "footprint 2, 3 slots" in seed
    assert "footprint 0, 1 slots" in default


def test_several_kernels_are_printed_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, "print", str(CASES), "--lifetimes").splitlines()
    names = [line.removeprefix("// == ") for line in lines if line.startswith("// == ")]
    assert names == [case["id"] for case in json.loads(CASES.read_text(encoding="utf-8"))["cases"]]


def test_a_block_beyond_its_tensor_is_no_kernel(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = Path("fixtures/kernels/add_2x2.ttl").read_text(encoding="utf-8")
    path = tmp_path / "beyond.ttl"
    path.write_text(text.replace("%12 = ttl.constant {value = 0}", "%12 = ttl.constant {value = 1}"), encoding="utf-8")
    assert main(["kernel", "compile", str(path)]) == 2
    assert "a block of 2x2 tiles at (1, 0) is beyond %0 (tensor<2x2xbf16>)" in capsys.readouterr().err


def test_the_seed_is_that_of_the_inputs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from optimizer.kernels.tensix.witness import whole_tensors

    drawn: list[float] = []
    inputs = whole_tensors.inputs_of

    def record(*arguments: Any) -> Any:
        found = inputs(*arguments)
        drawn.append(float(next(iter(found.values()))[0, 0]))
        return found

    monkeypatch.setattr(whole_tensors, "inputs_of", record)
    path = str(written(tmp_path, case()))
    for seed in ("0", "1", "1"):
        printed(capsys, "run", path, "--seed", seed)
    assert drawn[0] != drawn[1] == drawn[2]
    assert main(["kernel", "run", path, "--seed", "-1"]) == 2
    assert "--seed -1 is negative" in capsys.readouterr().err


def test_a_model_is_no_kernel(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"\x08\x07\xea")
    for command in ("compile", "print", "run"):
        assert main(["kernel", command, str(path)]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert "an ONNX model, which `ttopt optimize` reads" in line


def test_folders_stay_within_the_output_and_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ids = ["../up", "/etc/x", "a/b", "a_b", "A_B", "", "..", "con", "x\n\x1b[31m", "z" * 300]
    out = tmp_path / "in" / "out"
    assert main(["kernel", "compile", str(written(tmp_path, *map(case, ids))), "-o", str(out)]) == 0
    assert [json.loads(line)["id"] for line in capsys.readouterr().out.splitlines()] == ids
    folders = sorted(p.name.lower() for p in out.iterdir())
    assert len(set(folders)) == len(ids)
    assert all(name.isascii() and name.isprintable() for name in folders)
    assert [p.name for p in tmp_path.iterdir() if p.name != "cases.json"] == ["in"]
    assert sum(1 for _ in tmp_path.rglob("*.cpp")) == 3 * len(ids)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\xff", "no text"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"cases": 3}', "cases: a list is due, not 3"),
        (b"[3]", "cases[0]: an object is due, not 3"),
        (b'[{"inputs": [], "outputs": [1], "yield": []}]', "cases[0].outputs[0]: a string is due, not 1"),
        (b'[{"inputs": [], "outputs": ["a"], "yield": [], "block": NaN}]', "NaN is no JSON number"),
    ],
)
@pytest.mark.parametrize("command", ["compile", "print", "run"])
def test_documents_that_are_none_end_with_2(
    command: str, content: bytes, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "cases.json"
    path.write_bytes(content)
    assert main(["kernel", command, str(path)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert said in captured.err


def test_a_folder_is_no_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kernel", "compile", str(tmp_path)]) == 2
    assert "Is a directory" in capsys.readouterr().err


@pytest.mark.parametrize(
    "argument", ["x:f32:999999999999", "x:f32:9999x9999x9999", "x:FOLDER/liar.npy", "x:FOLDER/strings.npy"]
)
def test_arrays_have_a_limit(argument: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "strings.npy", np.array(["a"]))
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (999999999999,), }"
    padded = header.ljust(118 - 1) + b"\n"
    (tmp_path / "liar.npy").write_bytes(b"\x93NUMPY\x01\x00" + len(padded).to_bytes(2, "little") + padded)
    source = tmp_path / "k.kir"
    source.write_text(".argument x 8 pointer\ns_endpgm\n")
    given = argument.replace("FOLDER", str(tmp_path))
    assert main(["asm", "run", str(source), "--argument", given]) == 2
    assert "ttopt: error:" in capsys.readouterr().err


def test_grids_have_a_limit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "k.kir"
    source.write_text("s_endpgm\n")
    assert main(["asm", "run", str(source), "--grid", "999999999,99999"]) == 2
    assert "a grid of" in capsys.readouterr().err


# -- kernels in Python, boards ------------------------------------------------------------------------------------
PYTHON = """
from optimizer.kernels.tensix import ttl

@ttl.kernel(grid=(9, 1))
def copies(x=ttl.Tensor((1, 9)), y=ttl.Tensor((1, 9))):
    x_cb, y_cb = (ttl.make_circular_buffer_like(t, (1, 1)) for t in (x, y))

    @ttl.compute()
    def math():
        y_cb.reserve().store(x_cb.wait())
        x_cb.pop()
        y_cb.push()

    @ttl.datamovement()
    def read():
        ttl.copy(x[ttl.grid_slice(x, (1, 1))], x_cb.reserve()).wait()
        x_cb.push()

    @ttl.datamovement()
    def write():
        ttl.copy(y_cb.wait(), y[ttl.grid_slice(y, (1, 1))]).wait()
        y_cb.pop()

    return ttl.Program(math, read, write)(x, y)

again = copies(ttl.Tensor((2, 9)), ttl.Tensor((2, 9)))
"""


def python_file(tmp_path: Path, text: str = PYTHON) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(text, encoding="utf-8")
    return path


def test_kernels_in_python_are_compiled_printed_and_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = str(python_file(tmp_path)), tmp_path / "out"
    lines = printed(capsys, "compile", path, "--board", "p150", "-o", str(out)).splitlines()
    assert [json.loads(line)["id"] for line in lines] == ["copies", "again"]
    for name in ("copies", "again"):
        assert sorted(p.name for p in (out / name).iterdir()) == [
            "compute.cpp", "launch.py", "manifest.json", "program.ttl", "reader.cpp", "writer.cpp"
        ]  # fmt: skip
    assert printed(capsys, "print", path, "--id", "again").count("// -- reader") == 1
    record = json.loads(printed(capsys, "run", path, "--id", "copies", "--board", "p150"))
    assert (record["agrees"], record["elements"]) == (True, 9 * 1024)
    assert main(["kernel", "compile", path, "--id", "copy"]) == 2
    assert "unknown kernel 'copy', did you mean 'copies'" in capsys.readouterr().err


def test_what_goes_wrong_in_a_file_is_one_line_that_names_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = python_file(tmp_path, PYTHON + "\nagain.nothing()\n")
    for command in ("compile", "print", "run"):
        assert main(["kernel", command, str(path)]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith(f"ttopt: error: {path}:28: AttributeError: 'Op' object has no attribute 'nothing'")


def test_the_board_says_which_grid_there_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(python_file(tmp_path))
    assert main(["kernel", "compile", path]) == 2
    assert "a grid of 9 x 1 cores (columns, rows); 'n150' has 8 x 8" in capsys.readouterr().err
    assert main(["kernel", "compile", path, "--board", "n15"]) == 2
    assert "unknown board 'n15', did you mean 'n150'" in capsys.readouterr().err


def test_the_board_says_how_much_l1_there_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(written(tmp_path, case(block=[1, 175])))
    assert main(["kernel", "compile", path]) == 1
    assert "1,393,312 are free" in json.loads(capsys.readouterr().out)["error"]
    assert json.loads(printed(capsys, "compile", path, "--board", "p150"))["error"] is None


def test_fields_beside_the_cases_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "cases.json"
    path.write_text(json.dumps({"cases": [case()], "board": "p150"}), encoding="utf-8")
    assert main(["kernel", "compile", str(path)]) == 2
    assert 'unknown field "board" (one of: cases, format)' in capsys.readouterr().err
