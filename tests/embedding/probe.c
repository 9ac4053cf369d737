// An extension that uses the table in every way that needs Python, for test_embedding.py.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <pthread.h>
#include <stdatomic.h>

#include "pydispatch/api.h"

static const pyd_api_t* pd;

// (code, text) of |status|, freed.
static PyObject* told(pyd_status_t status) {
  PyObject* out = Py_BuildValue("Is", pd->status_code(status), pd->status_text(status));
  pd->status_free(status);
  return out;
}

// ---- threads that Python has never seen: each opens, loads, prepares, runs, compares, releases

typedef struct crew_s {
  const char *path, *bytes;
  size_t size;
  int64_t n;
  long runs;
  atomic_long wrong, refused;
} crew_t;

static void* work(void* argument) {
  crew_t* crew = argument;
  pyd_api_device_t* device = NULL;
  pyd_api_program_t* program = NULL;
  pyd_api_call_t* call = NULL;
  const pyd_api_function_t* chain = NULL;
  const size_t bytes = (size_t)crew->n * sizeof(float);
  float* memory[3] = {NULL, NULL, NULL};
  pyd_status_t status = pd->device_open("cpu?workers=2", &device);
  if (pyd_ok(status)) {
    status = crew->path ? pd->program_load_file(device, crew->path, &program)
                        : pd->program_load_bytes(device, crew->bytes, crew->size, &program);
  }
  if (pyd_ok(status)) status = pd->program_find(program, "chain", &chain);
  if (pyd_ok(status)) status = pd->call_prepare(chain, (int64_t[]){crew->n, crew->n}, 2, NULL, 0, &call);
  for (int i = 0; i < 3 && pyd_ok(status); ++i) status = pd->pool_acquire(device, bytes, (void**)&memory[i]);
  if (pyd_ok(status)) status = pd->call_bind_argument(call, 0, memory[0], bytes);
  if (pyd_ok(status)) status = pd->call_bind_argument(call, 1, memory[1], bytes);
  if (pyd_ok(status)) status = pd->call_bind_result(call, 0, memory[2], bytes);
  pd->program_release(program);
  for (long run = 0; run < crew->runs && pyd_ok(status); ++run) {
    for (int64_t i = 0; i < crew->n; ++i) memory[0][i] = (float)i, memory[1][i] = (float)run;
    status = pd->call_run(call);
    for (int64_t i = 0; i < crew->n && pyd_ok(status); ++i) {
      const float a = memory[0][i], b = memory[1][i];
      crew->wrong += memory[2][i] != a * b * b + a;
    }
  }
  pd->call_release(call);
  pd->device_release(device);
  for (int i = 0; i < 3; ++i) pd->pool_release(device, memory[i]);
  if (!pyd_ok(status)) fprintf(stderr, "%s\n", pd->status_text(status));
  crew->refused += !pyd_ok(status);
  pd->status_free(status);
  return NULL;
}

// crew(path or None, bytes, n, threads, runs) -> (wrong elements, threads that were refused something)
static PyObject* crew(PyObject* module, PyObject* args) {
  crew_t crew = {0};
  int count;
  Py_ssize_t size, n;
  (void)module;
  if (!PyArg_ParseTuple(args, "zy#nil:crew", &crew.path, &crew.bytes, &size, &n, &count, &crew.runs)) return NULL;
  crew.size = (size_t)size;
  crew.n = n;
  pthread_t threads[16];
  int started = 0;
  Py_BEGIN_ALLOW_THREADS
  while (started < count && started < 16 && !pthread_create(&threads[started], NULL, work, &crew)) ++started;
  for (int i = 0; i < started; ++i) pthread_join(threads[i], NULL);
  Py_END_ALLOW_THREADS
  return Py_BuildValue("ll", (long)crew.wrong, (long)crew.refused);
}

// ---- what is refused

// open(name or None) -> (code, text)
static PyObject* open_device(PyObject* module, PyObject* args) {
  const char* name;
  pyd_api_device_t* device = (pyd_api_device_t*)args;
  (void)module;
  if (!PyArg_ParseTuple(args, "z:open", &name)) return NULL;
  pyd_status_t status = pd->device_open(name, &device);
  if (!pyd_ok(status) && device) return PyErr_Format(PyExc_AssertionError, "the handle is not NULL after a failure");
  pd->device_release(device);
  return told(status);
}

