// The callback of Vulkan's validation layer.
#ifndef PYDISPATCH_DRIVERS_VULKAN_H_
#define PYDISPATCH_DRIVERS_VULKAN_H_

#include <stdint.h>

// The beginning of VkDebugUtilsMessengerCallbackDataEXT.
typedef struct pyd_vk_message_s {
  int32_t type;
  const void* next;
  uint32_t flags;
  const char* name;
  int32_t number;
  const char* text;
} pyd_vk_message_t;

// PFN_vkDebugUtilsMessengerCallbackEXT: prints the message to stderr and adds it to |mailbox|.
uint32_t pyd_vk_on_message(int32_t severity, uint32_t kinds, const pyd_vk_message_t* message, void* mailbox);

#endif  // PYDISPATCH_DRIVERS_VULKAN_H_
