// Callbacks of webgpu.h, and copies through mapped buffers. The functions of the driver are passed as addresses, so
// that nothing links with it; the types below have the layout of webgpu.h as wgpu-native 24 and newer declare it.
#ifndef PYDISPATCH_DRIVERS_WEBGPU_H_
#define PYDISPATCH_DRIVERS_WEBGPU_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "drivers/mailbox.h"

typedef struct pyd_wgpu_text_s {  // WGPUStringView
  const char* data;
  size_t length;  // PYD_TEXT_TERMINATED is WGPU_STRLEN
} pyd_wgpu_text_t;

// Callbacks that add a message to |mailbox|, the first of their two user data; the second is unused. In turn:
// WGPUPopErrorScopeCallback, WGPUUncapturedErrorCallback, WGPUDeviceLostCallback and WGPURequestDeviceCallback.
void pyd_wgpu_on_scope_popped(int32_t status, int32_t kind, pyd_wgpu_text_t text, void* mailbox, void* unused);
void pyd_wgpu_on_error(void* const* device, int32_t kind, pyd_wgpu_text_t text, void* mailbox, void* unused);
void pyd_wgpu_on_lost(void* const* device, int32_t reason, pyd_wgpu_text_t text, void* mailbox, void* unused);
void pyd_wgpu_on_opened(int32_t status, void* device, pyd_wgpu_text_t text, void* mailbox, void* unused);

// Addresses of functions of the driver.
typedef struct pyd_wgpu_functions_s {
  uintptr_t map_async;     // wgpuBufferMapAsync
  uintptr_t poll;          // wgpuDevicePoll
  uintptr_t mapped_range;  // wgpuBufferGetConstMappedRange to read, wgpuBufferGetMappedRange to write
  uintptr_t unmap;         // wgpuBufferUnmap
} pyd_wgpu_functions_t;

// Maps bytes [offset, offset + length) of a buffer, waiting until the device is done with it, and copies |size| bytes
// from |skip| on to |host|, or from |host|. Returns the WGPUMapAsyncStatus: 1 for success, 0 if the driver has not
// called back when the device is idle. Returns -1 without memory, or if the driver has no address for the mapped range.
int32_t pyd_wgpu_copy(const pyd_wgpu_functions_t* functions, void* device, void* buffer, bool is_read, size_t offset,
                      size_t length, size_t skip, char* host, size_t size, pyd_mailbox_t* mailbox);

#endif  // PYDISPATCH_DRIVERS_WEBGPU_H_