// load(path or None, bytes or None) -> (code, text)
static PyObject* load(PyObject* module, PyObject* args) {
  const char *path, *data;
  Py_ssize_t size;
  pyd_api_device_t* device = NULL;
  pyd_api_program_t* program = (pyd_api_program_t*)args;
  (void)module;
  if (!PyArg_ParseTuple(args, "zz#:load", &path, &data, &size)) return NULL;
  pyd_status_t status = pd->device_open("cpu", &device);
  if (pyd_ok(status)) {
    status = data ? pd->program_load_bytes(device, data, (size_t)size, &program)
                  : pd->program_load_file(device, path, &program);
  }
  if (!pyd_ok(status) && program) return PyErr_Format(PyExc_AssertionError, "the handle is not NULL after a failure");
  pd->device_release(device);
  pd->program_release(program);
  return told(status);
}

// wrap(object, is_device) -> (code, text, number of functions or workers)
static PyObject* wrap(PyObject* module, PyObject* args) {
  PyObject* object;
  int is_device;
  pyd_api_device_t* device = NULL;
  pyd_api_program_t* program = NULL;
  (void)module;
  if (!PyArg_ParseTuple(args, "Op:wrap", &object, &is_device)) return NULL;
  pyd_status_t status = is_device ? pd->device_from_python(object, &device) : pd->program_from_python(object, &program);
  unsigned int number = is_device ? pd->device_workers(device) : pd->program_function_count(program);
  pd->device_release(device);
  pd->program_release(program);
  PyObject* out = Py_BuildValue("IsI", pd->status_code(status), pd->status_text(status), number);
  pd->status_free(status);
  return out;
}

static PyObject* nulls(PyObject* module, PyObject* args) {
  pyd_api_device_t* device = NULL;
  pyd_api_program_t* program = NULL;
  (void)module, (void)args;
  return Py_BuildValue("NNNNNNNN", told(pd->device_open("cpu", NULL)), told(pd->device_open(NULL, &device)),
                       told(pd->device_from_python(NULL, &device)), told(pd->device_from_python(Py_None, NULL)),
                       told(pd->program_load_file(NULL, "x", &program)), told(pd->program_load_bytes(NULL, "x", 1, NULL)),
                       told(pd->program_from_python(NULL, &program)), told(pd->program_from_python(Py_None, NULL)));
}

// pending(path) -> the exception that was there before everything was called, and still is
static PyObject* pending(PyObject* module, PyObject* args) {
  const char* path;
  pyd_api_device_t* device = NULL;
  pyd_api_program_t* program = NULL;
  (void)module;
  if (!PyArg_ParseTuple(args, "s:pending", &path)) return NULL;
  PyErr_SetString(PyExc_KeyError, "mine");
  pd->status_free(pd->device_open("nonsense", &device));
  pd->status_free(pd->device_open("cpu", &device));
  pd->status_free(pd->program_load_file(device, "/nonsense", &program));
  pd->status_free(pd->program_load_file(device, path, &program));
  pd->program_release(program);
  pd->device_release(device);
  return NULL;
}

// ---- handles that live in Python objects

static void forget(PyObject* capsule) { pd->call_release(PyCapsule_GetPointer(capsule, NULL)); }

// keep(program) -> a capsule with a prepared call of chain, which runs in run(capsule)
static PyObject* keep(PyObject* module, PyObject* object) {
  static float memory[8];
  pyd_api_program_t* program = NULL;
  const pyd_api_function_t* chain = NULL;
  pyd_api_call_t* call = NULL;
  (void)module;
  pyd_status_t status = pd->program_from_python(object, &program);
  if (pyd_ok(status)) status = pd->program_find(program, "chain", &chain);
  if (pyd_ok(status)) status = pd->call_prepare(chain, (int64_t[]){8, 8}, 2, NULL, 0, &call);
  if (pyd_ok(status)) status = pd->call_bind_argument(call, 0, memory, 32);
  if (pyd_ok(status)) status = pd->call_bind_argument(call, 1, memory, 32);
  if (pyd_ok(status)) status = pd->call_bind_result(call, 0, memory, 32);
  pd->program_release(program);
  if (pyd_ok(status)) return PyCapsule_New(call, NULL, forget);
  PyErr_SetString(PyExc_RuntimeError, pd->status_text(status));
  pd->status_free(status);
  return NULL;
}

