"""The C code of docs/embedding.md about calls in flight and lent threads, built and run as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from embedding_build import ROOT, build, import_file

HEAD = """
#include <Python.h>
#include <pthread.h>
#include "pydispatch/api.h"
static const pyd_api_t* pd;
"""
# drive(path, n): n calls of chain on a device whose one thread is lent -> (how many succeeded, the result, the error)
TAIL = """
static PyObject* drive(PyObject* self, PyObject* args) {
  static float a[8] = {1, 2, 3, 4, 5, 6, 7, 8}, out[8];
  const char* path;
  int n;
  (void)self;
  if (!PyArg_ParseTuple(args, "si", &path, &n) || n > 50) return NULL;
  pyd_api_device_t* device = NULL;
  pyd_api_program_t* program = NULL;
  const pyd_api_function_t* chain = NULL;
  pyd_api_call_t* calls[50] = {NULL};
  _Atomic int succeeded = 0;
  pthread_t thread;
  bool has_thread = false;
  is_over = 0;
  pyd_status_t status;
  Py_BEGIN_ALLOW_THREADS
  status = open_for_own_threads(2, &device);
  has_thread = pyd_ok(status) && !pthread_create(&thread, NULL, work_for, device);
  if (pyd_ok(status)) status = pd->program_load_file(device, path, &program);
  if (pyd_ok(status)) status = pd->program_find(program, "chain", &chain);
  for (int i = 0; i < n && pyd_ok(status); ++i) {
    status = pd->call_prepare(chain, (int64_t[]){8, 8}, 2, NULL, 0, &calls[i]);
    for (uint32_t k = 0; k < 2 && pyd_ok(status); ++k) status = pd->call_bind_argument(calls[i], k, a, 32);
    if (pyd_ok(status)) status = pd->call_bind_result(calls[i], 0, out, 32);
  }
  if (pyd_ok(status)) status = run_in_order(calls, n, &succeeded);
  for (int i = 0; i < n; ++i) pd->call_release(calls[i]);
  is_over = 1;
  if (has_thread) pthread_join(thread, NULL);
  pd->program_release(program), pd->device_release(device);
  Py_END_ALLOW_THREADS  // every callback has returned: the thread that makes them has
  PyObject* told = Py_BuildValue("iy#s", succeeded, out, (Py_ssize_t)sizeof(out), pd->status_text(status));
  pd->status_free(status);
  return told;
}
static PyMethodDef methods[] = {{"drive", drive, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL}};
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "documented", .m_size = -1, .m_methods = methods};
PyMODINIT_FUNC PyInit_documented(void) {
  pd = pyd_api_import();
  return pd ? PyModule_Create(&definition) : NULL;
}
"""


def test_calls_in_flight(pdx: Path, tmp_path: Path) -> None:
    _, *flight = re.findall(r"```c\n(.*?)```", (ROOT / "docs" / "embedding.md").read_text(), re.S)
    source = tmp_path / "documented.c"
    source.write_text("#define PY_SSIZE_T_CLEAN" + HEAD + "#include <stdlib.h>\n" + "".join(flight) + TAIL)
    module = import_file(build(source, tmp_path))
    succeeded, out, text = module.drive(str(pdx), 20)
    a = np.arange(1, 9, dtype=np.float32)
    assert (succeeded, text) == (20, "")
    np.testing.assert_array_equal(np.frombuffer(out, np.float32), a * a * a + a)
    assert "No such file" in module.drive("/nonsense.pdx", 1)[2]
