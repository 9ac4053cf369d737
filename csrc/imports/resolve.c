// Resolves the import table of one executable. This happens once per load, so a clear failure matters more than speed:
// the message names all missing imports, not only the first.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pydispatch/executable.h"

enum { kStackNames = 32 };  // names of more imports than this are put on the heap

static bool is_optional(const char* symbol) { return symbol[0] == '?'; }

static const char* bare_name(const char* symbol) { return symbol + (is_optional(symbol) ? 1 : 0); }

// Checks that each import has a name, and fills in the |names| to resolve: without the '?' of optional imports unless
// |keeps_marks|.
static pyd_status_t check_symbols(const char* executable, uint32_t count, const char* const* symbols, bool keeps_marks,
                                  const char** names) {
  if (!symbols)
    return pyd_status_make(PYD_CODE_CORRUPT, "executable '%s' has %u imports without names", executable, count);
  for (uint32_t i = 0; i < count; ++i) {
    if (!symbols[i] || !bare_name(symbols[i])[0]) {
      return pyd_status_make(PYD_CODE_CORRUPT, "executable '%s': import %u of %u has no name", executable, i, count);
    }
    names[i] = keeps_marks ? symbols[i] : bare_name(symbols[i]);
  }
  return PYD_STATUS_OK;
}

static bool is_missing(const char* symbol, pyd_import_fn_t function) { return !function && !is_optional(symbol); }

// Returns the required imports without a function as text, such as "'add', 'mul'", which the caller frees. NULL without
// memory.
static char* list_missing(uint32_t count, const char* const* symbols, const pyd_import_fn_t* functions) {
  size_t size = 1;  // of the text, with the 0 at its end
  for (uint32_t i = 0; i < count; ++i) {
    if (is_missing(symbols[i], functions[i])) size += strlen(symbols[i]) + 4;  // two quotes, comma, blank
  }
  char* list = malloc(size);
  if (!list) return NULL;
  size_t length = 0;
  for (uint32_t i = 0; i < count; ++i) {
    if (!is_missing(symbols[i], functions[i])) continue;
    length += (size_t)snprintf(list + length, size - length, "%s'%s'", length ? ", " : "", symbols[i]);
  }
  return list;
}

// Returns the failure that lists the required imports without a function; OK if there are none.
static pyd_status_t report_missing(const char* executable, uint32_t count, const char* const* symbols,
                                   const pyd_import_fn_t* functions) {
  uint32_t missing = 0;
  for (uint32_t i = 0; i < count; ++i) missing += is_missing(symbols[i], functions[i]);
  if (!missing) return PYD_STATUS_OK;
  const char* noun = missing == 1 ? "import" : "imports";
  const int64_t values[5] = {missing};
  pyd_status_t status = pyd_status_make_values(PYD_CODE_MISSING_IMPORT, values, "executable '%s' has %u unresolved %s",
                                               executable, missing, noun);
  status = pyd_status_add_name(status, PYD_STATUS_EXECUTABLE, executable, strlen(executable));
  char* list = list_missing(count, symbols, functions);
  if (!list) return status;  // without the list
  for (uint32_t i = 0; i < count; ++i) {
    if (!is_missing(symbols[i], functions[i])) continue;
    status = pyd_status_add_name(status, PYD_STATUS_SYMBOL, symbols[i], strlen(symbols[i]));
  }
  status = pyd_status_annotate(status, "%s: %s", pyd_status_text(status), list);
  free(list);
  return status;
}

// Finds the functions of |count| imported symbols, and their contexts, by |resolver|, which may be NULL. A symbol that
// begins with "?" is optional: its entry may stay NULL. All other symbols without a function are listed in one
// MISSING_IMPORT failure.
pyd_status_t pyd_imports_resolve(const char* executable, uint32_t count, const char* const* symbols,
                                 const pyd_resolver_t* resolver, pyd_import_fn_t* functions, void** contexts) {
  if (count == 0) return PYD_STATUS_OK;
  const char* stack_names[kStackNames];
  const char** names = count <= kStackNames ? stack_names : malloc(count * sizeof(*names));
  if (!names)
    return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "executable '%s': no memory for %u imports", executable, count);
  pyd_status_t status = check_symbols(executable, count, symbols, resolver && resolver->keeps_marks, names);
  if (pyd_ok(status) && resolver && resolver->resolve) {
    status = resolver->resolve(resolver->self, count, names, functions, contexts);
    status = pyd_status_annotate(status, "executable '%s': its imports cannot be resolved: %s", executable,
                                 pyd_status_text(status));
  }
  if (pyd_ok(status)) status = report_missing(executable, count, symbols, functions);
  if (names != stack_names) free(names);
  return status;
}
