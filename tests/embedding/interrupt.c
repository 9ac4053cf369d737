// Calls through the table that can be ended early, for test_interrupts.py.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "pydispatch/api.h"

static const pyd_api_t* pd;

static int32_t count_down(void* context) { return --*(long*)context < 0; }

// run(program, name, n, questions) -> (code, text). The function takes the scalar n, and n floats are its result.
// questions: how often the interrupt says no, -1 to ask Python's signals, -2 for an interrupt that is not filled in.
static PyObject* run(PyObject* module, PyObject* args) {
  PyObject *object, *counts;
  const char* name;
  long n, questions;
  uint64_t asked = 0;
  Py_buffer view;
  (void)module;
  if (!PyArg_ParseTuple(args, "OslOl:run", &object, &name, &n, &counts, &questions)) return NULL;
  if (PyObject_GetBuffer(counts, &view, PyBUF_WRITABLE)) return NULL;
  pyd_api_program_t* program = NULL;
  const pyd_api_function_t* function = NULL;
  pyd_api_call_t* call = NULL;
  pyd_api_interrupt_t interrupt = {sizeof(interrupt), questions < 0 ? pd->is_signalled : count_down,
                                   questions < 0 ? (void*)&asked : (void*)&questions};
  if (questions == -2) interrupt.size = 8;
  pyd_status_t status = pd->program_from_python(object, &program);
  if (pyd_ok(status)) status = pd->program_find(program, name, &function);
  if (pyd_ok(status)) status = pd->call_prepare(function, NULL, 0, (uint64_t[]){(uint64_t)n}, 1, &call);
  if (pyd_ok(status)) status = pd->call_bind_result(call, 0, view.buf, (size_t)view.len);
  if (pyd_ok(status)) {
    Py_BEGIN_ALLOW_THREADS
    status = pd->call_run_until(call, &interrupt);
    Py_END_ALLOW_THREADS
  }
  pd->call_release(call);
  PyObject *kind, *value, *trace;  // releasing a program may run Python code
  PyErr_Fetch(&kind, &value, &trace);
  pd->program_release(program);
  PyErr_Restore(kind, value, trace);
  PyBuffer_Release(&view);
  PyObject* out = PyErr_Occurred() ? NULL : Py_BuildValue("Is", pd->status_code(status), pd->status_text(status));
  pd->status_free(status);
  return out;
}

static PyMethodDef methods[] = {{"run", run, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "interrupt", .m_size = -1, .m_methods = methods};
PyMODINIT_FUNC PyInit_interrupt(void) {
  pd = pyd_api_import();
  return pd ? PyModule_Create(&definition) : NULL;
}
