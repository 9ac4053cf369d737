// Segments and stored bytes of a view, by address.
#include "elf/view.h"

#include "base/span.h"
#include "elf/format.h"

// Returns the segment whose memory contains all of [vaddr, vaddr + size); NULL if there is none.
const pyd_elf_segment_t* pyd_elf_view_segment(const pyd_elf_view_t* view, uint64_t vaddr, uint64_t size) {
  for (uint32_t i = 0; i < view->segment_count; ++i) {
    const pyd_elf_segment_t* segment = &view->segments[i];
    uint64_t offset = vaddr - segment->vaddr;
    if (vaddr >= segment->vaddr && size <= segment->memory_size && offset <= segment->memory_size - size) {
      return segment;
    }
  }
  return NULL;
}

// Returns whether |vaddr| is in bytes that the file stores in an executable segment.
bool pyd_elf_view_is_code(const pyd_elf_view_t* view, uint64_t vaddr) {
  const pyd_elf_segment_t* segment = pyd_elf_view_segment(view, vaddr, 1);
  return segment && (segment->flags & PF_X) && vaddr - segment->vaddr < segment->file_size;
}

// Returns how many bytes from |vaddr| on the file stores, up to the end of the segment.
uint64_t pyd_elf_view_bytes_left(const pyd_elf_view_t* view, uint64_t vaddr) {
  const pyd_elf_segment_t* segment = pyd_elf_view_segment(view, vaddr, 1);
  uint64_t offset = segment ? vaddr - segment->vaddr : 0;
  return segment && offset < segment->file_size ? segment->file_size - offset : 0;
}

// Returns the |size| bytes at |vaddr|; NULL unless the file stores all of them.
const uint8_t* pyd_elf_view_bytes(const pyd_elf_view_t* view, uint64_t vaddr, uint64_t size) {
  if (size > pyd_elf_view_bytes_left(view, vaddr)) return NULL;
  const pyd_elf_segment_t* segment = pyd_elf_view_segment(view, vaddr, 1);
  return segment ? pyd_span_get(view->file, segment->offset + (vaddr - segment->vaddr), size) : NULL;
}