static PyObject* run(PyObject* module, PyObject* capsule) {
  (void)module;
  return told(pd->call_run(PyCapsule_GetPointer(capsule, NULL)));
}

// A thread that goes on while the interpreter ends, and then comes with a release and an open.
static void* outlive(void* call) {
  for (int i = 0; i < 2000000 && Py_IsInitialized(); ++i) pd->status_free(pd->call_run(call));
  pyd_api_device_t* device = NULL;
  pd->call_release(call);
  pd->status_free(pd->device_open("cpu", &device));
  return NULL;
}
static PyObject* detach(PyObject* module, PyObject* capsule) {
  pthread_t thread;
  (void)module;
  if (PyCapsule_SetDestructor(capsule, NULL)) return NULL;
  if (pthread_create(&thread, NULL, outlive, PyCapsule_GetPointer(capsule, NULL))) return PyErr_NoMemory();
  pthread_detach(thread);
  Py_RETURN_NONE;
}

// ---- calls in flight

static atomic_long outcomes[PYD_API_SKIPPED + 1];

static void count_outcome(void* context, pyd_api_event_t* event) {
  (void)context;
  atomic_fetch_add(&outcomes[pd->event_outcome(event)], 1);
}

// fly(path, count, forgets) -> (code, text) of submitting |count| calls of a device that only they keep. Either their events are waited for
// and released last, or nobody has them, so that the last call to end lets go of program and device on a thread of that device.
static PyObject* fly(PyObject* module, PyObject* args) {
  static float memory[3][8];
  const char* path;
  int count, forgets;
  pyd_api_device_t* device = NULL;
  pyd_api_program_t* program = NULL;
  const pyd_api_function_t* chain = NULL;
  pyd_api_event_t* last = NULL;
  (void)module;
  if (!PyArg_ParseTuple(args, "sip", &path, &count, &forgets)) return NULL;
  pyd_status_t status;
  Py_BEGIN_ALLOW_THREADS
  status = pd->device_open("cpu?workers=3", &device);
  if (pyd_ok(status)) status = pd->program_load_file(device, path, &program);
  if (pyd_ok(status)) status = pd->program_find(program, "chain", &chain);
  for (int i = 0; i < count && pyd_ok(status); ++i) {
    pyd_api_call_t* call = NULL;
    pyd_api_event_t* event = NULL;
    const pyd_api_submit_t options = {
        .struct_size = sizeof(options), .on_done = count_outcome, .after = &last, .after_count = last != NULL};
    status = pd->call_prepare(chain, (int64_t[]){8, 8}, 2, NULL, 0, &call);
    if (pyd_ok(status)) status = pd->call_bind_argument(call, 0, memory[0], 32);
    if (pyd_ok(status)) status = pd->call_bind_argument(call, 1, memory[1], 32);
    if (pyd_ok(status)) status = pd->call_bind_result(call, 0, memory[2], 32);
    if (pyd_ok(status)) status = pd->call_submit(call, &options, &event);
    pd->call_release(call);
    pd->event_release(last);
    last = event;
  }
  pd->program_release(program);
  pd->device_release(device);
  if (pyd_ok(status) && !forgets) status = pd->event_wait(last, PYD_API_FOREVER, NULL, NULL);
  pd->event_release(last);
  Py_END_ALLOW_THREADS
  return told(status);
}

static atomic_long thread_starts, thread_stops;
static void count_start(void* context, uint32_t worker) { atomic_fetch_add((atomic_long*)context, 1 + 0 * worker); }
static void count_stop(void* context, uint32_t worker) { (void)context, atomic_fetch_add(&thread_stops, 1 + 0 * worker); }

static void* lend(void* device) { return (void*)pd->device_lend_thread(device, NULL); }

