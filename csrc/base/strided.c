// Copies of tensors between layouts, given by strides.
#include "base/strided.h"

#include <stdbool.h>
#include <string.h>

// An axis of a tensor that is copied.
typedef struct axis_s {
  int64_t size;      // elements
  int64_t to, from;  // strides in bytes, of the target and the source
} axis_t;

// Lists the axes from the outermost to the innermost, without axes of size 1. Adjacent axes that are contiguous in both
// tensors are merged. Strides are in bytes, NULL: row-major order; |element|: bytes of an element. Returns false when
// the tensor has no elements.
static bool collapse_axes(uint32_t rank, const int64_t* dims, size_t element, const int64_t* to_strides,
                          const int64_t* from_strides, axis_t* out_axes, uint32_t* out_count) {
  axis_t reversed[PYD_STRIDED_MAX_RANK];  // from the innermost to the outermost
  uint32_t count = 0;
  int64_t dense = (int64_t)element;  // stride of axis |i| in row-major order
  for (uint32_t i = rank; i-- > 0; dense *= dims[i]) {
    axis_t axis = {dims[i], to_strides ? to_strides[i] : dense, from_strides ? from_strides[i] : dense};
    if (!axis.size) return false;
    if (axis.size == 1) continue;
    axis_t* inner = count ? &reversed[count - 1] : NULL;
    if (inner && axis.to == inner->size * inner->to && axis.from == inner->size * inner->from) {
      inner->size *= axis.size;
    } else {
      reversed[count++] = axis;
    }
  }
  for (uint32_t i = 0; i < count; ++i) out_axes[i] = reversed[count - 1 - i];
  *out_count = count;
  return true;
}

#define COPY_ROW(bytes) \
  for (int64_t i = 0; i < row.size; ++i, to += row.to, from += row.from) memcpy(to, from, bytes)

// Copies the |row.size| elements of the innermost axis, of |element| bytes each. |to| and |from|: addresses of the
// first element in the target and in the source.
static void copy_row(axis_t row, size_t element, uint8_t* to, const uint8_t* from) {
  if (row.to == (int64_t)element && row.from == (int64_t)element) {
    memcpy(to, from, (size_t)row.size * element);
    return;
  }
  switch (element) {  // sizes that are constants are single moves
    case 1: COPY_ROW(1); return;
    case 2: COPY_ROW(2); return;
    case 4: COPY_ROW(4); return;
    case 8: COPY_ROW(8); return;
    default: COPY_ROW(element); return;
  }
}

// Copies a tensor of |element| bytes per element between layouts with strides in bytes; NULL: row-major order.
void pyd_strided_copy(uint32_t rank, const int64_t* dims, size_t element, uint8_t* to, const int64_t* to_strides,
                      const uint8_t* from, const int64_t* from_strides) {
  axis_t axes[PYD_STRIDED_MAX_RANK];
  int64_t index[PYD_STRIDED_MAX_RANK] = {0};  // of the row, along each outer axis
  uint32_t count;
  if (!collapse_axes(rank, dims, element, to_strides, from_strides, axes, &count)) return;
  const uint32_t outer = count ? count - 1 : 0;  // number of axes outside of a row, the innermost axis
  const axis_t one_element = {.size = 1, .to = (int64_t)element, .from = (int64_t)element};
  const axis_t row = count ? axes[outer] : one_element;  // no axis is left if all have size 1
  for (;;) {
    copy_row(row, element, to, from);
    // Advance to the next row, carrying from inner to outer axes.
    uint32_t i = outer;
    for (; i-- > 0;) {
      to += axes[i].to, from += axes[i].from;
      if (++index[i] < axes[i].size) break;  // no carry
      to -= axes[i].to * axes[i].size, from -= axes[i].from * axes[i].size;
      index[i] = 0;
    }
    if (i == UINT32_MAX) return;  // every axis was carried: this was the last row
  }
}
