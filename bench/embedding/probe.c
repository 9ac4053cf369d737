// Measures from C, for run.py: a prepared run through the function table, and the latency of loops.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <time.h>

#include "pydispatch/api.h"

static const pyd_api_t* pd;

// Returns nanoseconds.
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

// Frees a failed status after raising RuntimeError with its text; returns NULL.
static PyObject* refuse(pyd_status_t status) {
  PyErr_SetString(PyExc_RuntimeError, pd->status_text(status));
  pd->status_free(status);
  return NULL;
}

// call(program, function, n, runs, rebind) -> nanoseconds per run of a prepared call
//
// The function takes two tensors of n f32 and returns one. rebind: bind another buffer to its first argument before
// each run.
static PyObject* call(PyObject* module, PyObject* args) {
  PyObject* object;
  const char* name;
  long n, runs;
  int rebind;
  pyd_api_program_t* program = NULL;
  const pyd_api_function_t* function = NULL;
  pyd_api_call_t* handle = NULL;
  void* memory[3] = {NULL, NULL, NULL};
  (void)module;
  if (!PyArg_ParseTuple(args, "Osllp", &object, &name, &n, &runs, &rebind)) return NULL;
  const size_t bytes = (size_t)n * sizeof(float);
  pyd_status_t status = pd->program_from_python(object, &program);
  pyd_api_device_t* device = pd->program_device(program);
  if (pyd_ok(status)) status = pd->program_find(program, name, &function);
  if (pyd_ok(status)) status = pd->call_prepare(function, (int64_t[]){n, n}, 2, NULL /* scalars */, 0, &handle);
  for (int i = 0; i < 3 && pyd_ok(status); ++i) status = pd->pool_acquire(device, bytes, &memory[i]);
  if (pyd_ok(status)) status = pd->call_bind_argument(handle, 0, memory[0], bytes);
  if (pyd_ok(status)) status = pd->call_bind_argument(handle, 1, memory[1], bytes);
  if (pyd_ok(status)) status = pd->call_bind_result(handle, 0, memory[2], bytes);
  for (int i = 0; i < 100 && pyd_ok(status); ++i) status = pd->call_run(handle);  // warm-up
  if (!pyd_ok(status)) return refuse(status);
  double spent;
  Py_BEGIN_ALLOW_THREADS
  double start = now();
  if (rebind) {
    for (long i = 0; i < runs && pyd_ok(status); ++i) {
      status = pd->call_bind_argument(handle, 0, memory[i & 1], bytes);
      if (pyd_ok(status)) status = pd->call_run(handle);
    }
  } else {
    for (long i = 0; i < runs && pyd_ok(status); ++i) status = pd->call_run(handle);
  }
  spent = now() - start;
  Py_END_ALLOW_THREADS
  pd->call_release(handle);
  for (int i = 0; i < 3; ++i) pd->pool_release(device, memory[i]);
  pd->program_release(program);
  return pyd_ok(status) ? PyFloat_FromDouble(spent / (double)runs) : refuse(status);
}

// prepare(program, function, n, runs) -> nanoseconds per call_prepare and release
static PyObject* prepare(PyObject* module, PyObject* args) {
  PyObject* object;
  const char* name;
  long n, runs;
  pyd_api_program_t* program = NULL;
  const pyd_api_function_t* function = NULL;
  (void)module;
  if (!PyArg_ParseTuple(args, "Osll", &object, &name, &n, &runs)) return NULL;
  pyd_status_t status = pd->program_from_python(object, &program);
  if (pyd_ok(status)) status = pd->program_find(program, name, &function);
  double start = now();
  for (long i = 0; i < runs && pyd_ok(status); ++i) {
    pyd_api_call_t* handle = NULL;
    status = pd->call_prepare(function, (int64_t[]){n, n}, 2, NULL /* scalars */, 0, &handle);
    pd->call_release(handle);
  }
  double spent = now() - start;
  pd->program_release(program);
  return pyd_ok(status) ? PyFloat_FromDouble(spent / (double)runs) : refuse(status);
}

// The body of a loop for one point: spins |context| (a long) times and succeeds.
static int32_t touch(void* context, uint32_t x, uint32_t y, uint32_t z) {
  const long spin = *(long*)context;
  for (volatile long i = 0; i < spin; ++i) {
  }
  return (int32_t)((x & y & z) >> 31);  // 0, which the compiler cannot know, so that it must pass the indices
}

// loop(device, x, y, z, spin, runs, has_cost) -> nanoseconds per loop over x * y * z points
//
// spin >= 0: parallel_for, whose body spins so many times at each point. spin < 0: a plain loop in C, whose body spins
// -spin - 1 times. has_cost: pass a cost estimate, which parallel_for updates in each run.
static PyObject* loop(PyObject* module, PyObject* args) {
  PyObject* object;
  unsigned int x, y, z;
  long spin, runs;
  int has_cost;
  pyd_api_cost_t cost = {{0}};
  pyd_api_device_t* device = NULL;
  (void)module;
  if (!PyArg_ParseTuple(args, "OIIIllp", &object, &x, &y, &z, &spin, &runs, &has_cost)) return NULL;
  pyd_status_t status = pd->device_from_python(object, &device);
  double spent;
  Py_BEGIN_ALLOW_THREADS
  long plain = -spin - 1;
  double start = now();
  for (long run = 0; run < runs && pyd_ok(status); ++run) {
    if (spin >= 0) {
      status = pd->parallel_for(device, x, y, z, touch, &spin, has_cost ? &cost : NULL);
      continue;
    }
    int32_t (*volatile body)(void*, uint32_t, uint32_t, uint32_t) = touch;
    for (uint32_t k = 0; k < z; ++k) {
      for (uint32_t j = 0; j < y; ++j) {
        for (uint32_t i = 0; i < x; ++i) body(&plain, i, j, k);
      }
    }
  }
  spent = now() - start;
  Py_END_ALLOW_THREADS
  pd->device_release(device);
  return pyd_ok(status) ? PyFloat_FromDouble(spent / (double)runs) : refuse(status);
}

static PyMethodDef methods[] = {{"call", call, METH_VARARGS, NULL},
                                {"prepare", prepare, METH_VARARGS, NULL},
                                {"loop", loop, METH_VARARGS, NULL},
                                {NULL, NULL, 0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "embedding_probe", .m_size = -1, .m_methods = methods};

PyMODINIT_FUNC PyInit_embedding_probe(void) {
  pd = pyd_api_import();
  return pd ? PyModule_Create(&definition) : NULL;
}
