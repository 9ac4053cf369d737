// For C functions that kernels call on CPUs and GPUs: the threads that make the same call.
//
// On a CPU one thread runs a workgroup and calls a function once. On a GPU every thread of the workgroup calls it, with
// the same arguments, so a function that computes many elements should divide them:
//
//   for (size_t i = first + pyd_thread(); i < end; i += pyd_threads()) out[i] = a[i] * b[i];
//
// A function that does not, and only writes values computed from other buffers, is correct too: every thread then
// computes and writes everything. One that updates a buffer in place is not.
//
// Compiled for a CPU these are constants; no library is needed.
#ifndef PYDISPATCH_WORKGROUP_H_
#define PYDISPATCH_WORKGROUP_H_

#include <stddef.h>

#if defined(__NVPTX__)

// The linear index of this thread in its workgroup, x fastest.
static inline size_t pyd_thread(void) {
  const unsigned row = __nvvm_read_ptx_sreg_tid_y() + __nvvm_read_ptx_sreg_ntid_y() * __nvvm_read_ptx_sreg_tid_z();
  return __nvvm_read_ptx_sreg_tid_x() + __nvvm_read_ptx_sreg_ntid_x() * row;
}

// The number of threads in the workgroup.
static inline size_t pyd_threads(void) {
  return (size_t)__nvvm_read_ptx_sreg_ntid_x() * __nvvm_read_ptx_sreg_ntid_y() * __nvvm_read_ptx_sreg_ntid_z();
}

// A barrier for all threads of the workgroup, which makes their writes visible to each other. All of them must call it.
static inline void pyd_barrier(void) { __nvvm_bar_sync(0); }

#else  // a CPU: one thread runs the whole workgroup

static inline size_t pyd_thread(void) { return 0; }

static inline size_t pyd_threads(void) { return 1; }

static inline void pyd_barrier(void) {}

#endif

#endif  // PYDISPATCH_WORKGROUP_H_
