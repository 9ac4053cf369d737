// Memory handles: the layout of memory that the embedder owns, checked, and its references.
#include "api/memory.h"

#include <string.h>

#include "base/carve.h"
#include "base/sized.h"
#include "base/strided.h"

// The function's name in messages.
static const char kImport[] = "memory_import";

// Returns the bits of an element of |dtype|, which is numerical type << 24 | bits.
static uint32_t bits_of(uint32_t dtype) { return dtype & 0xFFFFFF; }

// ---- layouts

// Returns the INVALID_ARGUMENT failure of a layout.
static pyd_status_t refuse_layout(const char* why) {
  return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "%s: %s", kImport, why);
}

// Computes the layout of a tensor with the sizes |dims| from info->strides, in elements; NULL: row-major order.
// |element|: bytes of an element. Writes the strides in bytes to |out_strides|, and three fields of |out|: |lowest| and
// |extent|, the range of addresses of the elements, and |is_dense|, whether they are in row-major order.
static pyd_status_t measure(const pyd_api_memory_info_t* info, const int64_t* dims, int64_t element,
                            int64_t* out_strides, pyd_api_memory_t* out) {
  int64_t below = 0, above = 0;  // byte offsets of the lowest and the highest element from out->first
  int64_t dense = element;       // stride of this axis in row-major order
  int64_t reach;
  bool fits = true;
  out->is_dense = true;
  for (uint32_t i = info->rank; i-- > 0;) {
    int64_t stride = dense;
    if (info->strides) fits &= !__builtin_mul_overflow(info->strides[i], element, &stride);
    out_strides[i] = stride;
    if (dims[i] > 1) {  // the stride of an axis of size 1 is never used
      out->is_dense &= stride == dense;
      fits &= !__builtin_mul_overflow(stride, dims[i] - 1, &reach);
      // An axis with a negative stride reaches below the first element.
      fits &= !__builtin_add_overflow(stride < 0 ? below : above, reach, stride < 0 ? &below : &above);
    }
    fits &= !__builtin_mul_overflow(dense, dims[i], &dense);
  }
  // The extent is above - below + element bytes.
  fits &= !__builtin_sub_overflow(above, below, &reach) && !__builtin_add_overflow(reach, element, &reach);
  if (!fits) return refuse_layout("the strides and sizes take more than 2^63 bytes");
  out->lowest = out->first + below;
  out->extent = (uint64_t)reach;
  return PYD_STATUS_OK;
}

// Returns whether no two elements have an address in common: each stride, by rising length, is at least as long as all
// that the shorter ones span. Example for elements of 4 bytes: strides of 4 and 40 bytes are distinct for sizes 10 and
// 3, as 40 >= 4 + 4 * 9. False also for some distinct layouts that are less simple. |element|: bytes of an element.
static bool is_distinct(const pyd_api_memory_t* memory, int64_t element) {
  int64_t strides[PYD_PROGRAM_MAX_RANK], sizes[PYD_PROGRAM_MAX_RANK];
  int64_t reached = element;  // bytes that the axes with shorter strides span
  uint32_t count = 0;
  for (uint32_t i = 0; i < memory->rank; ++i) {
    if (memory->dims[i] < 2) continue;  // its stride is never used
    int64_t stride = memory->strides[i] < 0 ? -memory->strides[i] : memory->strides[i];
    uint32_t at = count++;  // insertion sort
    for (; at && strides[at - 1] > stride; --at) strides[at] = strides[at - 1], sizes[at] = sizes[at - 1];
    strides[at] = stride, sizes[at] = memory->dims[i];
  }
  for (uint32_t i = 0; i < count; ++i) {
    if (strides[i] < reached) return false;
    reached += strides[i] * (sizes[i] - 1);
  }
  return true;
}

// Checks rank, sizes and element type of a description.
static pyd_status_t check_info(const pyd_api_memory_info_t* info) {
  if (info->struct_size < PYD_SIZE_UP_TO(pyd_api_memory_info_t, context)) {
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT,
                           "%s: the description has a struct_size of %zu; set it to "
                           "sizeof(pyd_api_memory_info_t), which is %zu",
                           kImport, info->struct_size, sizeof(*info));
  }
  if (info->rank > PYD_PROGRAM_MAX_RANK) {
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "%s: rank %u; at most %u is supported", kImport, info->rank,
                           PYD_PROGRAM_MAX_RANK);
  }
  if (info->rank && !info->dims) return pyd_api_null(kImport, "info->dims");
  for (uint32_t i = 0; i < info->rank; ++i) {
    if (info->dims[i] < 0)
      return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "%s: axis %u has the negative size %lld", kImport, i,
                             (long long)info->dims[i]);
  }
  uint32_t bits = bits_of(info->dtype);
  if (bits != 2 && bits != 4 && (!bits || bits % 8 || bits > 128)) {  // packed, or 1 to 16 whole bytes
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "%s: 0x%08x is no element type; PYD_API_F32 and others are",
                           kImport, info->dtype);
  }
  if (info->is_read_only > 1) return refuse_layout("is_read_only is 0 or 1");
  return PYD_STATUS_OK;
}

