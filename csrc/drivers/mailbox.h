// Messages that callbacks of a GPU driver leave for the thread that asks for them. Callbacks run on any thread, at any
// time, also after their device is closed: they allocate a message and link it, and never block or call Python.
#ifndef PYDISPATCH_DRIVERS_MAILBOX_H_
#define PYDISPATCH_DRIVERS_MAILBOX_H_

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Kind of a message from a callback of a driver.
typedef enum pyd_message_kind_e {
  PYD_MESSAGE_ERROR = 1,  // the driver reports an error; code: its kind or severity
  PYD_MESSAGE_LOST,       // the device is lost; code: the reason
  PYD_MESSAGE_OPENED,     // a device was opened, or not; code: the status, handle: the device
  PYD_MESSAGE_MAPPED,     // a buffer could not be mapped; code: the status
} pyd_message_kind_t;

// A message of a driver, in the list of its mailbox until a thread takes it and frees it.
typedef struct pyd_message_s {
  struct pyd_message_s* next;
  int32_t kind;   // pyd_message_kind_t
  int32_t code;   // of the driver; its meaning depends on |kind|
  void* handle;   // of the opened device (PYD_MESSAGE_OPENED), else NULL
  size_t length;  // bytes of |text|, which has no terminator
  char text[];
} pyd_message_t;

// Queue of messages from callbacks of a driver. Zero-initialized: empty. Any thread may add and take messages, without
// a lock. It must outlive all callbacks.
typedef struct pyd_mailbox_s {
  _Atomic(pyd_message_t*) newest;  // linked to the older ones
  atomic_bool is_incomplete;       // a message was dropped, for want of memory
} pyd_mailbox_t;

#define PYD_TEXT_TERMINATED ((size_t) - 1)  // length of a text that ends with '\0'

// Adds a message. |text|: of |length| bytes, copied; NULL for none.
void pyd_mailbox_add(pyd_mailbox_t* mailbox, pyd_message_kind_t kind, int32_t code, void* handle, const char* text,
                     size_t length);

// Whether there is a message, or one was dropped.
bool pyd_mailbox_has_messages(pyd_mailbox_t* mailbox);

// Removes all messages and returns them, the newest first. The caller frees each.
pyd_message_t* pyd_mailbox_take(pyd_mailbox_t* mailbox);

// Whether a message was dropped since the last call.
bool pyd_mailbox_take_incomplete(pyd_mailbox_t* mailbox);

#endif  // PYDISPATCH_DRIVERS_MAILBOX_H_
