// Executables, commands and times of programs and calls (api.h). Texts that are returned here end with their length,
// not with a NUL.
#ifndef PYDISPATCH_API_INSPECT_H_
#define PYDISPATCH_API_INSPECT_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// A text of a program, not terminated.
typedef struct pyd_api_text_s {
  const char* data;  // may be NULL when |length| is 0
  size_t length;
} pyd_api_text_t;

// An executable of a program. What it points to is valid while the program is. The caller sets |struct_size|; members
// that an older library does not have are left unchanged.
typedef struct pyd_api_executable_s {
  size_t struct_size;  // sizeof(pyd_api_executable_t): the structure grows at its end
  pyd_api_text_t name;
  uint32_t variant;  // index of the variant that was chosen for this machine, below |variant_count|
  uint32_t variant_count;
  uint32_t export_count;  // kernels of the chosen variant
  uint32_t import_count;
  const char* const* imports;  // symbols, each with a NUL; optional ones begin with '?'
} pyd_api_executable_t;

typedef enum pyd_api_command_kind_e {
  PYD_API_COMMAND_DISPATCH = 0,
  PYD_API_COMMAND_FILL = 1,
  PYD_API_COMMAND_COPY = 2,
  PYD_API_COMMAND_HOST = 3,
} pyd_api_command_kind_t;

// A command of a call. What it points to is valid while the call is. The caller sets |struct_size|; members that an
// older library does not have are left unchanged.
typedef struct pyd_api_command_s {
  size_t struct_size;  // sizeof(pyd_api_command_t): the structure grows at its end
  uint32_t kind;       // pyd_api_command_kind_t
  uint32_t region;     // commands of one region are independent and run at the same time, regions one after another
  pyd_api_text_t executable;  // of a dispatch
  pyd_api_text_t name;        // the export of a dispatch; a host command
  uint32_t grid[3];           // workgroups of a dispatch in x, y and z; zeros when it runs nothing
  uint32_t reserved;
  uint64_t bytes;  // of all its operands
} pyd_api_command_t;

// When a command ran: nanoseconds since its call began; both 0 when it ran nothing.
typedef struct pyd_api_time_s {
  uint64_t begin, end;
} pyd_api_time_t;

#ifdef __cplusplus
}
#endif
#endif  // PYDISPATCH_API_INSPECT_H_
