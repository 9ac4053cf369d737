// The result of every fallible function: NULL for success, otherwise a code and a text that names the fault, the
// offending number and the limit. A status is owned by its receiver and released with pyd_status_free.
#ifndef PYDISPATCH_STATUS_H_
#define PYDISPATCH_STATUS_H_

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// One row per code. _core/status.pyx maps each to an exception class; a test compares the two.
#define PYD_STATUS_CODES(X)                                                    \
  X(OK, 0)                                                                     \
  X(INVALID_ARGUMENT, 1) /* the caller passed something that does not fit */   \
  X(CORRUPT, 2)          /* bytes of an artifact, ELF or program are broken */ \
  X(UNSUPPORTED, 3)      /* well formed, but this build or machine cannot */   \
  X(MISSING_IMPORT, 4)   /* a required import has no provider */               \
  X(UNAVAILABLE, 5)      /* a device or a variant for it does not exist */     \
  X(KERNEL, 6)           /* a workgroup function returned non-zero */          \
  X(OUT_OF_MEMORY, 7)                                                          \
  X(SYSTEM, 8) /* the operating system refused; the text has its reason */     \
  X(INTERNAL, 9)                                                               \
  X(INTERRUPTED, 10) /* the caller requested an end; see pyd_interrupt_t */    \
  X(COMMAND, 11)     /* a host command failed */

// Ends a long operation early. |is_wanted| is polled on the waiting thread, between two chunks of work and while no
// lock is held; it is called often, so slow checks in it should run at intervals. Nonzero: the operation ends early,
// with INTERRUPTED, and does not poll again.
typedef struct pyd_interrupt_s {
  int32_t (*is_wanted)(void* self);
  void* self;
} pyd_interrupt_t;

typedef enum pyd_code_e {
#define X(name, value) PYD_CODE_##name = value,
  PYD_STATUS_CODES(X)
#undef X
} pyd_code_t;

// Opaque to callers. NULL means success, so success costs one register comparison.
typedef const struct pyd_status_payload_s* pyd_status_t;

// Success, which is not allocated.
#define PYD_STATUS_OK ((pyd_status_t)NULL)

static inline bool pyd_ok(pyd_status_t status) { return status == PYD_STATUS_OK; }

// Creates a status with a printf-style text. Never fails: without memory the text is dropped and the code kept.
pyd_status_t pyd_status_make(pyd_code_t code, const char* format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3), cold))
#endif
    ;

// Creates a status with numbers that a caller can act on without parsing the text. KERNEL: {command,
// workgroup x, y, z, code}; MISSING_IMPORT: {how many}; COMMAND: {command, 0, 0, 0, code}.
pyd_status_t pyd_status_make_values(pyd_code_t code, const int64_t values[5], const char* format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 3, 4), cold))
#endif
    ;

// Kinds of names that are attached to statuses. Each comment begins with the codes of statuses that have such names.
typedef enum pyd_status_name_e {
  PYD_STATUS_EXECUTABLE,  // KERNEL, MISSING_IMPORT: the executable that failed
  PYD_STATUS_EXPORT,      // KERNEL: the export of the executable whose workgroup failed
  PYD_STATUS_SYMBOL,      // MISSING_IMPORT: one for each unresolved import; COMMAND: the host command
  PYD_STATUS_LOCATION,    // any code: place of the failure in the source, "file:line" or "file:line:column", if known
  PYD_STATUS_CAUSE,       // any code: one for each text that pyd_status_annotate replaced, the latest first
} pyd_status_name_t;

// Attaches the |length| bytes at |name| (a copy) after the names of the same kind, for callers that act on it without
// parsing the text; returns |status|. Never fails: when memory is short the name is dropped.
pyd_status_t pyd_status_add_name(pyd_status_t status, pyd_status_name_t kind, const char* name, size_t length);

// Attaches an object of another runtime, such as an exception; returns |status|. |release| is called with it once, by
// pyd_status_free on any thread, perhaps while locks are held: it must not wait. Never fails: when memory is short the
// object is released at once.
pyd_status_t pyd_status_attach(pyd_status_t status, void* object, void (*release)(void* object));

// Replaces the text of |status| by one made from |format|, keeping code, values, names and object, and the old text as
// the first name of the kind PYD_STATUS_CAUSE; frees |status|. For adding names while propagating:
// pyd_status_annotate(st, "executable '%s': %s", name, pyd_status_text(st)).
pyd_status_t pyd_status_annotate(pyd_status_t status, const char* format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3), cold))
#endif
    ;

pyd_code_t pyd_status_code(pyd_status_t status);
// Valid until pyd_status_free. "" for success.
const char* pyd_status_text(pyd_status_t status);
// The five attached numbers, all zero when none were.
const int64_t* pyd_status_values(pyd_status_t status);
// Attached name |index| of a kind, valid until pyd_status_free; NULL when there are not so many.
const char* pyd_status_name(pyd_status_t status, pyd_status_name_t kind, uint32_t index);
// The attached object, valid until pyd_status_free; NULL when there is none.
void* pyd_status_object(pyd_status_t status);
void pyd_status_free(pyd_status_t status);

#ifdef __cplusplus
}
#endif
#endif  // PYDISPATCH_STATUS_H_
