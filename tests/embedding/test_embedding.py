"""The function table from a C extension: threads that Python has never seen, what is refused, nothing left behind."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from embedding_build import ROOT, build, import_file
from pydispatch._core import capi

import pydispatch as pd

INVALID_ARGUMENT, CORRUPT, MISSING_IMPORT, UNAVAILABLE, SYSTEM = 1, 2, 4, 5, 8


@pytest.fixture(autouse=True)
def nothing_is_left() -> object:
    before = capi.handles()
    yield
    gc.collect()
    assert capi.handles() == before


@pytest.mark.parametrize("from_bytes", [False, True])
def test_four_threads_without_the_gil(probe: ModuleType, pdx: Path, from_bytes: bool) -> None:
    path, data = (None, pdx.read_bytes()) if from_bytes else (str(pdx), b"")
    ticks = 0
    done = threading.Event()

    def python_meanwhile() -> None:
        nonlocal ticks
        while not done.is_set():
            ticks += 1

    watcher = threading.Thread(target=python_meanwhile)
    watcher.start()
    try:
        assert probe.crew(path, data, 5000, 4, 50) == (0, 0)
    finally:
        done.set()
        watcher.join()
    assert ticks > 100, "Python stood still meanwhile"


def test_loads_leave_nothing_behind(probe: ModuleType, pdx: Path) -> None:
    def state() -> tuple[int, int]:
        """The numbers of mappings and open files."""
        gc.collect()
        return len(Path("/proc/self/maps").read_text().splitlines()), len(list(Path("/proc/self/fd").iterdir()))

    def threads() -> set[Path]:
        return set(Path("/proc/self/task").iterdir())

    device = pd.device("cpu?workers=2")  # kept, so that its threads are counted on both sides
    for _ in range(3):
        assert probe.crew(str(pdx), b"", 100, 4, 2) == (0, 0)
    before, blocks, running = state(), device.memory()["live_blocks"], threads()
    for _ in range(60):
        assert probe.crew(str(pdx), b"", 100, 4, 2) == (0, 0)
    after = state()
    assert after[1] == before[1]
    attempts = 1000  # the system lists a thread for a moment after it was joined
    while (new := threads() - running) and attempts:
        attempts -= 1
        time.sleep(0.01)
    assert not new
    assert after[0] <= before[0] + 8  # arenas of the C library for new threads
    assert device.memory()["live_blocks"] == blocks


@pytest.mark.parametrize(
    ("name", "code", "text"),
    [
        ("cpu", 0, ""),
        ("local-sync", 0, ""),
        ("cpu?workers=3", 0, ""),
        ("toaster", UNAVAILABLE, "there is no device 'toaster'"),
        ("cpu?speed=9", INVALID_ARGUMENT, "no option 'speed'"),
        ("cpu?workers=-1", INVALID_ARGUMENT, "expected 1 to 1024, got '-1'"),
        (None, INVALID_ARGUMENT, "device_open: name is NULL"),
    ],
)
def test_devices(probe: ModuleType, name: str | None, code: int, text: str) -> None:
    found = probe.open(name)
    assert found[0] == code and text in found[1]


def test_broken_artifacts(probe: ModuleType, pdx: Path, tmp_path: Path) -> None:
    data = pdx.read_bytes()
    assert probe.load(str(pdx), None) == (0, "")
    assert probe.load(None, data) == (0, "")
    for path, content, code, text in [
        (None, None, INVALID_ARGUMENT, "program_load_file: path or data is NULL"),
        (str(tmp_path / "no.pdx"), None, SYSTEM, "No such file"),
        (str(tmp_path), None, SYSTEM, ""),
        (None, b"", CORRUPT, ""),
        (None, data[:-100], CORRUPT, ""),
        (None, b"PK\3\4" + bytes(5000), CORRUPT, ""),
    ]:
        found = probe.load(path, content)
        assert found[0] == code and text in found[1], found
        assert found[1]


def test_python_objects(probe: ModuleType, pdx: Path) -> None:
    device = pd.device("cpu?workers=2")
    program = device.load(pdx)
    assert probe.wrap(device, True) == (0, "", 2)
    assert probe.wrap(program, False) == (0, "", len(program.functions))
    assert probe.wrap(3, True) == (INVALID_ARGUMENT, "expected a CPU device of pydispatch, got int", 0)
    assert probe.wrap(device, False)[0] == INVALID_ARGUMENT
    assert probe.wrap(program, True)[0] != 0
    program.close()
    assert probe.wrap(program, False) == (INVALID_ARGUMENT, "the program was closed", 0)


def test_null_pointers(probe: ModuleType) -> None:
    for code, text in probe.nulls():
        assert code == INVALID_ARGUMENT and text.endswith("is NULL")


def test_an_exception_of_the_caller_survives(probe: ModuleType, pdx: Path) -> None:
    with pytest.raises(KeyError, match="mine"):
        probe.pending(str(pdx))


@pytest.mark.parametrize("forgets", [False, True])
def test_calls_in_flight_keep_their_device(probe: ModuleType, pdx: Path, forgets: bool) -> None:
    before, handles = probe.flown(), capi.handles()
    for _ in range(20):
        assert probe.fly(str(pdx), 10, forgets) == (0, "")
    while sum(probe.flown()) != sum(before) + 200 or capi.handles() != handles:
        pass  # the last thread to end lets go; Python objects are dropped here, where Python code runs
    assert [now - then for now, then in zip(probe.flown(), before, strict=True)] == [0, 200, 0, 0, 0]


def test_devices_with_threads_of_an_embedder(probe: ModuleType, pdx: Path) -> None:
    succeeded = 1
    assert probe.own(str(pdx), 3, 0) == ((0, ""), succeeded, 3, 3)
    assert probe.own(str(pdx), 3, 1) == ((0, ""), succeeded, 1, 1)
    status, *rest = probe.own(str(pdx), 5000, 0)
    assert status[0] == INVALID_ARGUMENT and "5000 workers asked for" in status[1] and rest == [0, 0, 0]
    assert probe.own(str(pdx), 1, 2)[0] == (INVALID_ARGUMENT, "device_create: lends_threads is 0 or 1, got 2")


def test_a_call_outlives_its_program(probe: ModuleType, pdx: Path) -> None:
    before = capi.handles()
    program = pd.device("cpu").load(pdx)
    call = probe.keep(program)
    assert capi.handles() == (before[0] + 1, before[1] + 1)  # so the fixture above sees a handle that is left
    program.close()
    del program
    gc.collect()
    assert probe.run(call) == (0, "")


@pytest.mark.parametrize(
    "body",
    [
        "call = probe.keep(program)",  # released while the interpreter ends
        "probe.detach(probe.keep(program))",  # runs on while it ends
        "import atexit; call = probe.keep(program); atexit.register(probe.run, call)",
        "sys.modules['x'] = probe.keep(program)",
    ],
)
def test_the_interpreter_ends(probe: ModuleType, pdx: Path, body: str) -> None:
    assert probe.__file__ is not None
    code = (
        f"import sys; sys.path.insert(0, {str(Path(probe.__file__).parent)!r}); import probe, pydispatch\n"
        f"program = pydispatch.device('cpu').load({str(pdx)!r})\n{body}\nprint('end', flush=True)"
    )
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
        assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")


def test_the_c_example(pdx: Path, tmp_path: Path) -> None:
    embedded = import_file(build(ROOT / "examples/embedding/c_extension/embedded.c", tmp_path))
    a, b = np.arange(300, dtype=np.float32), np.linspace(0, 1, 300, dtype=np.float32)
    found = np.frombuffer(embedded.repeat(str(pdx), "chain", a, b, 20), np.float32)
    np.testing.assert_array_equal(found, a * b * b + a)
    z, y, x = np.mgrid[:4, :5, :6]
    field = np.frombuffer(embedded.distances(6, 5, 4), np.float32).reshape(4, 5, 6)
    np.testing.assert_array_equal(field, x * x + y * y + z * z)
    with pytest.raises(ValueError, match="sizes of 'a' and 'b' differ: 300 and 299"):
        embedded.repeat(str(pdx), "chain", a, b[1:], 1)
    with pytest.raises(ValueError, match="no function 'chian'"):
        embedded.repeat(str(pdx), "chian", a, b, 1)
    with pytest.raises(RuntimeError, match="No such file"):
        embedded.repeat("/nonsense", "chain", a, b, 1)


def test_functions_for_imports(probe: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "imports.pdx"
    pd.compile(ROOT / "examples/plugin/program.mlir", targets=["cpu"]).save(path)
    (opened, lacking, plugin, loaded, first, added, lower, again, second, still, kept, removed, twice, after, held,
     gone, bad_name, no_name, no_function, no_device, no_handle, released) = probe.provide(str(path))  # fmt: skip
    ok = (0, "")
    assert [opened, plugin, loaded, added, lower, again, removed] == [ok] * 7
    assert lacking[0] == MISSING_IMPORT and "'simple_mul_workgroup'" in lacking[1]
    assert [first, second, still, after] == [(ok, 30.0), (ok, 60.0), (ok, 30.0), (ok, 60.0)]
    assert [kept, held, gone, released] == [0, 0, 1, 1]
    assert twice[0] == INVALID_ARGUMENT and "was not registered through this handle" in twice[1]
    assert bad_name[0][0] == INVALID_ARGUMENT and "expected the name of a symbol, got '?'" in bad_name[0][1]
    assert bad_name[1] == 0
    for code, text in (no_name, no_function, no_device, no_handle):
        assert code == INVALID_ARGUMENT and text.endswith("is NULL")


SCALED = """
util.global private @w = #flow.parameter.named<"m"::"w"> : tensor<f32>
func.func @f(%x: tensor<f32>) -> tensor<f32> {
  %w = util.global.load @w : tensor<f32>
  %y = arith.mulf %x, %w : tensor<f32>
  return %y : tensor<f32>
}
"""
# scaled(path, rank, w): f(2) with a parameter w of rank 0, or of rank 1 with one element -> the result, or the error
OF_RANK = """
#include <Python.h>
#include "pydispatch/api.h"
static const pyd_api_t* pd;
static PyObject* scaled(PyObject* self, PyObject* args) {
  const int64_t one = 1;
  const char* path;
  unsigned rank;
  float w, x = 2, out = 0;
  (void)self;
  if (!PyArg_ParseTuple(args, "sIf", &path, &rank, &w)) return NULL;
  pyd_api_device_t* device = NULL;
  pyd_api_memory_t* memory = NULL;
  pyd_api_program_t* program = NULL;
  const pyd_api_function_t* function = NULL;
  pyd_api_call_t* call = NULL;
  const pyd_api_memory_info_t info = {
      .struct_size = sizeof(info), .data = &w, .dtype = PYD_API_F32, .rank = rank, .dims = &one};
  pyd_status_t status = pd->device_open("local-sync", &device);
  if (pyd_ok(status)) status = pd->memory_import(device, &info, &memory);
  const pyd_api_parameter_t parameter = {"m", "w", memory};
  const pyd_api_load_t options = {
      .struct_size = sizeof(options), .path = path, .parameters = &parameter, .parameter_count = 1};
  if (pyd_ok(status)) status = pd->program_load(device, &options, &program);
  if (pyd_ok(status)) status = pd->program_find(program, "f", &function);
  if (pyd_ok(status)) status = pd->call_prepare(function, NULL, 0, NULL, 0, &call);
  if (pyd_ok(status)) status = pd->call_bind_argument(call, 0, &x, sizeof(x));
  if (pyd_ok(status)) status = pd->call_bind_result(call, 0, &out, sizeof(out));
  if (pyd_ok(status)) status = pd->call_run(call);
  pd->call_release(call), pd->program_release(program), pd->memory_release(memory), pd->device_release(device);
  PyObject* told = pyd_ok(status) ? PyFloat_FromDouble(out) : PyUnicode_FromString(pd->status_text(status));
  pd->status_free(status);
  return told;
}
static PyMethodDef methods[] = {{"scaled", scaled, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL}};
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "of_rank", .m_size = -1, .m_methods = methods};
PyMODINIT_FUNC PyInit_of_rank(void) {
  pd = pyd_api_import();
  return pd ? PyModule_Create(&definition) : NULL;
}
"""


def test_a_parameter_of_rank_0(tmp_path: Path) -> None:
    path, source = tmp_path / "scaled.pdx", tmp_path / "of_rank.c"
    pd.compile(SCALED).save(path)
    source.write_text(OF_RANK)
    module = import_file(build(source, tmp_path))
    assert module.scaled(str(path), 0, 1.5) == 3
    assert "parameter 'w' of scope 'm'" in (told := module.scaled(str(path), 1, 1.5))
    assert "expected f32, got 1xf32" in told
