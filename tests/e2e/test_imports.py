"""Functions that arrive at load time: registered functions and plugins, through the public API and the command line."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import cffi
import numpy as np
import pytest

import pydispatch as pd

PROGRAM = """
stream.executable private @kernels {
  stream.executable.export public @mul workgroups(%size: index) -> (index, index, index) {
    %x = affine.apply affine_map<()[s0] -> (s0 ceildiv 64)>()[%size]
    %one = arith.constant 1 : index
    stream.return %x, %one, %one : index, index, index
  }
  builtin.module {
    func.func private @my_mul(memref<f32>, index, memref<f32>, index, memref<f32>, index, index, index)
        attributes {llvm.bareptr = true}
    func.func @mul(%b0: !stream.binding, %b1: !stream.binding, %b2: !stream.binding, %size: index) {
      %zero = arith.constant 0 : index
      %id = stream.dispatch.workgroup.id[0] : index
      %lhs = stream.binding.subspan %b0[%zero] : !stream.binding -> memref<?xf32>{%size}
      %rhs = stream.binding.subspan %b1[%zero] : !stream.binding -> memref<?xf32>{%size}
      %out = stream.binding.subspan %b2[%zero] : !stream.binding -> memref<?xf32>{%size}
      %p0, %o0, %n0, %s0 = memref.extract_strided_metadata %lhs : memref<?xf32> -> memref<f32>, index, index, index
      %p1, %o1, %n1, %s1 = memref.extract_strided_metadata %rhs : memref<?xf32> -> memref<f32>, index, index, index
      %p2, %o2, %n2, %s2 = memref.extract_strided_metadata %out : memref<?xf32> -> memref<f32>, index, index, index
      func.call @my_mul(%p0, %o0, %p1, %o1, %p2, %o2, %size, %id)
          : (memref<f32>, index, memref<f32>, index, memref<f32>, index, index, index) -> ()
      return
    }
  }
}
func.func @run(%a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<?xf32> {
  %zero = arith.constant 0 : index
  %size = tensor.dim %a, %zero : tensor<?xf32>
  %r = flow.dispatch @kernels::@mul[%size](%a, %b, %size)
      : (tensor<?xf32>{%size}, tensor<?xf32>{%size}, index) -> tensor<?xf32>{%size}
  return %r : tensor<?xf32>
}
"""

FUNCTION = """
#include <stddef.h>
struct my_mul_params {
  const float* a; size_t ao; const float* b; size_t bo; float* c; size_t co; size_t size; size_t group;
};
int my_mul(void* raw, void* context, void* reserved) {
  struct my_mul_params* p = raw;
  float scale = context ? *(float*)context : SCALE;
  size_t end = p->group * 64 + 64;
  if (end > p->size) end = p->size;
  for (size_t i = p->group * 64; i < end; ++i) p->c[p->co + i] = scale * p->a[p->ao + i] * p->b[p->bo + i];
  return p->size == 13 ? 7 : 0;
}
"""

A, B = np.arange(200, dtype=np.float32), np.full(200, 3, np.float32)


class Params(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_void_p if name in "abc" else ctypes.c_size_t)
        for name in ("a", "ao", "b", "bo", "c", "co", "size", "group")
    ]


@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Params), ctypes.c_void_p, ctypes.c_void_p)
def from_python(params, context, reserved):  # type: ignore[no-untyped-def]
    """The multiply in Python, for one workgroup."""
    p = params.contents
    a, b, c = (
        np.ctypeslib.as_array(ctypes.cast(x, ctypes.POINTER(ctypes.c_float)), (p.size,)) for x in (p.a, p.b, p.c)
    )
    part = slice(p.group * 64, p.group * 64 + 64)
    c[part] = a[part] * b[part]
    return 0


@pytest.fixture(scope="module")
def artifact() -> pd.Artifact:
    return pd.compile(PROGRAM)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The import function as a library of its own, factor 1."""
    folder = tmp_path_factory.mktemp("library")
    (folder / "f.c").write_text(FUNCTION)
    subprocess.run(
        ["gcc", "-O2", "-shared", "-fPIC", "-DSCALE=1.0f", folder / "f.c", "-o", folder / "f.so"], check=True
    )
    return ctypes.CDLL(str(folder / "f.so"))


def test_a_function_of_a_library(artifact: pd.Artifact, library: ctypes.CDLL) -> None:
    device = pd.device("cpu")
    device.add_import("my_mul", library.my_mul)
    np.testing.assert_array_equal(device.load(artifact).run(A, B), A * B)


def test_an_address_and_a_context(artifact: pd.Artifact, library: ctypes.CDLL) -> None:
    device = pd.device("cpu")
    address = ctypes.cast(library.my_mul, ctypes.c_void_p).value
    device.add_import("my_mul", address, ctypes.c_float(10))
    np.testing.assert_array_equal(device.load(artifact).run(A, B), 10 * A * B)


def test_what_else_may_stand_for_a_function(artifact: pd.Artifact, library: ctypes.CDLL) -> None:
    """cffi, a capsule as Cython makes them, and whatever has an `address` as numba's cfuncs do."""
    address = ctypes.cast(library.my_mul, ctypes.c_void_p).value
    ffi = cffi.FFI()
    ffi.cdef("int my_mul(void*, void*, void*);")
    new_capsule = ctypes.pythonapi.PyCapsule_New
    new_capsule.restype, new_capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    forms = [
        ffi.cast("int (*)(void*, void*, void*)", address),
        ffi.cast("void*", address),
        new_capsule(address, b"int (void *, void *, void *)", None),
        SimpleNamespace(address=address),
    ]
    for form in forms:
        device = pd.device("cpu")
        device.add_import("my_mul", form)
        np.testing.assert_array_equal(device.load(artifact).run(A, B), A * B)


def test_a_python_function(artifact: pd.Artifact) -> None:
    device = pd.device("cpu?workers=3")
    device.add_import("my_mul", from_python)
    np.testing.assert_array_equal(device.load(artifact).run(A, B), A * B)


def test_the_report_and_the_declaration(artifact: pd.Artifact, library: ctypes.CDLL) -> None:
    device = pd.device("cpu")
    device.add_import("other", library.my_mul)
    device.add_import("my_mul", library.my_mul)
    (found,) = device.load(artifact).imports
    assert (found.symbol, found.executable, found.exports, found.optional) == ("my_mul", "kernels", ("mul",), False)
    assert found.provider is not None and "my_mul" in found.provider
    assert "struct my_mul_params" in found.declaration and "size_t" in found.declaration


def test_last_registered_first_priority_before_that_and_removal(artifact: pd.Artifact, library: ctypes.CDLL) -> None:
    device = pd.device("cpu")
    factors = [ctypes.c_float(f) for f in (2, 3, 5)]
    device.add_import("my_mul", library.my_mul, factors[0])
    second = device.add_import("my_mul", library.my_mul, factors[1])
    old = device.load(artifact)
    assert old.run(A, B)[1] == 9
    strong = device.add_import("my_mul", library.my_mul, factors[2], priority=1)
    device.add_import("my_mul", library.my_mul, factors[0])
    assert device.load(artifact).run(A, B)[1] == 15
    device.remove_plugin(strong)
    device.remove_plugin(second)
    assert device.load(artifact).run(A, B)[1] == 6
    assert old.run(A, B)[1] == 9  # what was loaded keeps what it had
    with pytest.raises(pd.InvalidArgumentError):
        device.remove_plugin(second)


def test_devices_do_not_share_imports(artifact: pd.Artifact, library: ctypes.CDLL) -> None:
    one, other = pd.device("cpu"), pd.device("cpu")
    one.add_import("my_mul", library.my_mul)
    assert one.load(artifact).run(A, B)[1] == 3
    with pytest.raises(pd.MissingImportError):
        other.load(artifact)


def test_a_missing_import_says_who_needs_it_and_what_to_do(artifact: pd.Artifact, library: ctypes.CDLL) -> None:
    with pytest.raises(pd.MissingImportError) as caught:
        pd.device("cpu").load(artifact)
    text = str(caught.value)
    assert caught.value.symbols == ("my_mul",)
    for part in ("@kernels", "'my_mul'", "@mul", "no plugin or function is", "device.add_import('my_mul'", "--plugin="):
        assert part in text, text
    device = pd.device("cpu")
    device.add_import("my_mull", library.my_mul)
    with pytest.raises(pd.MissingImportError, match="did you mean 'my_mull'"):
        device.load(artifact)


def test_a_failing_import_is_a_kernel_error(artifact: pd.Artifact, library: ctypes.CDLL) -> None:
    device = pd.device("cpu")
    device.add_import("my_mul", library.my_mul)
    with pytest.raises(pd.KernelError) as caught:
        device.load(artifact).run(A[:13], B[:13])
    assert (caught.value.executable, caught.value.export, caught.value.code) == ("kernels", "mul", 7)


@pytest.mark.parametrize("bad", ["text", None, 0, -1, 1.5])
def test_what_is_no_function_is_refused(bad: object) -> None:
    with pytest.raises(pd.InvalidArgumentError, match="my_mul"):
        pd.device("cpu").add_import("my_mul", bad)


@pytest.fixture(scope="module")
def plugins(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The function as a plugin of each kind, by `pydispatch plugin build`."""
    folder = tmp_path_factory.mktemp("plugins")
    source = folder / "my_mul.c"
    source.write_text(FUNCTION.replace("SCALE", "2.0f"))
    made = {"system": folder / "system.so", "fat": folder / "fat.sos"}
    cli = [sys.executable, "-m", "pydispatch.cli", "plugin", "build", source, "--export=my_mul"]
    subprocess.run([*cli, "-o", made["system"], "--system"], check=True)
    subprocess.run([*cli, "-o", made["fat"], "--arch=x86_64,aarch64,riscv64"], check=True)
    return made


@pytest.mark.parametrize("kind", ["system", "fat"])
def test_a_plugin_of_each_kind(kind: str, plugins: dict[str, Path], artifact: pd.Artifact) -> None:
    device = pd.device("cpu")
    device.add_plugin(plugins[kind])
    program = device.load(artifact)
    np.testing.assert_array_equal(program.run(A, B), 2 * A * B)
    assert program.imports[0].provider is not None


def test_bytes_and_the_command_line(plugins: dict[str, Path], artifact: pd.Artifact, tmp_path: Path) -> None:
    device = pd.device("cpu")
    device.add_plugin(plugins["fat"].read_bytes())
    assert device.load(artifact).run(A, B)[1] == 6
    artifact.save(tmp_path / "p.pdx")
    command = [sys.executable, "-m", "pydispatch.cli", "run", tmp_path / "p.pdx", "--input=8xf32=2", "--input=8xf32=4"]
    out = subprocess.run(
        [*command, f"--executable_plugin={plugins['fat']}"], capture_output=True, text=True, check=True
    )
    assert "8xf32=16 16 16 16 16 16 16 16" in out.stdout
    failed = subprocess.run(command, capture_output=True, text=True)
    assert failed.returncode == 1 and "my_mul" in failed.stderr and "Traceback" not in failed.stderr


def test_plugins_print_in_order(artifact: pd.Artifact, tmp_path: Path) -> None:
    """Python's and C's output keep their order in a pipe."""
    source = tmp_path / "loud.c"
    text = FUNCTION.replace("SCALE", "1.0f").replace("#include <stddef.h>", "#include <stddef.h>\n#include <stdio.h>")
    source.write_text(text.replace("float scale", 'printf("kernel %d\\n", (int)p->group);\n  float scale'))
    cli = [sys.executable, "-m", "pydispatch.cli", "plugin", "build", source, "--export=my_mul", "--system"]
    subprocess.run([*cli, "-o", tmp_path / "loud.so"], check=True)
    artifact.save(tmp_path / "p.pdx")
    code = f"""
import numpy as np, pydispatch as pd
device = pd.device("local-sync")
device.add_plugin({str(tmp_path / "loud.so")!r})
f = device.load({str(tmp_path / "p.pdx")!r}).run
a = np.ones(100, np.float32)
for i in range(3):
    print("before", i)
    f(a, a)
    print("after", i)
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.splitlines()
    assert out == [line for i in range(3) for line in (f"before {i}", "kernel 0", "kernel 1", f"after {i}")]
