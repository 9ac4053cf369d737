// Dispatches whose embedded kernels follow the convention of Windows, for test_bridge.c.
#if defined(__x86_64__) && !defined(_WIN32)
#define PYD_EMBEDDED_CALL __attribute__((ms_abi))
#define pyd_command_type_DISPATCH dispatch_across
#include "program/commands/dispatch.c"
#else
typedef int nothing_t;
#endif
