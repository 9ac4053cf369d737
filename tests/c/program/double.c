// Stands in for csrc/executable: an executable is whatever library the test wrote down.
#include "program/builder.h"

const pyd_library_t* pyd_executable_library(const pyd_executable_t* executable) { return &executable->library; }
const pyd_environment_t* pyd_executable_environment(const pyd_executable_t* executable) {
  return &executable->environment;
}
pyd_span_t pyd_executable_image(const pyd_executable_t* executable) { return executable->image; }
