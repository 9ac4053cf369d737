"""Every public callable with values of every wrong kind: an Error, a TypeError or a ValueError, and nothing else."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pydispatch as pd

TEXT = """func.func @f(%a: tensor<4xf32>, %n: i32) -> tensor<4xf32> {
  %b = arith.addf %a, %a : tensor<4xf32>
  return %b : tensor<4xf32>
}"""
OPTIONS = (
    "targets", "cpu", "cpu_features", "object_search_path", "dump", "transform_spec", "pdl_spec", "patterns",
    "require_match", "explain", "reassociate", "activation_bits", "weight_type", "precision", "progress",
)  # fmt: skip


@pytest.fixture(scope="module")
def wrong(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Any]]:
    folder = tmp_path_factory.mktemp("wrong")
    os.mkfifo(folder / "fifo")
    here = Path.cwd()
    os.chdir(folder)  # the name of a socket is short
    with socket.socket(socket.AF_UNIX) as made:
        made.bind("socket")
        array = np.ones(4, np.float32)
        yield [
            None, 3, -1, 2**70, 1.5, float("nan"), True, b"", b"abc", "", [], {}, (), object(), "a\0b", "\ud800",
            str(folder / "missing" / "x"), "/dev/full", "/dev/zero", str(folder / "fifo"), str(folder / "socket"),
            np.array(["a"]), np.array([object()]), np.array(1), np.ma.masked_array(array, [1, 0, 0, 0]), array[::2],
            np.ones(4), memoryview(array)[::2], np.array([1, 2], np.int64),
        ]  # fmt: skip
    os.chdir(here)


def try_all(values: list[Any], call: Callable[[Any], Any], name: str = "") -> int:
    """How many were refused. name: what each message must have."""
    refused, faults = 0, []
    for value in values:
        try:
            call(value)
        except (pd.Error, TypeError, ValueError) as error:
            refused += 1
            if name not in str(error):
                faults.append(f"{value!r:.40}: {type(error).__name__} does not name {name}: {error}")
        except Exception as error:
            faults.append(f"{value!r:.40}: {type(error).__name__}: {error}")
    assert not faults, "\n".join(faults)
    return refused


@pytest.fixture(scope="module")
def artifact() -> pd.Artifact:
    return pd.compile(TEXT)


def test_the_source_of_a_program(wrong: list[Any]) -> None:
    assert try_all(wrong, pd.compile) == len(wrong)
    for value in (None, 3, b"", []):
        with pytest.raises(pd.InvalidArgumentError, match="source: expected MLIR text, the path of a file with a"):
            pd.compile(value)


@pytest.mark.parametrize("option", OPTIONS)
def test_options_of_the_compiler(option: str, wrong: list[Any], tmp_path: Path) -> None:
    no_text = [value for value in wrong if not isinstance(value, (str, np.ndarray))]
    if option in ("require_match", "explain", "reassociate"):
        no_text = [value for value in no_text if value is not True]
    assert try_all(no_text, lambda value: pd.compile(TEXT, **{option: value}), option) > 5
    texts = [value for value in wrong if isinstance(value, (str, np.ndarray))]
    if option == "dump":
        texts = [value for value in texts if "missing" not in str(value)]
    try_all(texts, lambda value: pd.compile(TEXT, **{option: value}))


def test_targets_are_not_empty() -> None:
    with pytest.raises(pd.InvalidArgumentError, match="targets: expected at least one name"):
        pd.compile(TEXT, targets=[])


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ("+nope", "x86_64 has no CPU feature 'nope' .in '.nope'.*nearest: [+]nop"),
        ("+avx3", "(?s)no CPU feature 'avx3'.*nearest: .*[+]avx2"),
        ("-avxx", "(?s)no CPU feature 'avxx'.*nearest: .*-avx"),
        ("avx2", "(?s)expected a sign and LLVM's name.*did you mean '[+]avx2'"),
        ("+", "expected a sign and LLVM's name"),
    ],
)
def test_features_that_nobody_knows(features: str, message: str) -> None:
    with pytest.raises(pd.CompileError, match=f"(?s){message.removeprefix('(?s)')}"):
        pd.compile(TEXT, targets="x86_64", cpu_features=features)


@pytest.mark.parametrize("features", ["+avx2,+fma", "-sse4a", "+prefer-256-bit", "+rdrnd"])
def test_features_that_are_known(features: str) -> None:
    from pydispatch.compiler.target.cpu_features import check_features

    check_features("x86_64", features.split(","))


@pytest.mark.parametrize("name", ["workers=0", "workers=٣", "workers=-1", "workers=1025", "workers=", "workers=1.0"])
def test_workers_of_a_device(name: str) -> None:
    with pytest.raises(pd.InvalidArgumentError, match=r"workers: expected 1 to 1024, got '.*'; without it"):
        pd.device(f"cpu?{name}")


def test_artifacts(wrong: list[Any], artifact: pd.Artifact) -> None:
    assert try_all(wrong, pd.Artifact.from_file) == len(wrong)
    assert try_all(wrong, pd.Artifact.from_bytes) == len(wrong)
    assert try_all(wrong, artifact.read) == len(wrong)
    no_pipe = [value for value in wrong if not str(value).endswith(("/dev/zero", "fifo"))]  # would wait for a reader
    assert try_all(no_pipe, artifact.save) == len(no_pipe)
    with pytest.raises(OSError, match="cannot write the artifact"):
        artifact.save("/dev/full")


def test_a_device_and_its_programs(wrong: list[Any], artifact: pd.Artifact) -> None:
    device = pd.device("cpu")
    assert try_all(wrong, pd.device) == len(wrong)
    assert try_all(wrong, device.load) == len(wrong)
    try_all(wrong, lambda value: device.load(artifact, parameters=value), "parameters")
    try_all(wrong, lambda value: device.load(artifact, parameters={"": value}), "parameters")
    try_all(wrong, lambda value: device.load(artifact, parameters={"": {"k": value}}), "parameters")
    assert try_all(wrong, device.add_plugin) == len(wrong)
    try_all(wrong, lambda value: device.add_import(value, 1), "add_import")
    try_all(wrong, lambda value: device.add_import("x", value), "function")
    try_all(wrong, lambda value: device.add_import("x", 1, value), "context")
    assert try_all(wrong, lambda value: device.add_import("x", 1, priority=value), "priority") == len(wrong) - 2
    try_all(wrong, lambda value: device.add_executable(value, b""))
    assert try_all(wrong, lambda value: device.add_executable("x", value)) == len(wrong)
    assert try_all(wrong, device.remove_plugin) == len(wrong)
    program = device.load(artifact)
    assert try_all(wrong, lambda value: program[value]) == len(wrong)
    for value in wrong:
        assert not isinstance(value, (str, int)) or value not in program


class Shown:
    """An object with an `__array_interface__` that is wrong."""

    def __init__(self, interface: Any) -> None:
        self.__array_interface__ = interface


def interfaces() -> list[Any]:
    array = np.ones(4, np.float32)
    good = {"version": 3, "shape": (4,), "typestr": "<f4", "data": (array.ctypes.data, False)}
    changes: list[dict[str, Any]] = [
        {"data": (2**70, False)}, {"data": (-1, False)}, {"data": "x"}, {"typestr": 5}, {"shape": (2**70,)},
        {"shape": "x"}, {"shape": (-4,)}, {"strides": "x"}, {"strides": (2**70,)},
    ]  # fmt: skip
    return [None, 3, "x", {}, {"version": 3}, *({**good, **change} for change in changes)]


@pytest.mark.parametrize(("name", "target"), [("cpu", "cpu"), ("vulkan:0", "vulkan"), ("ptx-interpreter", "cuda")])
def test_arguments_of_a_call(name: str, target: str, wrong: list[Any]) -> None:
    program = pd.device(name).load(pd.compile(TEXT, targets=target))
    function, array = program.f, np.ones(4, np.float32)
    prepared = function.prepare(array, 1)
    others = [Shown(interface) for interface in interfaces()]
    assert try_all([*wrong, *others], lambda value: function(value, 1), "argument 0") == len(wrong) + len(others)
    try_all(wrong, lambda value: function(array, value), "argument 1")
    for call in (function, function.prepare):
        count = try_all([*wrong, *others], lambda value, call=call: call(array, 1, out=value), "out")
        assert count == len(wrong) + len(others) - 1  # None is right
        assert try_all([1], lambda value, call=call: call(array, 1, foo=value), "foo") == 1
    read_only = np.empty(4, np.float32)
    read_only.flags.writeable = False
    with pytest.raises(pd.InvalidArgumentError, match="out 0"):
        function(array, 1, out=read_only)
    assert try_all(wrong, lambda value: prepared(value, 1), "argument 0") == len(wrong)
    with pytest.raises(pd.InvalidArgumentError, match="'foo'"):
        prepared(foo=1)


@pytest.mark.parametrize("name", ["vulkan:0", "ptx-interpreter"])
def test_buffers(name: str, wrong: list[Any]) -> None:
    device: Any = pd.device(name)
    buffer = device.upload(np.ones(4, np.float32))
    try_all(wrong, device.upload, "upload")
    try_all(wrong, device.empty, "empty: shape")
    assert try_all(wrong, lambda value: device.empty(4, value), "empty: dtype") == len(wrong)
    assert try_all(wrong, buffer.upload, "upload") == len(wrong)
    assert try_all(wrong, lambda value: buffer.download(value), "out") == len(wrong) - 1


def test_patterns(wrong: list[Any]) -> None:
    assert try_all([*wrong[1:]], pd.pattern, "pattern") == len(wrong) - 1
    assert try_all([*wrong[1:]], pd.matcher, "matcher") == len(wrong) - 1
    try_all(wrong, lambda value: pd.pattern(benefit=value), "benefit")
    try_all(wrong, lambda value: pd.pattern(phase=value), "phase")
    no_numbers = [each for each in wrong if not (isinstance(each, (int, float)) or hasattr(each, "__array_ufunc__"))]
    for operation in (pd.exp, pd.log, pd.sqrt, pd.rsqrt, pd.tanh, pd.erf):  # numbers and arrays are computed by NumPy
        assert try_all(no_numbers, operation) == len(no_numbers)
    no_arrays = [value for value in wrong if not getattr(value, "ndim", 0)]
    assert try_all(no_arrays, pd.argmax) == len(no_arrays)
    for operation in (pd.maximum, pd.minimum):
        assert try_all(no_numbers, lambda value, operation=operation: operation(value, value)) == len(no_numbers)
    assert try_all(wrong, lambda value: pd.reduce("add", value)) == len(wrong)


def test_kernels_of_patterns(wrong: list[Any]) -> None:
    no_text = [value for value in wrong if not isinstance(value, (str, bytes))]
    assert try_all(no_text, lambda value: pd.CFunction(value, "f"), "source") == len(no_text)
    assert try_all(no_text, lambda value: pd.CFunction("f.c", value), "symbol") == len(no_text)
    assert try_all(no_text, lambda value: pd.CFunction("f.c", "f", value), "arguments") == len(no_text)
    assert try_all(wrong, lambda value: pd.CFunction("f.c", "f", tile=value), "tile") == len(wrong) - 1
    assert try_all(no_text, lambda value: pd.WholeKernel(value, "f"), "files") >= len(no_text) - 1
    assert try_all(no_text, lambda value: pd.WholeKernel({"x": value}, "f"), "files") == len(no_text)
    assert try_all(no_text, lambda value: pd.WholeKernel({}, value), "entry") == len(no_text)
    for key in ("constants", "workgroups", "workgroup_size"):
        try_all(wrong, lambda value, key=key: pd.WholeKernel({}, "f", **{key: value}), key)
    try_all(no_text, lambda value: pd.shader(value))
    try_all(no_text, lambda value: pd.ptx(value, "f"))
