// Tile-fused dispatch chains (depth-first tiling): consecutive dispatches that depend on each other tile by tile. Each
// tile goes through all dispatches before the next one begins, so that intermediate results stay in the cache. Of a
// transient that only the chain uses, only the tiles in progress are stored.
#include <stdlib.h>

#include "program/plan/plan.h"

// Returns the instruction of a command. Of a dispatch, operand b is the number of workgroups of a tile, 0 outside of
// chains; the modifier is 1 if it continues the chain of the command before, else 0; operand c is its region.
static const pyd_insn_t* insn_of(const pyd_plan_t* plan, const pyd_plan_command_t* command) {
  return &plan->fn->insns[plan->fn->commands[command->number]];
}

// Returns the number of tiles of a dispatch, of which the last may have fewer workgroups; 0 if it is empty or cannot be
// part of a chain.
static uint64_t tiles_of(const pyd_plan_t* plan, const pyd_plan_command_t* command) {
  const uint32_t groups = command->kind == PYD_COMMAND_DISPATCH ? insn_of(plan, command)->b : 0;
  return groups ? command->count / groups + (command->count % groups != 0) : 0;
}

// Returns whether the command is the only one of its region.
static bool is_alone(const pyd_plan_t* plan, uint32_t index) {
  const pyd_plan_command_t* command = &plan->commands[index];
  return (index == 0 || command[-1].region != command->region) &&
         (index + 1 == plan->command_count || command[1].region != command->region);
}

// Returns the number of consecutive commands from |first| on that form one chain: each is alone in its region, has
// |tiles| tiles, and is declared by the program to continue the chain, apart from the first one.
static uint32_t count_links(const pyd_plan_t* plan, uint32_t first, uint64_t tiles) {
  uint32_t end = first;
  for (; end < plan->command_count && end - first < PYD_CHAIN_MAX_COMMANDS; ++end) {
    const pyd_plan_command_t* command = &plan->commands[end];
    PYD_COUNT_WORK(1);
    // The first command must not continue another chain (modifier 0), all others must continue this one (modifier 1).
    if (tiles_of(plan, command) != tiles || insn_of(plan, command)->modifier != (end != first) || !is_alone(plan, end))
      break;
    if (end != first && command->number != command[-1].number + 1)
      break;  // a command between them is empty or was staged
  }
  return end - first;
}

// Returns the bytes that one tile needs in all bindings of |count| commands from |first| on, each binding rounded up.
// At least 1; UINT64_MAX on overflow, which an artifact with huge transients can cause.
static uint64_t tile_bytes_of(const pyd_plan_t* plan, uint32_t first, uint32_t count, uint64_t tiles) {
  uint64_t bytes = 0;
  for (uint32_t i = first; i < first + count; ++i) {
    const pyd_plan_slot_t* slots = plan->slots + plan->commands[i].first_slot;
    for (uint32_t k = 0; k < plan->commands[i].slot_count; ++k) {
      if (__builtin_add_overflow(bytes, slots[k].length / tiles + 1, &bytes)) return UINT64_MAX;
    }
  }
  return bytes ? bytes : 1;
}

// Returns whether the commands from |first| on form a chain (dispatches that run tile by tile) that is expected to be
// faster than one dispatch after another. If so, sets |*out_step|, and |tile_groups| and |start| of its commands.
bool pyd_plan_form_chain(pyd_plan_t* plan, uint32_t first, pyd_plan_step_t* out_step) {
  const pyd_chain_options_t* options = &plan->program->chains;
  if (!options->cache_bytes) return false;
  const uint64_t tiles = tiles_of(plan, &plan->commands[first]);
  if (tiles < 2 || tiles < options->least_tiles || tiles > PYD_CHAIN_MAX_TILES) return false;
  const uint32_t count = count_links(plan, first, tiles);
  if (count < 2) return false;
  const uint64_t chunk = options->cache_bytes / tile_bytes_of(plan, first, count, tiles);
  // Not even one tile fits in the cache, or all do, and then running one dispatch after another is as fast.
  if (chunk == 0 || chunk >= tiles) return false;
  *out_step = (pyd_plan_step_t){.first_command = first, .command_count = count, .total = tiles, .chunk = chunk};
  uint64_t start = 0;  // workgroups of the earlier commands of the chain
  for (uint32_t i = first; i < first + count; ++i) {
    plan->commands[i].tile_groups = insn_of(plan, &plan->commands[i])->b;
    plan->commands[i].start = start;
    start += plan->commands[i].count;
  }
  return true;
}

// Values in place of the chain that alone uses a buffer: no step uses it; several steps do, or a step that needs the
// whole buffer.
enum { kUnused = 0, kElsewhere = UINT32_MAX };