// own(path, workers, lends) -> ((code, text), started, stopped): a device of its own, on whose threads, or on one that is lent, a call runs.
static PyObject* own(PyObject* module, PyObject* args) {
  static float memory[3][8];
  const char* path;
  unsigned workers, lends;
  (void)module;
  if (!PyArg_ParseTuple(args, "sII", &path, &workers, &lends)) return NULL;
  const pyd_api_device_options_t options = {
      .struct_size = sizeof(options), .workers = workers, .lends_threads = lends, .on_thread_start = count_start,
      .on_thread_stop = count_stop, .context = &thread_starts};
  pyd_api_device_t* device = NULL;
  pyd_api_program_t* program = NULL;
  const pyd_api_function_t* chain = NULL;
  pyd_api_call_t* call = NULL;
  pyd_api_event_t* event = NULL;
  pthread_t lent;
  uint32_t outcome = PYD_API_PENDING;
  pyd_status_t status;
  thread_starts = thread_stops = 0;
  Py_BEGIN_ALLOW_THREADS
  status = pd->device_create(&options, &device);
  bool has_lent = pyd_ok(status) && lends && !pthread_create(&lent, NULL, lend, device);
  if (pyd_ok(status)) status = pd->program_load_file(device, path, &program);
  if (pyd_ok(status)) status = pd->program_find(program, "chain", &chain);
  if (pyd_ok(status)) status = pd->call_prepare(chain, (int64_t[]){8, 8}, 2, NULL, 0, &call);
  for (uint32_t i = 0; i < 2 && pyd_ok(status); ++i) status = pd->call_bind_argument(call, i, memory[i], 32);
  if (pyd_ok(status)) status = pd->call_bind_result(call, 0, memory[2], 32);
  while (has_lent && !thread_starts) sched_yield();
  if (pyd_ok(status)) status = pd->call_submit(call, NULL, &event);
  while (pyd_ok(status) && (outcome = pd->event_outcome(event)) == PYD_API_PENDING) sched_yield();
  if (device) pd->status_free(pd->device_close(device));
  if (has_lent) pthread_join(lent, NULL);
  pd->event_release(event), pd->call_release(call), pd->program_release(program), pd->device_release(device);
  Py_END_ALLOW_THREADS
  return Py_BuildValue("NIll", told(status), outcome, (long)thread_starts, (long)thread_stops);
}

static PyObject* flown(PyObject* module, PyObject* unused) {
  (void)module, (void)unused;
  return Py_BuildValue("lllll", outcomes[0], outcomes[1], outcomes[2], outcomes[3], outcomes[4]);
}

// ---- functions for the imports of programs

typedef struct mul_params_s {
  const float* lhs;
  size_t lhs_offset;
  const float* rhs;
  size_t rhs_offset;
  float* out;
  size_t out_offset, size, first;
} mul_params_t;

static int simple_mul(void* params, void* context, void* reserved) {
  const mul_params_t* p = params;
  const float scale = *(const float*)context;
  (void)reserved;
  for (size_t i = p->first; i < p->size && i < p->first + 64; ++i) {
    p->out[p->out_offset + i] = p->lhs[p->lhs_offset + i] * p->rhs[p->rhs_offset + i] * scale;
  }
  return 0;
}

static float scale = 1;  // of the plugin
static pyd_plugin_status_t plugin_load(const pyd_plugin_environment_t* environment, size_t count,
                                       const pyd_plugin_param_t* params, void** out_self) {
  (void)environment, (void)count, (void)params;
  *out_self = NULL;
  return 0;
}
static pyd_plugin_status_t plugin_resolve(void* self, const pyd_plugin_resolve_params_t* params,
                                          pyd_plugin_resolution_t* out_resolution) {
  const pyd_plugin_entry_t entry = {"simple_mul_workgroup", simple_mul, &scale};
  (void)self;
  return pyd_plugin_resolve_from(&entry, 1, params, out_resolution);
}
static const pyd_plugin_header_t* const* plugin_query(uint32_t version, void* reserved) {
  static const pyd_plugin_header_t header = {.version = PYD_PLUGIN_VERSION, .name = "probe", .description = "a test"};
  static const pyd_plugin_table_t table = {&header, plugin_load, NULL, plugin_resolve};
  (void)reserved;
  return version >= PYD_PLUGIN_VERSION ? (const pyd_plugin_header_t* const*)&table : NULL;
}

static void count_release(void* owner) { *(int*)owner += PyGILState_Check() ? 1 : 100; }

