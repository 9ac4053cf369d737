// A C extension that runs a program of pydispatch on a thread of its own, and borrows the threads of pydispatch for a
// loop. Neither holds the GIL while it works.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <pthread.h>

#include "pydispatch/api.h"

static const pyd_api_t* pd;

// Raises the failure |status| as a Python exception, and frees it. Returns NULL, as a function that has raised must.
static PyObject* raise_status(pyd_status_t status) {
  PyErr_Format(pd->status_code(status) == PYD_CODE_INVALID_ARGUMENT ? PyExc_ValueError : PyExc_RuntimeError, "%s",
               pd->status_text(status));
  pd->status_free(status);
  return NULL;
}

// ---- repeat: y = f(a, b), many times, on a thread that Python knows nothing of

typedef struct job_s {
  pyd_api_call_t* call;
  unsigned long runs;   // how often the call is run
  pyd_status_t status;  // of the first run that failed
} job_t;

// The main function of the thread. |argument|: a job_t. It needs no GIL.
static void* run_job(void* argument) {
  job_t* job = argument;
  for (unsigned long i = 0; i < job->runs && pyd_ok(job->status); ++i) job->status = pd->call_run(job->call);
  return NULL;
}

// Prepares a call of function |name|, which takes two f32 vectors, with the memory of |a| and |b|.
static pyd_status_t prepare(pyd_api_program_t* program, const char* name, const Py_buffer* a, const Py_buffer* b,
                            pyd_api_call_t** out_call) {
  const pyd_api_function_t* function = NULL;
  pyd_status_t status = pd->program_find(program, name, &function);
  const int64_t dims[2] = {(int64_t)(a->len / (Py_ssize_t)sizeof(float)), (int64_t)(b->len / (Py_ssize_t)sizeof(float))};
  if (pyd_ok(status)) status = pd->call_prepare(function, dims, 2, /* scalars */ NULL, 0, out_call);
  if (pyd_ok(status)) status = pd->call_bind_argument(*out_call, 0, a->buf, (size_t)a->len);
  if (pyd_ok(status)) status = pd->call_bind_argument(*out_call, 1, b->buf, (size_t)b->len);
  return status;
}

// Loads the artifact at |path|, and prepares a call. The call holds what it needs, so the program and the device may be
// released before it runs.
static pyd_status_t load(const char* path, const char* name, const Py_buffer* a, const Py_buffer* b,
                         pyd_api_call_t** out_call) {
  pyd_api_device_t* device = NULL;
  pyd_api_program_t* program = NULL;
  pyd_status_t status = pd->device_open("cpu", &device);
  if (pyd_ok(status)) status = pd->program_load_file(device, path, &program);
  if (pyd_ok(status)) status = prepare(program, name, a, b, out_call);
  pd->program_release(program);
  pd->device_release(device);
  return status;
}

// Runs the call on a new thread, or on this one if none can be started, without the GIL. Returns the bytes of result 0.
static PyObject* repeat(PyObject* module, PyObject* args) {
  const char *path, *name;
  Py_buffer a, b;
  job_t job = {.status = PYD_STATUS_OK};
  PyObject* out = NULL;
  (void)module;
  if (!PyArg_ParseTuple(args, "ssy*y*k:repeat", &path, &name, &a, &b, &job.runs)) return NULL;
  job.status = load(path, name, &a, &b, &job.call);
  if (pyd_ok(job.status)) out = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)pd->call_result_bytes(job.call, 0));
  if (out) job.status = pd->call_bind_result(job.call, 0, PyBytes_AS_STRING(out), (size_t)PyBytes_GET_SIZE(out));
  if (out && pyd_ok(job.status)) {
    Py_BEGIN_ALLOW_THREADS
    pthread_t thread;
    if (pthread_create(&thread, NULL, run_job, &job) == 0) {
      pthread_join(thread, NULL);
    } else {
      run_job(&job);
    }
    Py_END_ALLOW_THREADS
  }
  pd->call_release(job.call);
  PyBuffer_Release(&a);
  PyBuffer_Release(&b);
  if (pyd_ok(job.status)) return out;
  Py_XDECREF(out);
  return raise_status(job.status);
}

// ---- distances: a plain loop over x, y, z on pydispatch's threads

typedef struct field_s {
  float* out;            // of all points, x fastest
  unsigned int x, y, z;  // points along the axes
} field_t;

// Computes one point. |context|: a field_t. Returns 0: it cannot fail.
static int32_t square_distance(void* context, uint32_t x, uint32_t y, uint32_t z) {
  const field_t* field = context;
  field->out[((size_t)z * field->y + y) * field->x + x] = (float)x * x + (float)y * y + (float)z * z;
  return 0;
}

static PyObject* distances(PyObject* module, PyObject* args) {
  static pyd_api_cost_t cost;  // what the task system learns about this loop
  field_t field;
  pyd_api_device_t* device = NULL;
  (void)module;
  if (!PyArg_ParseTuple(args, "III:distances", &field.x, &field.y, &field.z)) return NULL;
  size_t points = (size_t)field.x * field.y * field.z;
  PyObject* out = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(points * sizeof(float)));
  if (!out) return NULL;
  field.out = (float*)(void*)PyBytes_AS_STRING(out);
  pyd_status_t status = pd->device_open("cpu", &device);
  if (pyd_ok(status)) {
    Py_BEGIN_ALLOW_THREADS
    status = pd->parallel_for(device, field.x, field.y, field.z, square_distance, &field, &cost);
    Py_END_ALLOW_THREADS
  }
  pd->device_release(device);
  if (pyd_ok(status)) return out;
  Py_DECREF(out);
  return raise_status(status);
}

static PyMethodDef methods[] = {
    {"repeat", repeat, METH_VARARGS, "repeat(path, function, a, b, runs): bytes of f(a, b), float32 vectors, run again and again"},
    {"distances", distances, METH_VARARGS, "distances(x, y, z): float32 bytes, x*x + y*y + z*z of every point of the grid"},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "embedded", .m_size = -1, .m_methods = methods};

PyMODINIT_FUNC PyInit_embedded(void) {
  pd = pyd_api_import();
  return pd ? PyModule_Create(&definition) : NULL;
}
