// The callback of Vulkan's validation layer.
#include "drivers/vulkan.h"

#include <stdio.h>

#include "drivers/mailbox.h"

// Prints a message of Vulkan's validation layers, and adds it to |mailbox|, a pyd_mailbox_t. Vulkan calls this
// function.
uint32_t pyd_vk_on_message(int32_t severity, uint32_t kinds, const pyd_vk_message_t* message, void* mailbox) {
  (void)kinds;
  fprintf(stderr, "vulkan validation: %s\n", message->text);
  pyd_mailbox_add(mailbox, PYD_MESSAGE_ERROR, severity, NULL, message->text, PYD_TEXT_TERMINATED);
  return 0;  // VK_FALSE: the Vulkan call that caused the message goes on
}
