// Callbacks of webgpu.h, and copies through mapped buffers.
#include "drivers/webgpu.h"

#include <stdlib.h>
#include <string.h>

// Values of WebGPU's enumerations (webgpu.h).
enum { WGPU_SUCCESS = 1, WGPU_NO_ERROR = 1, WGPU_CALLBACK_SPONTANEOUS = 3, WGPU_MAP_READ = 1, WGPU_MAP_WRITE = 2 };

typedef struct map_info_s {  // WGPUBufferMapCallbackInfo
  void* next;
  uint32_t mode;
  void (*callback)(int32_t, pyd_wgpu_text_t, void*, void*);
  void* mailbox;
  void* status;
} map_info_t;

typedef struct future_s {  // WGPUFuture
  uint64_t id;
} future_t;

typedef future_t (*map_async_t)(void* buffer, uint64_t mode, size_t offset, size_t size, map_info_t info);
typedef uint32_t (*poll_t)(void* device, uint32_t wait, const uint64_t* submission);
typedef void* (*mapped_range_t)(void* buffer, size_t offset, size_t size);
typedef void (*unmap_t)(void* buffer);

// WGPUPopErrorScopeCallback: adds the error that the scope caught, if any. |kind|: WGPUErrorType.
void pyd_wgpu_on_scope_popped(int32_t status, int32_t kind, pyd_wgpu_text_t text, void* mailbox, void* unused) {
  (void)status, (void)unused;
  if (kind > WGPU_NO_ERROR) pyd_mailbox_add(mailbox, PYD_MESSAGE_ERROR, kind, NULL, text.data, text.length);
}

// WGPUUncapturedErrorCallback: adds an error that no error scope caught. |kind|: WGPUErrorType.
void pyd_wgpu_on_error(void* const* device, int32_t kind, pyd_wgpu_text_t text, void* mailbox, void* unused) {
  (void)device, (void)unused;
  pyd_mailbox_add(mailbox, PYD_MESSAGE_ERROR, kind, NULL, text.data, text.length);
}

// WGPUDeviceLostCallback: adds the loss of the device. |reason|: WGPUDeviceLostReason.
void pyd_wgpu_on_lost(void* const* device, int32_t reason, pyd_wgpu_text_t text, void* mailbox, void* unused) {
  (void)device, (void)unused;
  pyd_mailbox_add(mailbox, PYD_MESSAGE_LOST, reason, NULL, text.data, text.length);
}

// WGPURequestDeviceCallback: adds the result of opening a device. |status|: WGPURequestDeviceStatus; on failure
// |device| is NULL and |text| has the reason.
void pyd_wgpu_on_opened(int32_t status, void* device, pyd_wgpu_text_t text, void* mailbox, void* unused) {
  (void)unused;
  pyd_mailbox_add(mailbox, PYD_MESSAGE_OPENED, status, device, text.data, text.length);
}

// WGPUBufferMapCallback: stores the WGPUMapAsyncStatus in the int32_t at |out_status|, which pyd_wgpu_copy() set to 0,
// and adds a message if mapping failed.
static void on_mapped(int32_t status, pyd_wgpu_text_t text, void* mailbox, void* out_status) {
  *(int32_t*)out_status = status;
  if (status != WGPU_SUCCESS) pyd_mailbox_add(mailbox, PYD_MESSAGE_MAPPED, status, NULL, text.data, text.length);
}

// Maps bytes [offset, offset + length) of a buffer, and copies |size| of them, from byte |skip| of the mapped range on,
// to |host| (|is_read|) or from |host|. Returns the WGPUMapAsyncStatus: 1 for success, 0 if the driver has not called
// back when the device is idle. Returns -1 without memory, or if the driver has no address for the mapped range.
int32_t pyd_wgpu_copy(const pyd_wgpu_functions_t* functions, void* device, void* buffer, bool is_read, size_t offset,
                      size_t length, size_t skip, char* host, size_t size, pyd_mailbox_t* mailbox) {
  // The driver keeps the address until it calls back. If it has not done so when the device has been polled, the status
  // is still 0, and the word stays allocated, since the driver may write to it later.
  int32_t* out_status = calloc(1, sizeof *out_status);
  if (out_status == NULL) return -1;
  map_info_t info = {NULL, WGPU_CALLBACK_SPONTANEOUS, on_mapped, mailbox, out_status};
  ((map_async_t)functions->map_async)(buffer, is_read ? WGPU_MAP_READ : WGPU_MAP_WRITE, offset, length, info);
  ((poll_t)functions->poll)(device, /* wait */ 1, NULL);
  int32_t status = *out_status;
  if (status) free(out_status);
  if (status != WGPU_SUCCESS) return status;
  char* mapped = ((mapped_range_t)functions->mapped_range)(buffer, offset, length);
  if (mapped == NULL) {
    status = -1;
  } else if (is_read) {
    memcpy(host, mapped + skip, size);
  } else {
    memcpy(mapped + skip, host, size);
  }
  ((unmap_t)functions->unmap)(buffer);
  return status;
}
