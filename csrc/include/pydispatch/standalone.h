// The table of api.h for processes without Python: link libpydispatch, or build the files of csrc/ into your program
// (docs/embedding.md), fill a table once, and use it as extensions do. Differences: nothing takes a GIL; each
// device_open starts threads of its own; fork() is followed by exec() or exit() in the child. NULL are the slots that
// are about Python: device_from_python, program_from_python, is_signalled. The functions of device_add_import and
// device_add_command are released without a GIL. A program with code that devices supply is refused with UNSUPPORTED.
#ifndef PYDISPATCH_STANDALONE_H_
#define PYDISPATCH_STANDALONE_H_

#include "pydispatch/api.h"

#ifdef __cplusplus
extern "C" {
#endif

// Fills the first |size| bytes of the table at most, whole slots only, and sets out_table->size to what it has filled.
#if defined(PYD_BUILD_LIBRARY)
__attribute__((visibility("default")))
#endif
void pyd_standalone_fill_sized(pyd_api_t* out_table, size_t size);

// Fills a table of this header. A newer library fills no slots that the header does not have. An older one fills only
// its own, which out_table->size then ends with: before a program uses a slot that older libraries lack, it checks
// PYD_API_HAS.
#define pyd_standalone_fill(out_table) pyd_standalone_fill_sized((out_table), sizeof(pyd_api_t))

#ifdef __cplusplus
}
#endif
#endif  // PYDISPATCH_STANDALONE_H_
