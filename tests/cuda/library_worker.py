"""Runs a CUDA device on the real `cuda.bindings.driver`, under which the fake driver is loaded as a library.

Run by `test_cuda_device_driver.py` in a process of its own: the package keeps the driver that it finds first.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
from cuda_device_programs import CONSTANTS, REVERSE, SCALE, WIDE
from cuda_programs import MIXED, MUL, TWO, export, layout, size, source, target, vectors
from fake_driver import FakeDriver
from fake_library import SIGNATURES, FakeLibrary
from test_cuda_device_calls import fill, moves
from test_cuda_device_errors import stray
from test_cuda_device_interop import Array, Other
from tools import DATA

import pydispatch as pd

GRAPHS = """module { func.func @filled(%v: i64, %w: i16, %n: index)
    -> (tensor<?xi64>, tensor<?xi16>, tensor<?xi16>, tensor<?xi64>) {
  %0 = flow.tensor.splat %v : tensor<?xi64>{%n}
  %1 = flow.tensor.splat %w : tensor<?xi16>{%n}
  %2 = flow.tensor.splat %w : tensor<?xi16>{%n}
  %3 = flow.tensor.clone %0 : tensor<?xi64>{%n}
  return %0, %1, %2, %3 : tensor<?xi64>, tensor<?xi16>, tensor<?xi16>, tensor<?xi64>
} }"""


def built(exports: str, functions: str, more: str = "", path: Path = DATA / "kernels_sm_75.ptx") -> Any:
    return pd.compile(source({target(): [path]}, exports, functions, more), targets="cuda")


def same(found: Any, expected: Any) -> None:
    np.testing.assert_array_equal(found, expected)


def calls(device: Any, a: Any, b: Any) -> None:
    f = device.load(built(TWO, MIXED)).mixed_invocation
    x, y = device.upload(a), device.upload(b)
    same(f(a, b), b * (a * b))
    call = f.prepare(x, y)
    same(call(), b * (a * b))
    same(call(y, x), a * (b * a))
    assert len(f.profile(x, y)) == 3
    held = [f(x, y) for _ in range(7)]
    same(held[0], held[-1])


def wide(device: Any) -> None:
    f = device.load(built(MUL, WIDE)).wide
    same(f(np.ones(64, np.float32), np.full(64, 2, np.float32)), np.full(64, 65536, np.float32))


def kernels(device: Any, a: Any) -> None:
    scale = device.load(built(export("scale", 0, layout(6, "in", "out")), SCALE)).scale
    n = np.arange(-50, 50)
    same(scale(n, 1 << 40, -7.9, -3), (n << 40) - 7 - 3)
    block = size(128, more=", workgroup_local_memory = 65536 : index")
    reverse = device.load(built(export("reverse", 0, layout(0, "in", "out"), block, 128), REVERSE)).reverse
    r = np.arange(512, dtype=np.float32)
    same(reverse(r), r.reshape(4, 128)[:, ::-1].ravel())
    affine = built(export("affine", 0, layout(1, "in", "out")), vectors("affine", "i32", inputs=1), CONSTANTS)
    i = np.arange(100, dtype=np.int32)
    same(device.load(affine).affine(i), i * -5 + 11)


def fills(device: Any) -> None:
    for type_, value, dtype in (
        ("i8", -3, np.int8), ("i16", 258, np.int16), ("f32", 1.5, np.float32), ("i64", 1234567890123, np.int64),
    ):  # fmt: skip
        f = device.load(pd.compile(f"module {{ {fill(type_, str(value))} }}", targets="cuda")).filled
        same(f(9), np.full(9, value, dtype))
        assert len(f.profile(9)) == 1
    f = device.load(pd.compile(GRAPHS, targets="cuda")).filled
    call = f.prepare(1 << 33, 7, 5)
    for v, w in ((1 << 33, 7), (-5, -9)):
        for found, expected in zip(call(v, w, 5), (v, w, w, v), strict=True):
            same(found, [expected] * 5)


def interop(fake: FakeDriver, device: Any, a: Any, b: Any) -> None:
    """The other library speaks to the fake driver itself, beside the real package."""
    f = device.load(built(TWO, MIXED)).mixed_invocation
    other = Other(fake)
    x = other.array(a)
    same(f(x, b), b * (a * b))
    same(f(Array(x), b, stream=other.stream), b * (a * b))
    y = f(a, b)
    y.__dlpack__(stream=other.stream)
    same(other.read(y.__cuda_array_interface__["data"][0], a.shape), b * (a * b))
    fake.cuCtxPopCurrent()


def errors(fake: FakeDriver, device: Any, folder: Path, a: Any) -> None:
    artifact = pd.compile(source({}, MUL, vectors("simple_mul")), targets="cuda")
    head = ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry simple_mul"
    bad = f"{head}(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n) {{\n frob;\n}}\n"
    device.add_executable("executable", bad.encode())
    try:
        device.load(artifact)
        raise AssertionError
    except pd.ArtifactError as error:
        assert "CUDA_ERROR_INVALID_PTX" in str(error) and "ptxas fatal: " in str(error), error
    program = device.load(stray(folder))
    y = program.stray(a)
    try:
        y.numpy()
        raise AssertionError
    except pd.KernelError as error:
        assert "dispatch @executable::@stray 1x1x1 of @stray: CUDA_ERROR_ILLEGAL_ADDRESS (" in str(error), error


def main() -> None:
    folder = Path(sys.argv[1])
    fake = FakeDriver(devices=2)
    library = FakeLibrary(fake, folder)
    os.environ["PYDISPATCH_CACHE_DIR"] = str(folder / "cache")
    import cuda.bindings.driver as real

    assert real.__file__.endswith((".so", ".pyd")) and pd.devices()[-2:] != []
    device: Any = pd.device("cuda:0")
    assert device.describe()["model"] == "Fake GPU" and device.describe()["capability"].startswith("9.0")
    a, b = np.random.default_rng(3).standard_normal((2, 100), dtype=np.float32)
    calls(device, a, b)
    wide(device)
    kernels(device, a)
    fills(device)
    interop(fake, device, a, b)
    calls(device, a, b)
    moves(device)
    assert device.memory()["reserved_bytes"] > 0
    device.trim()
    device.close()
    assert fake.devices[0].retained == 1  # that of the other library
    errors(fake, pd.device("cuda:1"), folder, a[:64])
    missing = set(SIGNATURES) - set(fake.calls)
    assert not missing, missing
    assert library.functions
    print("ok")


if __name__ == "__main__":
    main()
