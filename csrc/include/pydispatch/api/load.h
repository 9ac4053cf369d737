// Sources of a program: files, bytes and parameters (api.h).
#ifndef PYDISPATCH_API_LOAD_H_
#define PYDISPATCH_API_LOAD_H_

#include <stddef.h>
#include <stdint.h>

#include "pydispatch/api/memory.h"

#ifdef __cplusplus
extern "C" {
#endif

// A parameter of a program, by its scope ("" without one) and key: the program holds the memory as long as it exists,
// and uses it in place where it is in row-major order and aligned as the program needs it.
typedef struct pyd_api_parameter_s {
  const char* scope;
  const char* key;
  pyd_api_memory_t* memory;
} pyd_api_parameter_t;

// A .safetensors file with parameters of a scope. It is mapped, not copied. With Python also an .npz or .npy file.
typedef struct pyd_api_parameter_file_s {
  const char* scope;
  const char* path;
} pyd_api_parameter_file_t;

// Options for loading a program: its artifact, and the parameters that the artifact does not contain. The artifact is
// either |path|, in the encoding of the file system, or |data|, which is copied. Zero is right for the rest. Of several
// sources of one parameter the first is used, memory before files.
typedef struct pyd_api_load_s {
  size_t struct_size;  // sizeof(pyd_api_load_t): the structure grows at its end
  const char* path;
  const void* data;
  size_t size;
  const pyd_api_parameter_t* parameters;
  const pyd_api_parameter_file_t* files;
  uint32_t parameter_count;
  uint32_t file_count;
} pyd_api_load_t;

#ifdef __cplusplus
}
#endif
#endif  // PYDISPATCH_API_LOAD_H_