static pyd_status_t multiply(pyd_api_program_t* program, float a, float b, float* out) {
  const pyd_api_function_t* function = NULL;
  pyd_api_call_t* call = NULL;
  pyd_status_t status = pd->program_find(program, "multiply", &function);
  if (pyd_ok(status)) status = pd->call_prepare(function, (int64_t[]){1, 1}, 2, NULL, 0, &call);
  if (pyd_ok(status)) status = pd->call_bind_argument(call, 0, &a, 4);
  if (pyd_ok(status)) status = pd->call_bind_argument(call, 1, &b, 4);
  if (pyd_ok(status)) status = pd->call_bind_result(call, 0, out, 4);
  if (pyd_ok(status)) status = pd->call_run(call);
  pd->call_release(call);
  return status;
}

// provide(path) -> what happened, in order
static PyObject* provide(PyObject* module, PyObject* args) {
  static float twice = 2, thrice = 3;
  const char* path;
  int released = 0;
  float out = 0;
  pyd_status_t status;
  uint64_t ids[3] = {7, 7, 7};
  pyd_api_device_t* device = NULL;
  pyd_api_program_t *program = NULL, *second = NULL;
  (void)module;
  if (!PyArg_ParseTuple(args, "s:provide", &path)) return NULL;
  PyObject* list = PyList_New(0);
#define NOTE(format, ...)                                     \
  do {                                                        \
    PyObject* item_ = Py_BuildValue(format, __VA_ARGS__);     \
    if (item_) PyList_Append(list, item_);                    \
    Py_XDECREF(item_);                                        \
  } while (0)
  NOTE("N", told(pd->device_open("local-sync", &device)));
  NOTE("N", told(pd->program_load_file(device, path, &program)));  // nobody provides it yet
  NOTE("N", told(pd->device_add_plugin(device, "mine", plugin_query, 0, &ids[0])));
  NOTE("N", told(pd->program_load_file(device, path, &program)));
  status = multiply(program, 5, 6, &out);
  NOTE("Nf", told(status), out);  // 30
  NOTE("N", told(pd->device_add_import(device, "simple_mul_workgroup", simple_mul, &twice, 0, count_release, &released, &ids[1])));
  NOTE("N", told(pd->device_add_import(device, "simple_mul_workgroup", simple_mul, &thrice, -1, NULL, NULL, NULL)));
  NOTE("N", told(pd->program_load_file(device, path, &second)));
  status = multiply(second, 5, 6, &out);
  NOTE("Nf", told(status), out);   // 60: the last one of the highest priority
  status = multiply(program, 5, 6, &out);
  NOTE("Nf", told(status), out);  // 30: as it was loaded
  NOTE("i", released);
  NOTE("N", told(pd->device_remove_provider(device, ids[1])));
  NOTE("N", told(pd->device_remove_provider(device, ids[1])));
  status = multiply(second, 5, 6, &out);
  NOTE("Nf", told(status), out);  // 60: still
  NOTE("i", released);
  pd->program_release(second);
  NOTE("i", released);
  status = pd->device_add_import(device, "?", simple_mul, NULL, 0, count_release, &released, &ids[2]);
  NOTE("NK", told(status), ids[2]);
  NOTE("N", told(pd->device_add_import(device, NULL, simple_mul, NULL, 0, NULL, NULL, NULL)));
  NOTE("N", told(pd->device_add_import(device, "f", NULL, NULL, 0, NULL, NULL, NULL)));
  NOTE("N", told(pd->device_add_plugin(NULL, "f", plugin_query, 0, NULL)));
  NOTE("N", told(pd->device_remove_provider(NULL, 1)));
  NOTE("i", released);
  pd->program_release(program);
  pd->device_release(device);
  return list;
}

static PyMethodDef methods[] = {
    {"provide", provide, METH_VARARGS, NULL}, {"fly", fly, METH_VARARGS, NULL},          {"flown", flown, METH_NOARGS, NULL},
    {"own", own, METH_VARARGS, NULL},
    {"crew", crew, METH_VARARGS, NULL},       {"open", open_device, METH_VARARGS, NULL}, {"load", load, METH_VARARGS, NULL},
    {"wrap", wrap, METH_VARARGS, NULL},       {"nulls", nulls, METH_NOARGS, NULL},       {"pending", pending, METH_VARARGS, NULL},
    {"keep", keep, METH_O, NULL},             {"run", run, METH_O, NULL},                {"detach", detach, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "probe", .m_size = -1, .m_methods = methods};

PyMODINIT_FUNC PyInit_probe(void) {
  pd = pyd_api_import();
  return pd ? PyModule_Create(&definition) : NULL;
}