// Computes the layout of |memory|: |bytes|, |first|, |lowest|, |extent|, |is_dense|, |is_distinct|, and the strides in
// bytes. |info| has passed check_info; |memory| has its rank and sizes. |strides|: the array that memory->strides
// points to. Packed elements (2 or 4 bits) are measured as if they had a byte each, to find out whether they are dense.
static pyd_status_t describe_layout(const pyd_api_memory_info_t* info, pyd_api_memory_t* memory, int64_t* strides) {
  pyd_status_t status = PYD_STATUS_OK;
  if (!pyd_tensor_bytes(info->dtype, info->rank, info->dims, &memory->bytes))
    return refuse_layout("the tensor has more than 2^63 bytes");
  if (!memory->bytes) {
    memory->is_dense = memory->is_distinct = true;
    return status;
  }
  if (!info->data) return pyd_api_null(kImport, "info->data");
  memory->first = (uint8_t*)info->data + info->offset;
  const uint32_t bits = bits_of(info->dtype);
  status = measure(info, memory->dims, bits < 8 ? 1 : bits / 8, strides, memory);
  if (!pyd_ok(status)) return status;
  memory->is_distinct = is_distinct(memory, bits < 8 ? 1 : bits / 8);
  if (bits >= 8) return status;
  memory->extent = memory->bytes;  // of the packed ones
  return memory->is_dense
             ? status
             : refuse_layout("elements of less than 8 bits are packed: they have to be in row-major order");
}

// ---- handles

// Lays out a handle with its sizes and strides in one block at |base|, and returns the bytes of the block. |base| is
// NULL to compute only these; |*out_dims| and |*out_strides| are then NULL.
static size_t lay_out(pyd_api_memory_t* memory, uint32_t rank, int64_t** out_dims, int64_t** out_strides,
                      uint8_t* base) {
  pyd_carve_t block = {base, sizeof(*memory), sizeof(uint64_t)};
  *out_dims = pyd_carve(&block, rank, sizeof(int64_t));
  *out_strides = pyd_carve(&block, rank, sizeof(int64_t));
  return block.size;
}

// Creates a handle of memory that the caller describes by |info|: address, element type, sizes and strides. The handle
// has one reference; |info->release| is called when the last one is dropped. After a failure it is not called.
pyd_status_t pyd_api_memory_import(pyd_api_device_t* device, const pyd_api_memory_info_t* info,
                                   pyd_api_memory_t** out_memory) {
  if (!out_memory) return pyd_api_null(kImport, "out_memory");
  *out_memory = NULL;
  if (!device) return pyd_api_null(kImport, "device");
  if (!info) return pyd_api_null(kImport, "info");
  pyd_status_t status = check_info(info);
  if (!pyd_ok(status)) return status;
  int64_t *dims, *strides;
  size_t size = lay_out(NULL, info->rank, &dims, &strides, NULL);
  pyd_api_memory_t* memory = pyd_allocate_zeroed(&device->allocator, size);
  if (!memory) return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "%s: no memory for a handle of %zu bytes", kImport, size);
  lay_out(memory, info->rank, &dims, &strides, (uint8_t*)memory);
  if (info->rank) memcpy(dims, info->dims, info->rank * sizeof(*dims));
  memory->size = size;
  memory->dims = dims, memory->strides = strides;
  memory->dtype = info->dtype, memory->rank = info->rank;
  memory->is_read_only = info->is_read_only;
  memory->release = info->release, memory->context = info->context;
  status = describe_layout(info, memory, strides);
  if (!pyd_ok(status)) {
    pyd_deallocate(&device->allocator, memory, size);
    return status;
  }
  atomic_init(&memory->references, 1);
  memory->device = device;
  pyd_api_retain(&device->references);
  *out_memory = memory;
  return status;
}

// Drops a reference to imported memory; the last one releases it.
void pyd_api_memory_release(pyd_api_memory_t* memory) {
  if (!memory || !pyd_api_drop(&memory->references)) return;
  pyd_api_device_t* device = memory->device;
  if (memory->release) memory->release(memory->context);
  pyd_deallocate(&device->allocator, memory, memory->size);
  pyd_api_device_release(device);
}

// ---- binding

// Returns whether two element types have the same bytes: signless, signed and unsigned integers of one width do.
static bool is_same_type(uint32_t a, uint32_t b) {
  // 0x10 to 0x12 in the upper 8 bits: the three numerical types of integers
  return a == b ||
         (bits_of(a) == bits_of(b) && a >> 24 >= 0x10 && a >> 24 <= 0x12 && b >> 24 >= 0x10 && b >> 24 <= 0x12);
}

// Checks that the memory has the element type and rank of |value| and the sizes |dims|, which are NULL while they are
// not known. Messages begin with |function| and name the tensor by |what| and |index|, such as "argument" and 2.
pyd_status_t pyd_api_memory_check(const pyd_api_memory_t* memory, const char* function, const char* what,
                                  uint32_t index, const pyd_api_value_t* value, const int64_t* dims) {
  if (!is_same_type(memory->dtype, value->dtype)) {
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "%s: %s %u has elements of type 0x%08x, the memory has 0x%08x",
                           function, what, index, value->dtype, memory->dtype);
  }
  if (memory->rank != value->rank) {
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "%s: %s %u has rank %u, the memory has %u", function, what, index,
                           value->rank, memory->rank);
  }
  for (uint32_t i = 0; dims && i < memory->rank; ++i) {
    if (memory->dims[i] == dims[i]) continue;
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT,
                           "%s: %s %u, axis %u: the tensor has %lld elements, the memory has %lld", function, what,
                           index, i, (long long)dims[i], (long long)memory->dims[i]);
  }
  return PYD_STATUS_OK;
}

// Copies the elements of strided memory to |to|, in row-major order. They have whole bytes: packed ones are dense, and
// used in place.
void pyd_api_memory_gather(const pyd_api_memory_t* memory, void* to) {
  pyd_strided_copy(memory->rank, memory->dims, bits_of(memory->dtype) / 8, to, NULL, memory->first, memory->strides);
}

// Copies elements in row-major order from |from| to strided memory, as pyd_api_memory_gather() in reverse.
void pyd_api_memory_scatter(const pyd_api_memory_t* memory, const void* from) {
  pyd_strided_copy(memory->rank, memory->dims, bits_of(memory->dtype) / 8, memory->first, memory->strides, from, NULL);
}
