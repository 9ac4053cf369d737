"""Parameters: constants that come from .safetensors, .npz and .npy files or from arrays."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import programs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pydispatch as pd
from pydispatch.formats.arrays.parameters import ParameterFile
from pydispatch.formats.artifact.artifact import Artifact
from pydispatch.formats.program.program import NONE, FunctionArgument, Numerical, Program, Result, dtype_word

W = np.arange(6, dtype=np.float32).reshape(2, 3)
B = np.array([10, 20, 30], dtype=np.int32)


def safetensors(arrays: dict[str, Any], pad: int = 0) -> bytes:
    names = {"float32": "F32", "int32": "I32", "bfloat16": "BF16", "uint8": "U8", "bool": "BOOL"}
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    at, body = 0, b""
    for key, array in arrays.items():
        end = at + array.nbytes
        header[key] = {"dtype": names[array.dtype.name], "shape": list(array.shape), "data_offsets": [at, end]}
        at = end
        body += array.tobytes()
    text = json.dumps(header).encode() + b" " * pad
    return struct.pack("<Q", len(text)) + text + body


def returns(program: Program, name: str, scope: str, key: str, dtype: int, shape: tuple[int, ...]) -> None:
    """A function that returns a parameter."""
    f = program.add_function(name)
    constant = program.add_parameter(scope, key, dtype, shape)
    dims = tuple(f.constant(size) for size in shape)
    size = f.constant(program.constants[constant].length)
    f.results.append(Result(dtype, dims, buffer=f.add_result_buffer(0, size)))
    f.copy(f.add_constant_buffer(constant), NONE, 0, NONE, size)


def artifact() -> Artifact:
    program = Program()
    returns(program, "w", "model", "layer.weight", programs.F32, (2, 3))
    returns(program, "b", "model", "layer.bias", programs.I32, (3,))
    returns(program, "h", "", "half", dtype_word(Numerical.BFLOAT, 16), (4,))
    return Artifact.build([(n, "()") for n in ("w", "b", "h")], program.encode())


HALF = np.array([1, 2, 3, -4], dtype=ml_dtypes.bfloat16)


@pytest.mark.parametrize("kind", ["safetensors", "npz", "arrays"])
def test_each_source(tmp_path: Path, kind: str) -> None:
    sources: dict[str, Any] = {"": {"half": HALF}}
    if kind == "safetensors":
        (tmp_path / "m.safetensors").write_bytes(safetensors({"x": B, "layer.weight": W, "layer.bias": B}))
        sources = {"model": tmp_path / "m.safetensors", "": tmp_path / "h.safetensors"}
        (tmp_path / "h.safetensors").write_bytes(safetensors({"half": HALF}))
    elif kind == "npz":
        np.savez(tmp_path / "m.npz", **{"layer.weight": W, "layer.bias": B})
        np.save(tmp_path / "half.npy", HALF)
        sources = {"model": str(tmp_path / "m.npz"), "": tmp_path / "half.npy"}
    else:
        sources["model"] = [{"layer.bias": B}, {"layer.weight": W, "layer.bias": B * 0}]
    made = artifact()
    assert [p["key"] for p in made.parameters] == ["layer.weight", "layer.bias", "half"]
    program = pd.device("local-sync").load(made, parameters=sources)
    assert np.array_equal(program.w(), W) and np.array_equal(program.b(), B) and np.array_equal(program.h(), HALF)
    assert [p.copied for p in program.parameters] == [False] * 3
    assert program.parameters[0].type == "2x3xf32"


def test_what_does_not_fit(tmp_path: Path) -> None:
    load, half = pd.device("local-sync").load, {"half": HALF}
    good = {"layer.weight": W, "layer.bias": B}
    np.savez_compressed(tmp_path / "c.npz", **good)
    np.save(tmp_path / "f.npy", np.asfortranarray(W))
    np.save(tmp_path / "o.npy", W.astype(">f4"))
    (tmp_path / "text.bin").write_text("no")
    cases: list[tuple[Any, str]] = [
        (None, "of scope 'model' \\('layer.weight', 'layer.bias'\\); supply .*--parameters=model=FILE"),
        ({"modle": good, "": half}, "did you mean 'model' by 'modle'"),
        ({"model": good}, "scope '' \\('half'\\).*--parameters=FILE"),
        ({"model": {"layer.wieght": W, "layer.bias": B}, "": half},
         "'layer.weight' of scope 'model' \\(2x3xf32\\) is not in 'arrays' of 2 arrays; nearest: 'layer.wieght'"),
        ({"model": {**good, "layer.weight": W.T}, "": half}, "not contiguous"),
        ({"model": {**good, "layer.weight": W.T.copy()}, "": half}, "in 'arrays': expected 2x3xf32, got 3x2xf32"),
        ({"model": {**good, "layer.weight": W.astype(np.float64)}, "": half}, "expected 2x3xf32, got 2x3xf64"),
        ({"model": {**good, "layer.weight": W.view(np.int32)}, "": half}, "expected 2x3xf32, got 2x3xsi32"),
        ({"model": tmp_path / "c.npz", "": half}, "compressed and cannot be mapped; write the file with numpy.savez"),
        ({"model": tmp_path / "f.npy", "": half}, "Fortran order; write np.ascontiguousarray"),
        ({"model": tmp_path / "o.npy", "": half}, "big-endian"),
        ({"model": tmp_path / "text.bin", "": half}, "expected a .safetensors, .npz or .npy file"),
        ({"model": 3}, "got int"),
        ([1], "expected a mapping from scopes"),
        ({"model": good, "": half, "other": {}}, "'other': the program has parameters of 'model' and '' only"),
    ]  # fmt: skip
    for parameters, message in cases:
        with pytest.raises(pd.InvalidArgumentError, match=message):
            load(artifact(), parameters=parameters)
    embedded = pd.compile("func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }")
    with pytest.raises(pd.InvalidArgumentError, match="'model': the program has no parameters; leave it out, or"):
        load(embedded, parameters={"model": good})
    with pytest.raises(OSError, match=r"gone\.npz"):
        load(artifact(), parameters={"model": tmp_path / "gone.npz"})


def test_what_is_not_aligned_is_copied_only_for_kernels_that_need_it(tmp_path: Path) -> None:
    a = np.arange(100, dtype=np.float32)
    for alignment in (4, 64):
        for pad in range(5):
            path = tmp_path / f"{pad}.safetensors"
            path.write_bytes(safetensors({"w": a}, pad))
            builder = programs.Builder()
            f = builder.function("f")
            x = f.add_argument(FunctionArgument(programs.F32, (100,), "x"))
            constant = builder.program.add_parameter("", "w", programs.F32, (100,))
            n = f.constant(100)
            out = programs.finish_vector(f, n)
            builder.run(f, "mul", n, [f.arguments[x].buffer, f.add_constant_buffer(constant), out])
            program = pd.device("local-sync").load(builder.artifact(alignment=alignment), parameters={"": path})
            begin = path.stat().st_size - a.nbytes
            assert program.parameters[0].copied == (begin % alignment != 0)
            assert np.array_equal(program.f(a), a * a)


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_hostile_files_are_refused_or_read(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    folder = tmp_path_factory.getbasetemp()
    suffix = data.draw(st.sampled_from([".safetensors", ".npz", ".npy"]))
    path = folder / f"hostile{suffix}"
    if suffix == ".safetensors":
        path.write_bytes(safetensors({"w": W, "b": B}))
    elif suffix == ".npz":
        np.savez(path, w=W, b=B)
    else:
        np.save(path, W)
    good = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(good) - 1))
        good[at] = data.draw(st.sampled_from([0, 1, 0x22, 0x30, 0x39, 0x2D, 0x5B, 0x7F, 0xFF]))
    path.write_bytes(good[: data.draw(st.integers(0, len(good)))] if data.draw(st.booleans()) else good)
    try:
        for tensor in ParameterFile(path).values():
            assert tensor.data.nbytes == -(-int(np.prod(tensor.shape, dtype=object)) * tensor.bits // 8)
            bytes(tensor.data)
    except pd.InvalidArgumentError as error:
        assert path.name in str(error)


def test_headers_that_lie(tmp_path: Path) -> None:
    def refused(text: bytes, message: str, length: int | None = None) -> None:
        path = tmp_path / "x.safetensors"
        path.write_bytes(struct.pack("<Q", len(text) if length is None else length) + text + bytes(24))
        with pytest.raises(pd.InvalidArgumentError, match=message):
            ParameterFile(path)

    refused(b"{}", "a header of 99999 bytes does not fit", 99999)
    refused(b"{}", "does not fit", 2**64 - 1)
    refused(b"[]", "no JSON object")
    refused(b"{", "no JSON")
    refused(b"[" * 100000, "no JSON")
    refused(b'{"w": 1}', "'w': expected an object")
    refused(
        b'{"w": {"dtype": "F32", "shape": [6], "data_offsets": [0, 28]}}', "takes 24 bytes; its offsets are 0 to 28"
    )
    refused(b'{"w": {"dtype": "F32", "shape": [7], "data_offsets": [0, 28]}}', "0 to 28 of 24")
    refused(b'{"w": {"dtype": "F32", "shape": [-1], "data_offsets": [8, 4]}}', "expected sizes and two offsets")
    refused(b'{"w": {"dtype": "F33", "shape": [1], "data_offsets": [0, 4]}}', "unknown dtype 'F33'")
    one = b'{"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}'
    refused(b'{"w": ' + one + b', "w": ' + one.replace(b"U8", b"I8") + b"}", "its header has 'w' twice")
    refused(b'{"w": ' + one.replace(b"}", b', "x": 1, "x": 1}') + b"}", "its header has 'x' twice")
    other = one.replace(b"[0, 4]", b"[3, 7]")
    refused(b'{"w": ' + one + b', "v": ' + other + b"}", "the bytes of 'v' begin at 3, inside those of 'w'")
    refused(('{"w": ' + one.decode() + "}").encode("utf-16"), "no JSON: 'utf-8' codec")
    refused(rb'{"\ud800": {"dtype": "F33"}}', r"'\\ud800': unknown dtype")  # can be printed
    refused(
        b'{"w": {"dtype": "U8", "shape": [' + b"4611686018427387904, " * 60 + b'1], "data_offsets": [0, 4]}}', "2\\^63"
    )


def test_a_parameter_is_not_copied(tmp_path: Path) -> None:
    """Loading 256 MiB of parameters that nobody reads adds nothing to the memory that the process has."""
    path = tmp_path / "big.npy"
    shape = (64 << 20,)
    np.lib.format.open_memmap(path, "w+", np.float32, shape).flush()
    program = Program()
    f = program.add_function("first")
    constant = program.add_parameter("", "big", programs.F32, shape)
    f.results.append(Result(programs.F32, (f.constant(1),), buffer=f.add_result_buffer(0, f.constant(4))))
    f.copy(f.add_constant_buffer(constant), NONE, 0, NONE, f.constant(4))
    made = Artifact.build([("first", "()")], program.encode())

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

    before = resident()
    loaded = pd.device("local-sync").load(made, parameters={"": path})
    assert loaded.first().tolist() == [0.0]
    assert resident() - before < 16 << 20


def test_headers_of_npy_that_lie(tmp_path: Path) -> None:
    def refused(header: bytes, message: str) -> None:
        path = tmp_path / "x.npy"
        path.write_bytes(b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + bytes(24))
        with pytest.raises(pd.InvalidArgumentError, match=message):
            ParameterFile(path)

    refused(b"{[]: 1}", "its header cannot be read")
    refused(b"{{1}: 2}", "its header cannot be read")
    refused(b"(" * 60000, "its header cannot be read")
    shape = "{'descr': '<f4', 'fortran_order': False, 'shape': (%s,)}"
    refused((shape % ("0x" + "f" * 60000)).encode(), "its shape is of numbers of thousands of digits")
    refused((shape % "4").replace("<f4", "<f0").encode(), "elements of type '<f0'")


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    import os
    import signal

    os.mkfifo(tmp_path / "x.npy")
    signal.alarm(30)
    try:
        with pytest.raises(pd.Error, match=r"x\.npy': it is a pipe, which cannot be mapped"):
            ParameterFile(tmp_path / "x.npy")
    finally:
        signal.alarm(0)
