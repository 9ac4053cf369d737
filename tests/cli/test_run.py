"""`pydispatch run`: IREE's grammar and printing. The expected texts are what iree-run-module 3.13 prints."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pydispatch.cli import __main__ as cli
from pydispatch.cli import results
from pydispatch.cli.values import Reader, parse_type
from pydispatch.formats.artifact.artifact import Artifact
from pydispatch.formats.program.program import NONE, FunctionArgument, Numerical, Opcode, Program, Result, dtype_word

F32 = dtype_word(Numerical.FLOAT, 32)
I32 = dtype_word(Numerical.INTEGER, 32)
TYPES = {
    "f32": F32,
    "i32": I32,
    "i8": dtype_word(Numerical.INTEGER, 8),
    "ui8": dtype_word(Numerical.UNSIGNED, 8),
    "f16": dtype_word(Numerical.FLOAT, 16),
    "f64": dtype_word(Numerical.FLOAT, 64),
    "i1": dtype_word(Numerical.BOOLEAN, 8),
    "cf64": dtype_word(Numerical.COMPLEX, 64),
}


def identity(program: Program, name: str, arguments: list[tuple[int, int | None]]) -> None:
    """Returns its arguments. arguments: (dtype, rank or None for a number)."""
    f = program.add_function(name)
    for i, (dtype, rank) in enumerate(arguments):
        f.add_argument(FunctionArgument(dtype, None if rank is None else (-1,) * rank, f"a{i}"))
    for i, (dtype, rank) in enumerate(arguments):
        if rank is None:
            f.results.append(Result(dtype, None, register=f.emit(Opcode.SCALAR, i)))
            continue
        dims = tuple(f.emit(Opcode.DIM, i, axis) for axis in range(rank))
        size = f.multiply([*dims, f.constant((dtype & 0xFFFFFF) // 8)])
        result = f.add_result_buffer(len(f.results), size)
        f.results.append(Result(dtype, dims, buffer=result))
        f.copy(f.arguments[i].buffer, NONE, result, NONE, size)


@pytest.fixture(scope="module")
def pdx(tmp_path_factory: pytest.TempPathFactory) -> str:
    program = Program()
    for name, dtype in TYPES.items():
        for rank in range(4):
            identity(program, f"{name}_{rank}", [(dtype, rank)])
    identity(program, "mix", [(F32, 1), (I32, None)])
    identity(program, "numbers", [(I32, None), (F32, None)])
    identity(program, "truth", [(TYPES["i1"], None)])
    path = tmp_path_factory.mktemp("run") / "identity.pdx"
    Artifact.build([(f.name, "()") for f in program.functions], program.encode()).save(path)
    return str(path)


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(pdx: str, capsys: pytest.CaptureFixture[str]) -> Run:
    def call(function: str, *options: str) -> tuple[int, str, str]:
        code = cli.main(["run", pdx, "--device=local-sync", f"--function={function}", *options])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.mark.parametrize(
    ("function", "text", "printed", "options"),
    [
        ("f32_0", "f32=3.5", "f32=3.5", []),
        ("f32_0", "3", "f32=3", []),
        ("i8_0", "-5", "i8=-5", []),
        ("f32_1", "3xf32=1 2.5e-7 inf", "3xf32=1 2.5E-07 INF", []),
        ("f32_1", "3xf32=-inf nan -nan", "3xf32=-INF NAN -NAN", []),
        ("f32_1", "0xf32", "0xf32=", []),
        ("f32_1", '"3xf32=[1, 2 3]]"', "3xf32=1 2 3", []),
        ("f32_1", "4xf32", "4xf32=0 0 0 0", []),
        ("f32_2", "0x3xf32", "0x3xf32=", []),
        ("f32_2", "3x0xf32", "3x0xf32=[][][]", []),
        ("f32_2", "2x3xf32=[1 2 3][4 5 1e20]", "2x3xf32=[1 2 3][4 5 1E+20]", []),
        ("f32_2", "2x3xf32=[1 2 3][4 5 1e20]", "2x3xf32=[1 2 3][4...]", ["4"]),
        ("f32_2", "2x3xf32=[1 2 3][4 5 1e20]", "2x3xf32=[1 2 3][...]", ["3"]),
        ("f32_2", "2x3xf32=2", "2x3xf32=[...][...]", ["0"]),
        ("f32_1", "5xf32=2", "5xf32=2 2 2...", ["3"]),
        ("f32_1", "5xf32=2", "5xf32=2...", ["1"]),
        ("i32_3", "2x2x2xi32=1 2 3 4 5 6 7 8", "2x2x2xi32=[[1 2][3 4]][[5 6][7 8]]", []),
        ("i32_3", "2x2x2xi32=1 2 3 4 5 6 7 8", "2x2x2xi32=[[1 2][3 4]][[5...][...]]", ["5"]),
        ("i1_1", "4xi1=01,00,01,00", "4xi1=01 00 01 00", []),
        ("i1_1", "4xi1=01", "4xi1=01 01 01 01", []),
        ("f16_1", "3xf16=1.5 70000 0.1", "3xf16=1.5 INF 0.0999756", []),
        ("i8_1", "3xi8=-1 0x7f 200", "3xi8=-1 127 -56", []),
        ("ui8_1", "3xui8=255 1 2", "3xui8=255 1 2", []),
        ("ui8_2", "2x2xx8=01 02 03 FF", "2x2xui8=[1 2][3 255]", []),
        ("f64_1", "2xf64=3.14159265358979 1e300", "2xf64=3.14159 1E+300", []),
        ("cf64_1", "2xcf64=0000803f00000040,0000803f00000040", "2xcf64=0000803F00000040 0000803F00000040", []),
    ],
)
def test_prints_as_the_peer(run: Run, function: str, text: str, printed: str, options: list[str]) -> None:
    extra = [f"--output_max_element_count={n}" for n in options]
    code, out, err = run(function, f"--input={text}", *extra)
    assert (code, out, err) == (0, f"EXEC @{function}\nresult[0]: hal.buffer_view\n{printed}\n", "")


def test_numbers_and_several_results(run: Run) -> None:
    assert run("numbers", "--input=3", "--input=1e-10")[1] == "EXEC @numbers\nresult[0]: i32=3\nresult[1]: f32=1e-10\n"
    assert run("numbers", "--input=(null)", "--input=2.5")[1].endswith("result[0]: i32=0\nresult[1]: f32=2.5\n")
    out = run("mix", "--input=2xf32=1 2", "--input=0x10")[1]
    assert out == "EXEC @mix\nresult[0]: hal.buffer_view\n2xf32=1 2\nresult[1]: i32=16\n"
    out = run("mix", "--input=2xf32=1 2", "--input=7", "--output=-", "--output=-")[1]
    assert out == "EXEC @mix\nhal.buffer_view\n2xf32=1 2\ni32=7\n"


def test_files(run: Run, tmp_path: Path) -> None:
    a, b = np.arange(3, dtype=np.float32), np.arange(4, dtype=np.float32)
    with (tmp_path / "in.npy").open("wb") as stream:
        np.save(stream, a)
        np.save(stream, b)
    (tmp_path / "raw.bin").write_bytes(a.tobytes())
    for text, want in [(f"@{tmp_path}/in.npy", "3xf32=0 1 2"), (f"3xf32=@{tmp_path}/raw.bin", "3xf32=0 1 2")]:
        assert run("f32_1", f"--input={text}")[1].endswith(want + "\n")
    out = tmp_path / "out.npy"
    assert run("mix", "--input=2xf32=1 2", "--input=7", f"--output=@{out}", f"--output=+{out}")[:2] == (
        0,
        "EXEC @mix\n",
    )
    with out.open("rb") as stream:
        first, second = np.load(stream), np.load(stream)
    np.testing.assert_array_equal(first, np.array([1, 2], np.float32))
    assert second.shape == () and second == 7 and second.dtype == np.int32
    raw = tmp_path / "out.bin"
    run("mix", f"--input=@{out}", f"--input={7}", f"--output=@{raw}", "--output=")
    assert raw.read_bytes() == first.tobytes()


def test_expected_output(run: Run) -> None:
    given = "--input=3xf32=1 2 3"
    good = "[SUCCESS] all function outputs matched their expected values.\n"
    assert run("f32_1", given, "--expected_output=3xf32=1 2 3")[:2] == (0, "EXEC @f32_1\n" + good)
    assert run("f32_1", given, "--expected_output=(ignored)")[0] == 0
    assert run("f32_1", given, "--expected_output=3xf32=1 2.00005 3")[0] == 0
    assert run("f32_1", given, "--expected_output=3xf32=1 2.00005 3", "--equality_mode=exact")[0] == 1
    assert run("f32_1", "--input=1xf32=nan", "--expected_output=1xf32=nan")[0] == 0
    code, out, _ = run("f32_1", given, "--expected_output=3xf32=1 5 4")
    assert code == 1 and out == (
        "EXEC @f32_1\n[FAILED] result[0]: element at index 1 (2) does not match the expected (5)\n"
        "  expected:\n3xf32=1 5 4\n  actual:\n3xf32=1 2 3\n"
    )
    code, out, _ = run("f32_1", given, "--expected_output=2xf32=1 5")
    assert code == 1 and "metadata is 3xf32; expected that the view matches 2xf32" in out
    mix = ["--input=2xf32=1 2", "--input=7", "--expected_output=2xf32=1 2"]
    assert run("mix", *mix, "--expected_output=7")[0] == 0
    code, out, _ = run("mix", *mix, "--expected_output=8")
    assert code == 1 and "result[1]: value (7) does not match the expected (8)" in out
    code, out, _ = run("mix", *mix)
    assert code == 1 and "expected 1 results but 2 were returned" in out


@pytest.mark.parametrize(
    ("function", "text", "expected", "message"),
    [
        ("truth", "1", "1", ""),
        ("truth", "0", "0", ""),
        ("truth", "1", "0", "value (1) does not match the expected (0)"),
        ("truth", "1", "2", "value (1) does not match the expected (2)"),
        ("mix", "16777216", "16777217", "value (16777216) does not match the expected (16777217)"),
        ("mix", "7", "1" + 400 * "0", "value (7) does not match the expected (1000"),
        ("mix", "7", "1xi32=7", "value is i32=7; expected a tensor"),
    ],
)
def test_expected_numbers(run: Run, function: str, text: str, expected: str, message: str) -> None:
    rest = ["--input=2xf32=1 2", "--expected_output=(ignored)"] if function == "mix" else []
    code, out, err = run(function, *rest, f"--input={text}", f"--expected_output={expected}")
    assert (code, err) == (1 if message else 0, "") and (f": {message}" in out or not message)


@pytest.mark.parametrize(
    ("function", "options", "message"),
    [
        ("i1_1", ["--input=4xi1=1"], "'1': expected 2 hexadecimal digits per element"),
        ("i1_1", ["--input=4xi1=01000100"], "expected 2 hexadecimal digits"),
        ("i8_0", ["--input=300"], "argument 0 'a0': expected i8 (a number, or a np.int8 array of rank 0), got int 300"),
        ("i32_0", ["--input=1.5"], "input '1.5': expected a number for i32"),
        ("f32_1", ["--input=3xf32=1 2 3 4"], "expected 3 values, one, or none, got 4"),
        ("f32_1", ["--input=3xf32=1 2"], "got 2"),
        ("f32_1", ["--input=3xf32=1 zz 2"], "input '3xf32=1 zz 2': could not convert string to float: 'zz'"),
        ("f32_1", [], "@f32_1: expected 1 argument, got 0: f32_1(a0: ?xf32)"),
        ("f32_1", ["--input=3xf32", "--input=4xf32"], "expected 1 argument, got 2"),
        ("nope", [], "no function 'nope'"),
        ("f32_1", ["--input=3xq32=1"], "unknown element type 'q32'"),
        ("f32_1", ["--input=3xf99999999999=1"], "unknown element type 'f99999999999'"),
        ("ui8_1", ["--input=4x8=01"], "unknown element type '8'"),
        ("ui8_1", ["--input=8=01"], "unknown element type '8'"),
        ("ui8_1", ["--input=4xxx8=01"], "size 1: expected a number, got ''"),
        ("f32_1", ["--input=1615655350x1020xui64"], "Unable to allocate"),
        ("f32_1", ["--input=-1xf32=1"], "size 0: expected a number, got '-1'"),
        ("f32_1", ["--input=3"], "expected a shape and type such as 4x2xf32="),
        ("f32_1", ["--input=(null)"], "a tensor is needed here"),
        ("f32_1", ["--input=3xf64=1"], "got a float64 array"),
        ("i8_1", ["--input=1xi8=256"], "256 does not fit i8"),
        ("numbers", ["--input=f32=3", "--input=1"], "argument 0 'a0': expected i32 (a number), got"),
        ("numbers", ["--input=4294967296", "--input=1"], "4294967296 is outside [-2147483648, 4294967295]"),
        ("f32_1", ["--input=@/nowhere.npy"], "/nowhere.npy"),
        ("f32_1", ["--input=@/proc/self/mem"], "input '@/proc/self/mem': Input/output error"),
        ("f32_1", ["--input=3xf32=+/proc/self/mem"], "input '3xf32=+/proc/self/mem': Input/output error"),
        ("mix", ["--input=2xf32", "--input=7", "--output=-"], "--output: @mix has 2 results, got 1"),
        ("f32_1", ["--input=2xf32", "--output=x.txt"], "got 'x.txt'"),
    ],
)
def test_refused(run: Run, function: str, options: list[str], message: str) -> None:
    code, _, err = run(function, *options)
    assert code == 1 and err.startswith("pydispatch: error: ") and message in err


def test_unknown_options_of_a_cluster_have_no_hint(capsys: pytest.CaptureFixture[str]) -> None:
    """argparse of Python 3.12 passes -x of -vx as an unknown word; older ones report -vx themselves."""
    assert cli._quoting_hint(["inspect", "x.pdx", "-vx"], ["-x"]) == ""
    with pytest.raises(SystemExit) as caught:
        cli.main(["inspect", "x.pdx", "-vx"])
    assert caught.value.code == 2 and "error: " in capsys.readouterr().err


def test_a_value_without_quotes(pdx: str, capsys: pytest.CaptureFixture[str]) -> None:
    hint = '(a value with blanks needs quotes: --input="3xf32=1 2 ...")'
    for rest, hinted in (["2", "3"], True), (["--nope"], False):
        with pytest.raises(SystemExit) as caught:
            cli.main(["run", pdx, "--input=3xf32=1", *rest])
        err = capsys.readouterr().err
        assert caught.value.code == 2 and f"unrecognized arguments: {' '.join(rest)}" in err
        assert (hint in err) is hinted
    with pytest.raises(SystemExit):
        cli.main(["run", "--input=3xf32=1", "2", "3"])  # the first word is taken for the file
    assert hint in capsys.readouterr().err
    assert cli.main(["run", "--input=2xf32=1", "2", f"--module={pdx}"]) == 1
    assert f"got '2' and --module={pdx}; a value with blanks needs quotes" in capsys.readouterr().err


def test_which_file(pdx: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["run", f"--module={pdx}", "--function=f32_0", "--input=f32=1"]) == 0
    for argv, message in [
        (["run"], "expected one file"),
        (["run", pdx, f"--module={pdx}"], "expected one file"),
        (["run", pdx], "--function=NAME is needed, the program has 35"),
        (["run", "gone.pdx"], "gone.pdx"),
        (["run", pdx, "--device=abacus"], "no device 'abacus'"),
    ]:
        assert cli.main(argv) == 1
        assert message in capsys.readouterr().err
    broken = tmp_path / "broken.pdx"
    broken.write_bytes(Path(pdx).read_bytes()[:-7])
    assert cli.main(["run", str(broken)]) == 1
    assert "broken.pdx" in capsys.readouterr().err


def test_as_a_process(pdx: str) -> None:
    command = [sys.executable, "-m", "pydispatch.cli", "run", pdx, "--function=f32_0"]
    done = subprocess.run([*command, "--input=f32=2"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "EXEC @f32_0\nresult[0]: hal.buffer_view\nf32=2\n", "")
    done = subprocess.run([*command, "--input=zz"], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "Traceback" not in done.stderr and done.stderr.startswith("pydispatch: error:")
    done = subprocess.run(
        [*command, "--input=zz"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYDISPATCH_DEBUG": "1"},
    )
    assert done.returncode == 1 and "Traceback" in done.stderr


def test_inputs_by_name(run: Run) -> None:
    want = "EXEC @mix\nresult[0]: hal.buffer_view\n2xf32=1 2\nresult[1]: i32=7\n"
    for given in (["a1=7", "a0=2xf32=1 2"], ["2xf32=1 2", "a1=7"], ["a1=7", "2xf32=1 2"]):
        assert run("mix", *(f"--input={text}" for text in given))[1] == want
    for given, message in (
        (["a1=7", "a1=8"], "--input=a1=8: expected one value for 'a1'"),
        (["a1=7"], "@mix: missing argument 'a0': mix(a0: ?xf32, a1: i32)"),
        (["a2=7", "3"], "unknown element type 'a2'"),
        (["2xf32=1 2", "7", "a1=7"], "argument 1 'a1' is given twice"),
    ):
        code, _, err = run("mix", *(f"--input={text}" for text in given))
        assert code and message in err, err


def test_main_is_the_function_of_a_program_with_several(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = Program()
    for name in ("other", "main"):
        identity(program, name, [(I32, None)])
    Artifact.build([(f.name, "()") for f in program.functions], program.encode()).save(tmp_path / "p.pdx")
    assert cli.main(["run", str(tmp_path / "p.pdx"), "--input=a0=3"]) == 0
    assert capsys.readouterr().out == "EXEC @main\nresult[0]: i32=3\n"


@pytest.mark.parametrize(("text", "name"), [
    ("bf16", "2xbf16"), ("f8E5M2", "2xf8E5M2"), ("f4E2M1FN", "2xf4E2M1FN"), ("i4", "2xi4"), ("ui2", "2xui2"),
    ("cf64", "2xcf64"), ("i1", "2xi1"), ("ui8", "2xui8"), ("f16", "2xf16"),
])  # fmt: skip
def test_metadata_has_the_types_of_the_value_grammar(text: str, name: str) -> None:
    spec = parse_type(f"2x{text}")
    message = results.mismatch(Reader().tensor(f"2x{text}"), Reader().tensor("3xf32"), spec.kind, exact=False)
    assert message == f"metadata is {name}; expected that the view matches 3xf32"


@pytest.mark.parametrize(("name", "dtype", "close", "far"), [
    ("bf16", np.uint16, [0x3F80, 0x3F81, 0x8000], [0x3F80, 0x3F90, 0x0000]),  # 1, 1.0078 and -0; 1, 1.125 and 0
    ("f8E5M2", np.uint8, [0x3C, 0x3C, 0x80], [0x3C, 0x40, 0x00]),
])  # fmt: skip
def test_floats_are_compared_as_numbers_without_ml_dtypes(name: str, dtype: Any, close: Any, far: Any) -> None:
    """Floats that NumPy does not have are then integers with their bits."""
    kind: Any = SimpleNamespace(name=name, numerical=Numerical.BFLOAT, dtype=np.dtype(dtype), packed=False)
    expected = np.array([close[0], close[0], 0], dtype)
    assert results.mismatch(np.array(close, dtype), expected, kind, exact=False) is None
    message = results.mismatch(np.array(far, dtype), expected, kind, exact=False)
    assert message is not None and message.startswith("element at index 1 (")


@pytest.mark.parametrize(("text", "value"), [("010", 10), ("0x10", 16), ("-0x10", -16), ("-3", -3)])
def test_numbers_are_spelled_as_elements_of_tensors(text: str, value: int) -> None:
    assert Reader().read(text, parse_type("i32").kind) == [value]
    assert Reader().tensor(f"i32={text}") == value
