// links: drivers
// tsan: 3
// flags: -Wl,--wrap=malloc
// Messages of several threads arrive once each, and in the order of each thread; copies through a mapped buffer.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "drivers/vulkan.h"
#include "drivers/webgpu.h"

#define CHECK(condition)                                              \
  do {                                                                \
    if (!(condition)) {                                               \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                        \
    }                                                                 \
  } while (0)

enum { THREADS = 4, MESSAGES = 500 };

static _Atomic bool fails;
void* __real_malloc(size_t size);
void* __wrap_malloc(size_t size) { return fails ? NULL : __real_malloc(size); }

static pyd_mailbox_t mailbox;

static void* add_messages(void* number) {
  for (int i = 0; i < MESSAGES; ++i) {
    pyd_wgpu_on_error(NULL, i, (pyd_wgpu_text_t){"text", 4}, &mailbox, NULL);
    pyd_wgpu_on_opened(i, number, (pyd_wgpu_text_t){"", PYD_TEXT_TERMINATED}, &mailbox, NULL);
  }
  return NULL;
}

static void check_threads(void) {
  pthread_t threads[THREADS];
  static char numbers[THREADS];
  int next[THREADS], errors = 0, opened = 0;
  for (int i = 0; i < THREADS; ++i) next[i] = MESSAGES - 1;
  for (int i = 0; i < THREADS; ++i) CHECK(pthread_create(&threads[i], NULL, add_messages, &numbers[i]) == 0);
  while (opened < THREADS * MESSAGES / 2) {  // takes some while others are added
    for (pyd_message_t *message = pyd_mailbox_take(&mailbox), *after; message != NULL; message = after) {
      after = message->next;
      errors += message->kind == PYD_MESSAGE_ERROR, opened += message->kind == PYD_MESSAGE_OPENED;
      free(message);
    }
  }
  for (int i = 0; i < THREADS; ++i) pthread_join(threads[i], NULL);
  for (pyd_message_t *message = pyd_mailbox_take(&mailbox), *after; message != NULL; message = after) {
    after = message->next;
    if (message->kind == PYD_MESSAGE_OPENED) {  // the newest first, of each thread
      int thread = (int)((char*)message->handle - numbers);
      CHECK(message->length == 0 && message->code <= next[thread]);
      next[thread] = message->code - 1;
      ++opened;
    } else {
      CHECK(message->length == 4 && memcmp(message->text, "text", 4) == 0);
      ++errors;
    }
    free(message);
  }
  CHECK(errors == THREADS * MESSAGES && opened == THREADS * MESSAGES);
  CHECK(!pyd_mailbox_has_messages(&mailbox));
}

static void check_dropped(void) {
  fails = true;
  pyd_wgpu_on_lost(NULL, 2, (pyd_wgpu_text_t){"gone", 4}, &mailbox, NULL);
  fails = false;
  CHECK(pyd_mailbox_has_messages(&mailbox) && pyd_mailbox_take(&mailbox) == NULL);
  CHECK(pyd_mailbox_take_incomplete(&mailbox) && !pyd_mailbox_take_incomplete(&mailbox));
}

static pyd_message_t* only_message(void) {
  pyd_message_t* message = pyd_mailbox_take(&mailbox);
  CHECK(message != NULL && message->next == NULL && pyd_mailbox_take(&mailbox) == NULL);
  return message;
}

static void check_kinds(void) {
  pyd_wgpu_on_scope_popped(1, 1, (pyd_wgpu_text_t){NULL, 0}, &mailbox, NULL);
  CHECK(!pyd_mailbox_has_messages(&mailbox));  // the scope had no error
  pyd_wgpu_on_scope_popped(1, 2, (pyd_wgpu_text_t){NULL, 7}, &mailbox, NULL);
  pyd_message_t* message = only_message();
  CHECK(message->kind == PYD_MESSAGE_ERROR && message->code == 2 && message->length == 0);
  free(message);
  CHECK(freopen("/dev/null", "w", stderr) != NULL);
  CHECK(pyd_vk_on_message(4096, 2, &(pyd_vk_message_t){.text = "wrong"}, &mailbox) == 0);
  message = only_message();
  CHECK(message->code == 4096 && message->length == 5 && memcmp(message->text, "wrong", 5) == 0);
  free(message);
}

// ---- a driver of one buffer, as webgpu.h declares its functions

typedef struct {
  void* next;
  uint32_t mode;
  void (*callback)(int32_t, pyd_wgpu_text_t, void*, void*);
  void *first, *second;
} map_info_t;
typedef struct {
  uint64_t id;
} future_t;

static char content[16];
static int32_t status_of_map;
static bool is_mapped, has_range;
static map_info_t pending;

static future_t map_async(void* buffer, uint64_t mode, size_t offset, size_t length, map_info_t info) {
  CHECK(buffer == content && (mode == 1 || mode == 2) && offset + length <= sizeof content);
  pending = info;
  return (future_t){1};
}
static uint32_t poll_device(void* device, uint32_t waits, const uint64_t* index) {
  CHECK(device == &mailbox && waits && index == NULL);
  is_mapped = status_of_map == 1;
  pending.callback(status_of_map, (pyd_wgpu_text_t){"status", 6}, pending.first, pending.second);
  return 1;
}
static void* mapped_range(void* buffer, size_t offset, size_t length) {
  CHECK(is_mapped && length);
  return has_range ? (char*)buffer + offset : NULL;
}
static void unmap(void* buffer) {
  CHECK(is_mapped && buffer == content);
  is_mapped = false;
}

static void check_copies(void) {
  pyd_wgpu_functions_t functions = {(uintptr_t)map_async, (uintptr_t)poll_device, (uintptr_t)mapped_range,
                                    (uintptr_t)unmap};
  char host[4] = {1, 2, 3, 4}, back[4] = {0};
  status_of_map = 1, has_range = true;
  CHECK(pyd_wgpu_copy(&functions, &mailbox, content, false, 4, 8, 2, host, 4, &mailbox) == 1);
  CHECK(content[5] == 0 && memcmp(content + 6, host, 4) == 0 && content[10] == 0 && !is_mapped);
  CHECK(pyd_wgpu_copy(&functions, &mailbox, content, true, 4, 8, 2, back, 4, &mailbox) == 1);
  CHECK(memcmp(back, host, 4) == 0 && !pyd_mailbox_has_messages(&mailbox));
  has_range = false;  // mapped, but without an address: released again
  CHECK(pyd_wgpu_copy(&functions, &mailbox, content, true, 0, 4, 0, back, 4, &mailbox) == -1 && !is_mapped);
  status_of_map = 3;
  CHECK(pyd_wgpu_copy(&functions, &mailbox, content, true, 0, 4, 0, back, 4, &mailbox) == 3 && !is_mapped);
  pyd_message_t* message = only_message();
  CHECK(message->kind == PYD_MESSAGE_MAPPED && message->code == 3 && message->length == 6);
  free(message);
}

int main(void) {
  check_threads();
  check_dropped();
  check_copies();
  check_kinds();
  return 0;
}
