// out[i] = lhs[i] * rhs[i] for the 1024 elements that begin at |first|, in each form that a C function of users has.
#include <stddef.h>
#include <stdint.h>

enum { kTile = 1024 };

static inline void mul(const float* restrict lhs, const float* restrict rhs, float* restrict out, size_t size, size_t first) {
  size_t end = size - first < kTile ? size : first + kTile;
  for (size_t i = first; i < end; ++i) out[i] = lhs[i] * rhs[i];
}

// Linked or inlined into a generated kernel. Offsets count elements.
#if defined(FUNCTION)

void mul_tile(const float* lhs, size_t lhs_offset, const float* rhs, size_t rhs_offset, float* out, size_t out_offset,
              size_t size, size_t first) {
  mul(lhs + lhs_offset, rhs + rhs_offset, out + out_offset, size, first);
}

// Resolved by a plugin when the program is loaded: one struct has the arguments of the function.
#elif defined(PLUGIN)
#include "pydispatch/plugin.h"

typedef struct {
  const float* lhs;
  size_t lhs_offset;
  const float* rhs;
  size_t rhs_offset;
  float* out;
  size_t out_offset;
  size_t size, first;
} mul_params_t;

static int mul_tile(void* params, void* context, void* reserved) {
  (void)context, (void)reserved;
  const mul_params_t* p = params;
  mul(p->lhs + p->lhs_offset, p->rhs + p->rhs_offset, p->out + p->out_offset, p->size, p->first);
  return 0;
}

PYD_PLUGIN("mul", "multiplies", PYD_PLUGIN_FN("mul_tile", mul_tile))

// For ctypes and cffi.
__attribute__((visibility("default"))) void mul_arrays(const float* lhs, const float* rhs, float* out, size_t size) {
  for (size_t first = 0; first < size; first += kTile) mul(lhs, rhs, out, size, first);
}

// Called instead of the operations that a pattern matches.
#elif defined(MATCHED)

void mul_matched(const float* lhs, const float* rhs, float* out, size_t n, size_t first) {
  mul(lhs, rhs, out, n, first);
}

// A whole kernel, which is called once for each workgroup.
#elif defined(KERNEL)
#include "pydispatch/library_author.h"

static int32_t mul_kernel(const pyd_environment_t* environment, const pyd_dispatch_state_t* dispatch,
                          const pyd_workgroup_state_t* workgroup) {
  (void)environment;
  mul(pyd_binding(dispatch, 0), pyd_binding(dispatch, 1), pyd_binding(dispatch, 2), pyd_constant(dispatch, 0),
      (size_t)workgroup->workgroup_id_x * kTile);
  return 0;
}

#define EXPORTS(X) X(mul_kernel, /* bindings */ 3, /* constants */ 1, /* bytes of local memory */ 0)
PYD_LIBRARY("mul", EXPORTS)

// A host command, which divides the arrays among the workers itself.
#elif defined(COMMAND)
#include "pydispatch/host_command.h"
#include "pydispatch/plugin.h"

typedef struct {
  const float *lhs, *rhs;
  float* out;
  size_t size;
} arrays_t;

// Multiplies the tiles from begin to end - 1, of kTile elements each; |self|: an arrays_t.
static int32_t tiles(void* self, uint32_t worker, uint64_t begin, uint64_t end, uint64_t* out_failed) {
  (void)worker, (void)out_failed;
  const arrays_t* a = self;
  for (uint64_t i = begin; i < end; ++i) mul(a->lhs, a->rhs, a->out, a->size, i * kTile);
  return 0;
}

static int mul_command(void* params, void* context, void* reserved) {
  (void)context, (void)reserved;
  const pyd_host_command_t* command = params;
  const pyd_host_operand_t* out = pyd_host_operand(command, 2);
  arrays_t arrays = {pyd_host_operand(command, 0)->data, pyd_host_operand(command, 1)->data, out->data, out->bytes / sizeof(float)};
  return command->parallel_for(command, (arrays.size + kTile - 1) / kTile, tiles, &arrays);
}

PYD_PLUGIN("mul", "multiplies", PYD_PLUGIN_COMMAND("mul_command", mul_command))
#endif
