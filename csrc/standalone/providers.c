// Providers of the imports of programs: functions, host commands and plugins of a device.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "standalone/standalone.h"

// Registers |function| for the symbol |prefix| + |name|. |slot|: the function of the API that was called, for messages.
// |priority|: of several providers of a symbol, the one with the highest is queried first. |release| is called with
// |owner| when the provider is gone; may be NULL. |*out_id|: the number by which the provider can be removed, 0 after a
// failure; |out_id| may be NULL.
static pyd_status_t add_function(const char* slot, const char* prefix, pyd_api_device_t* device, const char* name,
                                 pyd_plugin_fn_t function, void* context, int32_t priority,
                                 void (*release)(void* owner), void* owner, uint64_t* out_id) {
  uint64_t id = 0;
  if (out_id) *out_id = 0;
  if (!device || !name || !function) return pyd_api_null(slot, "device, name or function");
  if (!name[0] || name[0] == '?') {  // '?' marks an optional import of a program
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "%s: expected the name of a symbol, got '%s'", slot, name);
  }
  size_t size = strlen(prefix) + strlen(name) + 1;
  char* symbol = malloc(size);
  if (!symbol) return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "%s: no memory for the name of '%s'", slot, name);
  snprintf(symbol, size, "%s%s", prefix, name);
  const pyd_provider_function_t provider = {symbol, (pyd_import_fn_t)function, context};
  pyd_status_t status = pyd_plugin_manager_add_functions(pyd_standalone_device(device)->manager, name, &provider, 1,
                                                         priority, release, owner, &id);
  free(symbol);
  if (out_id) *out_id = id;
  return status;
}

pyd_status_t pyd_standalone_add_import(pyd_api_device_t* device, const char* name, pyd_plugin_fn_t function,
                                       void* context, int32_t priority, void (*release)(void* owner), void* owner,
                                       uint64_t* out_id) {
  return add_function("device_add_import", "", device, name, function, context, priority, release, owner, out_id);
}

pyd_status_t pyd_standalone_add_command(pyd_api_device_t* device, const char* name, pyd_plugin_fn_t function,
                                        void* context, int32_t priority, void (*release)(void* owner), void* owner,
                                        uint64_t* out_id) {
  return add_function("device_add_command", PYD_HOST_COMMAND_PREFIX, device, name, function, context, priority, release,
                      owner, out_id);
}

// Adds a plugin that is linked into this process, by its function |query|, as a provider of imports. |priority|:
// providers with a higher one are asked first. |out_id|, which may be NULL: the number by which the provider can be
// removed.
pyd_status_t pyd_standalone_add_plugin(pyd_api_device_t* device, const char* name, pyd_plugin_query_fn_t query,
                                       int32_t priority, uint64_t* out_id) {
  uint64_t id = 0;
  if (out_id) *out_id = 0;
  if (!device || !name || !query) return pyd_api_null("device_add_plugin", "device, name or function");
  const pyd_plugin_options_t options = {.kind = PYD_PLUGIN_KIND_STATIC, .name = name};
  pyd_plugin_t* plugin = NULL;
  pyd_status_t status = pyd_plugin_load_static(query, &options, &plugin);
  if (!pyd_ok(status)) return status;
  status = pyd_plugin_manager_add_plugin(pyd_standalone_device(device)->manager, plugin, priority, &id);
  pyd_plugin_release(plugin);  // the manager holds it
  if (out_id) *out_id = id;
  return status;
}

// Removes the provider that one of the functions above has registered as |id|. Loaded programs keep its functions.
pyd_status_t pyd_standalone_remove_provider(pyd_api_device_t* device, uint64_t id) {
  if (!device) return pyd_api_null("device_remove_provider", "device");
  return pyd_plugin_manager_remove(pyd_standalone_device(device)->manager, id);
}

// ---- host commands of a program

// The host commands of a program, with the functions that implement them.
typedef struct commands_s {
  uint32_t count;
  const char** names;          // by index of the command, with PYD_HOST_COMMAND_PREFIX
  pyd_import_fn_t* functions;  // by index of the command; NULL: no provider
  void** contexts;
} commands_t;

// Fills commands->names with pointers into one block, which is returned and which the caller frees. Returns NULL when
// out of memory.
static char* name_all(const pyd_program_t* program, commands_t* commands) {
  size_t size = 1;  // never 0, as malloc may then return NULL
  const size_t prefix = strlen(PYD_HOST_COMMAND_PREFIX);
  for (uint32_t i = 0; i < commands->count; ++i) size += prefix + pyd_program_command(program, i)->name.length + 1;
  char *block = malloc(size), *at = block;
  for (uint32_t i = 0; block && i < commands->count; ++i) {
    pyd_string_t name = pyd_program_command(program, i)->name;
    commands->names[i] = at;
    at += snprintf(at, (size_t)(block + size - at), "%s%.*s", PYD_HOST_COMMAND_PREFIX, (int)name.length, name.data) + 1;
  }
  return block;
}

// Returns the MISSING_IMPORT failure that names all commands without a function.
static pyd_status_t refuse_missing(const commands_t* commands) {
  char list[400] = "";
  size_t used = 0;
  const size_t prefix = strlen(PYD_HOST_COMMAND_PREFIX);
  for (uint32_t i = 0; i < commands->count; ++i) {
    if (commands->functions[i] || used > sizeof(list) - 4) continue;  // the text is full
    used += (size_t)snprintf(list + used, sizeof(list) - used, "%s'%s'", used ? ", " : "", commands->names[i] + prefix);
  }
  pyd_status_t status = pyd_status_make(PYD_CODE_MISSING_IMPORT,
                                        "the program calls host commands that nothing provides: %s; add them with "
                                        "device_add_command or a plugin before it is loaded",
                                        list);
  for (uint32_t i = 0; i < commands->count; ++i) {
    if (commands->functions[i]) continue;
    status = pyd_status_add_name(status, PYD_STATUS_SYMBOL, commands->names[i] + prefix,
                                 strlen(commands->names[i] + prefix));
  }
  return status;
}

// Finds a provider for each command, and stores its function and context in the program.
static pyd_status_t link(pyd_program_t* program, const commands_t* commands, const pyd_resolver_t* resolver) {
  pyd_status_t status =
      resolver->resolve(resolver->self, commands->count, commands->names, commands->functions, commands->contexts);
  for (uint32_t i = 0; i < commands->count && pyd_ok(status); ++i) {
    if (!commands->functions[i]) return refuse_missing(commands);
    status = pyd_program_set_command(program, i, commands->functions[i], commands->contexts[i]);
  }
  return status;
}

// Finds and links the host commands of a program.
pyd_status_t pyd_standalone_link_commands(pyd_program_t* program, const pyd_resolver_t* resolver) {
  commands_t commands = {.count = pyd_program_command_count(program)};
  if (!commands.count) return PYD_STATUS_OK;
  commands.names = calloc(commands.count, sizeof(*commands.names));
  commands.functions = calloc(commands.count, sizeof(*commands.functions));
  commands.contexts = calloc(commands.count, sizeof(*commands.contexts));
  char* block = commands.names && commands.functions && commands.contexts ? name_all(program, &commands) : NULL;
  pyd_status_t status =
      block ? link(program, &commands, resolver)
            : pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory to resolve %u host commands", commands.count);
  free(block);
  free(commands.names);
  free(commands.functions);
  free(commands.contexts);
  return status;
}
