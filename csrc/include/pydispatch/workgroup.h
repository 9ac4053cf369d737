// Functions in C that a kernel calls, on a CPU and on a GPU alike: who else calls them.
//
// On a CPU one thread runs a workgroup and calls a function once. On a GPU every thread of the workgroup calls it, with
// the same arguments, so that a function that computes many elements should share them out:
//
//   for (size_t i = first + pyd_thread(); i < end; i += pyd_threads()) out[i] = a[i] * b[i];
//
// A function that does not, and writes only what it computes from other buffers, is right as well: every thread then
// computes and writes everything. One that updates a buffer in place is not.
//
// Compiled for a CPU these are constants; nothing here needs a library.
#ifndef PYDISPATCH_WORKGROUP_H_
#define PYDISPATCH_WORKGROUP_H_

#include <stddef.h>

#if defined(__NVPTX__)

// The number of this thread in its workgroup, in the order x, y, z.
static inline size_t pyd_thread(void) {
  const unsigned row = __nvvm_read_ptx_sreg_tid_y() + __nvvm_read_ptx_sreg_ntid_y() * __nvvm_read_ptx_sreg_tid_z();
  return __nvvm_read_ptx_sreg_tid_x() + __nvvm_read_ptx_sreg_ntid_x() * row;
}

// How many threads the workgroup has.
static inline size_t pyd_threads(void) {
  return (size_t)__nvvm_read_ptx_sreg_ntid_x() * __nvvm_read_ptx_sreg_ntid_y() * __nvvm_read_ptx_sreg_ntid_z();
}

// Waits for all threads of the workgroup, and makes what they wrote visible to each other. All of them must call it.
static inline void pyd_barrier(void) { __nvvm_bar_sync(0); }

#else

static inline size_t pyd_thread(void) { return 0; }

static inline size_t pyd_threads(void) { return 1; }

static inline void pyd_barrier(void) {}

#endif

#endif  // PYDISPATCH_WORKGROUP_H_