// Returns whether slot |index| of a command in the chain |step| can be bound to tiles in place of the whole buffer: it
// has the whole buffer, as many tiles as the chain, and the workgroups of a tile access only that tile of it.
static bool can_store_tiles(const pyd_plan_t* plan, const pyd_plan_step_t* step, const pyd_plan_command_t* command,
                            uint32_t index) {
  const pyd_plan_slot_t* slot = &plan->slots[command->first_slot + index];
  // 0 for the staging buffer, whose number follows those of the function's buffers, and for buffers without tiles.
  const uint64_t tile = slot->buffer < plan->fn->buffer_count ? plan->fn->buffers[slot->buffer].tile_bytes : 0;
  if (!step->chunk || !tile || plan->buffer_alignment[slot->buffer] > PYD_TILE_ALIGNMENT) return false;
  const uint64_t size = plan->buffer_bytes[slot->buffer];
  return slot->offset == 0 && slot->length == size && size / tile + (size % tile != 0) == step->total &&
         pyd_plan_keeps_tile(plan, command, index, tile);
}

// Finds the user of each buffer: 1 + the index of the chain in plan->steps if that chain alone uses the buffer, and by
// tiles; otherwise kUnused or kElsewhere. |users|: by buffer, the staging buffer included; kUnused at first.
static void find_users(const pyd_plan_t* plan, uint32_t* users) {
  for (uint32_t i = 0; i < plan->step_count; ++i) {
    const pyd_plan_step_t* step = &plan->steps[i];
    for (uint32_t k = 0; k < step->command_count; ++k) {
      const pyd_plan_command_t* command = &plan->commands[step->first_command + k];
      for (uint32_t j = 0; j < command->slot_count; ++j) {
        uint32_t* user = &users[plan->slots[command->first_slot + j].buffer];
        if (*user == kUnused) *user = i + 1;  // the first step that uses it
        if (*user != i + 1 || !can_store_tiles(plan, step, command, j)) *user = kElsewhere;
      }
    }
  }
}

// Assigns offsets in the tile area, the memory of a worker for the tiles of a chunk, to the buffers of which only tiles
// are stored. Tiles are multiples of PYD_TILE_ALIGNMENT, a cache line, so that the areas of two workers share no line.
// Different chains share the area, as they do not run at the same time. |users|: see find_users(); |areas|: by step,
// zeros, the bytes assigned so far.
static void place_tiles(pyd_plan_t* plan, const uint32_t* users, uint64_t* areas) {
  for (uint32_t i = 0; i < plan->fn->buffer_count; ++i) {
    if (users[i] == kUnused || users[i] == kElsewhere) continue;
    const uint32_t chain = users[i] - 1, tile_bytes = plan->fn->buffers[i].tile_bytes;
    uint64_t* area = &areas[chain];
    plan->buffer_tile_bytes[i] = tile_bytes;
    plan->buffer_offset[i] = *area;
    *area += plan->steps[chain].chunk * tile_bytes;  // at most about the cache size, for which |chunk| was chosen
    if (*area > plan->tile_area) plan->tile_area = *area;
  }
}

// Extends the lifetime of each buffer that a chain uses to all regions of the chain, as its tiles are at different
// commands at the same time. |lifetimes| are in regions of the function: groups of independent commands, which run one
// group after another. |command->region| is a region of the plan, and counts the copies of stage.c, too.
static void extend_lifetimes(const pyd_plan_t* plan, const pyd_plan_step_t* chain, pyd_arena_block_t* lifetimes) {
  const pyd_plan_command_t* commands = plan->commands + chain->first_command;
  const uint32_t first = pyd_command_region(insn_of(plan, commands));
  const uint32_t last = pyd_command_region(insn_of(plan, &commands[chain->command_count - 1]));
  for (uint32_t k = 0; k < chain->command_count; ++k) {
    const pyd_plan_slot_t* slots = plan->slots + commands[k].first_slot;
    for (uint32_t j = 0; j < commands[k].slot_count; ++j) {
      if (slots[j].buffer == plan->fn->buffer_count) continue;  // the staging buffer is always live
      pyd_arena_block_t* block = &lifetimes[slots[j].buffer];
      if (block->first > first) block->first = first;
      if (block->last < last) block->last = last;
    }
  }
}

// Decides, after all steps are formed, of which transients only tiles are stored, and sets their tile sizes and offsets
// in the plan. |lifetimes|, by buffer: a buffer that a chain uses becomes live in all regions of the chain.
// OUT_OF_MEMORY.
pyd_status_t pyd_plan_place_tiles(pyd_plan_t* plan, pyd_arena_block_t* lifetimes) {
  bool has_chains = false;
  for (uint32_t i = 0; i < plan->step_count; ++i) {
    if (!plan->steps[i].chunk) continue;
    has_chains = true;
    extend_lifetimes(plan, &plan->steps[i], lifetimes);
  }
  if (!has_chains) return PYD_STATUS_OK;
  uint32_t* users = calloc((size_t)plan->fn->buffer_count + 1, sizeof(*users));
  uint64_t* areas = calloc(plan->step_count, sizeof(*areas));
  if (users && areas) {
    find_users(plan, users);
    place_tiles(plan, users, areas);
  }
  const bool has_memory = users && areas;
  free(areas);
  free(users);
  return has_memory ? PYD_STATUS_OK
                    : pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory for the chains of %u buffers",
                                      plan->fn->buffer_count);
}
