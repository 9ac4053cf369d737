// The process-wide mutable state: code registered with debuggers and profilers, fork handlers, objects known by
// number, the scopes of each thread, and the compute permits that all schedulers share.
// Every function may be called from any thread.
#ifndef PYDISPATCH_PROCESS_H_
#define PYDISPATCH_PROCESS_H_

#include "pydispatch/sched.h"
#include "pydispatch/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- code loaded at run time

// A function or an object in loaded code.
typedef struct pyd_process_symbol_s {
  const char* name;
  const void* address;
  // Bytes; 0 when unknown: a function in the image then ends where the next symbol begins, or the image.
  uint64_t size;
  bool is_function;  // false: data
} pyd_process_symbol_t;

// Loaded code, as debuggers and profilers learn of it.
typedef struct pyd_process_code_info_s {
  const char* name;     // of the module, for the debugger's list
  const void* address;  // of the image, its first byte; NULL for a library that the system's loader has loaded
  uint64_t size;        // bytes of the image; 0 for such a library
  uint32_t machine;     // ELF machine number
  const pyd_process_symbol_t* symbols;
  size_t symbol_count;
} pyd_process_code_info_t;

typedef struct pyd_process_code_s pyd_process_code_t;

// Registers code with gdb and lldb through the JIT interface: a small ELF image with the symbols at their addresses.
// With |perf_map| its functions are also appended to /tmp/perf-<pid>.map (perf assigns an address to the entry with
// start <= address < start + size); failure to write there is ignored. Nothing in |info| is kept. OUT_OF_MEMORY.
pyd_status_t pyd_process_code_register(const pyd_process_code_info_t* info, bool perf_map,
                                       pyd_process_code_t** out_code);
// Removes the registration; call it before the code is unmapped. NULL is allowed. (A perf map cannot be shortened.)
void pyd_process_code_unregister(pyd_process_code_t* code);

// ---- fork

typedef void (*pyd_process_atfork_fn_t)(void* self);

// Adds fork handlers: |prepare| runs before a fork, in reverse order of adding, and then |parent| or |child|, in order,
// each with |self|. Any of the three may be NULL. They must not call functions of this header, whose lock is held
// meanwhile. To avoid lock order inversion, callers of add and remove must hold no lock that a handler takes.
// One entry per |self|: INVALID_ARGUMENT for a second one. OUT_OF_MEMORY.
pyd_status_t pyd_process_atfork_add(void* self, pyd_process_atfork_fn_t prepare, pyd_process_atfork_fn_t parent,
                                    pyd_process_atfork_fn_t child);
// When it returns, no handler of |self| runs or will run. Unknown |self| is ignored.
void pyd_process_atfork_remove(void* self);

// ---- objects that other runtimes know by number

// Takes a reference to |self|; its address identifies the type of |self|. It must not call functions of this header.
typedef void (*pyd_process_retain_fn_t)(void* self);

// Adds |self| under |number|. INVALID_ARGUMENT when the number is taken; OUT_OF_MEMORY.
pyd_status_t pyd_process_number_add(uint64_t number, void* self, pyd_process_retain_fn_t retain);
// An unknown number is ignored.
void pyd_process_number_remove(uint64_t number);
// Returns the object that was added under |number| with |retain|, retained by it, so that it survives a concurrent
// removal; NULL when there is no object of this type.
void* pyd_process_number_find(uint64_t number, pyd_process_retain_fn_t retain);

// ---- scopes of threads (sched.h)

const pyd_scope_t* pyd_process_scope_get(void);
void pyd_process_scope_set(const pyd_scope_t* scope);

// ---- compute permits (sched.h)

// Create the permits at the first call, with fork handlers. NULL when that failed: each scheduler then has permits of
// its own.
pyd_permits_t* pyd_process_permits(void);

#ifdef __cplusplus
}
#endif
#endif  // PYDISPATCH_PROCESS_H_
