// Readers of single zip records. None of them reads outside the span that it is given.
#ifndef PYD_ARTIFACT_ZIP_READ_H_
#define PYD_ARTIFACT_ZIP_READ_H_

#include "artifact/zip.h"
#include "pydispatch/span.h"
#include "pydispatch/status.h"

// Finds the end record (and its zip64 form). The directory that it names is inside |file| and ends at the record.
pyd_status_t pyd_zip_read_end(pyd_span_t file, pyd_zip_end_t* out_end);

// Reads the entry at |*offset| of |directory| and moves |*offset| past it. |index| is for messages.
pyd_status_t pyd_zip_read_entry(pyd_span_t directory, uint64_t* offset, uint64_t index, pyd_zip_entry_t* out_entry);

// Reads the local header at |offset|. False, with the fault in words, when it is none. The data starts at
// |*out_data_offset|, which is inside |file| or at its end.
bool pyd_zip_read_local(pyd_span_t file, uint64_t offset, pyd_zip_entry_t* out_entry, uint64_t* out_data_offset,
                        const char** out_fault);

#endif  // PYD_ARTIFACT_ZIP_READ_H_
