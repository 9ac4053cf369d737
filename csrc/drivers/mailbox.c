// Messages that callbacks of a GPU driver leave for the thread that polls them.
#include "drivers/mailbox.h"

#include <stdlib.h>
#include <string.h>

// Adds a message, from any thread. |text|: copied, |length| bytes or up to its NUL for PYD_TEXT_TERMINATED; NULL for
// none. Without memory the message is lost, and |is_incomplete| is set.
void pyd_mailbox_add(pyd_mailbox_t* mailbox, pyd_message_kind_t kind, int32_t code, void* handle, const char* text,
                     size_t length) {
  if (text == NULL) length = 0;
  if (length == PYD_TEXT_TERMINATED) length = strlen(text);
  pyd_message_t* message = length <= SIZE_MAX - sizeof *message ? malloc(sizeof *message + length) : NULL;
  if (message == NULL) {
    atomic_store(&mailbox->is_incomplete, true);
    return;
  }
  message->kind = kind, message->code = code, message->handle = handle, message->length = length;
  if (length) memcpy(message->text, text, length);
  // Pushes it on a lock-free stack. A failed exchange has loaded the newest message into |next|.
  message->next = atomic_load(&mailbox->newest);
  while (!atomic_compare_exchange_weak(&mailbox->newest, &message->next, message)) {
  }
}

bool pyd_mailbox_has_messages(pyd_mailbox_t* mailbox) {
  return atomic_load(&mailbox->newest) != NULL || atomic_load(&mailbox->is_incomplete);
}

pyd_message_t* pyd_mailbox_take(pyd_mailbox_t* mailbox) { return atomic_exchange(&mailbox->newest, NULL); }

bool pyd_mailbox_take_incomplete(pyd_mailbox_t* mailbox) { return atomic_exchange(&mailbox->is_incomplete, false); }
