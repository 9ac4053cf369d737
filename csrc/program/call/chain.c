// Execution of chains (tile-fused dispatch sequences): a chunk of tiles goes through all commands before the next chunk
// begins, so that its data stays in the cache.
#include <string.h>

#include "program/call/step.h"

// A failed workgroup is a word: tile, command (its index in the step) and workgroup (its index in the tile). Words
// compare by tile, then by command, then by workgroup: the order in which jobs report failures.
enum { FAILED_COMMAND_SHIFT = 24, FAILED_TILE_SHIFT = 32 };
_Static_assert(PYD_CHAIN_MAX_GROUPS < 1 << FAILED_COMMAND_SHIFT, "a workgroup fits below the command");
_Static_assert((uint64_t)PYD_CHAIN_MAX_COMMANDS << FAILED_COMMAND_SHIFT <= (uint64_t)1 << FAILED_TILE_SHIFT,
               "a command fits below the tile");

// Packs a failed workgroup into a word that compares by |tile| first, then by |command|, its index in the step, then by
// |group|, its index in the tile.
static uint64_t pack_failure(uint64_t tile, uint32_t command, uint64_t group) {
  return tile << FAILED_TILE_SHIFT | (uint64_t)command << FAILED_COMMAND_SHIFT | group;
}

// Records a failed workgroup, a word of pack_failure(), unless a lower one has failed already.
static void note_failure(pyd_step_job_t* job, uint64_t failed) {
  uint64_t seen = __atomic_load_n(&job->failed, __ATOMIC_RELAXED);
  while (failed < seen &&
         !__atomic_compare_exchange_n(&job->failed, &seen, failed, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
}

// Returns the index in the step of the workgroup that the job has recorded as failed: unpacks the word of
// pack_failure().
uint64_t pyd_chain_failed(const pyd_step_job_t* job) {
  const uint64_t failed = __atomic_load_n(&job->failed, __ATOMIC_RELAXED);
  // PYD_CHAIN_MAX_GROUPS and PYD_CHAIN_MAX_COMMANDS - 1 have all bits set, so they are the masks of the two fields.
  const uint64_t tile = failed >> FAILED_TILE_SHIFT, group = failed & PYD_CHAIN_MAX_GROUPS;
  const uint32_t command_in_step = failed >> FAILED_COMMAND_SHIFT & (PYD_CHAIN_MAX_COMMANDS - 1);
  const pyd_plan_command_t* command = &job->call->plan->commands[job->step->first_command + command_in_step];
  return command->start + tile * command->tile_groups + group;
}

// Runs workgroups [first, last) of |command|, which begin with tile |tile|. Kernels address elements relative to the
// whole buffer. So a buffer of which only tiles are stored is bound at the address of the tiles minus the offset of
// |tile|.
static int32_t run_groups(const pyd_call_t* call, const pyd_call_command_t* command, uint32_t worker, uint64_t tile,
                          uint64_t first, uint64_t last, uint64_t* out_failed) {
  const pyd_plan_t* plan = call->plan;
  const pyd_plan_slot_t* slots = plan->slots + command->plan->first_slot;
  const uint32_t count = command->plan->slot_count;
  const uintptr_t tile_area = (uintptr_t)call->tiles + (size_t)worker * plan->tile_area;  // of this worker
  void* pointers[PYD_LIBRARY_MAX_BINDINGS];
  bool has_tiles = false;
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t buffer = slots[i].buffer;
    const uint64_t tile_bytes = plan->buffer_tile_bytes[buffer];  // 0: the whole buffer is stored
    const uintptr_t stored_tile = tile_area + plan->buffer_offset[buffer];
    has_tiles |= tile_bytes != 0;
    // Kernels add tile * tile_bytes to the pointer, and so get the address of |stored_tile|.
    pointers[i] = tile_bytes ? (void*)(stored_tile - tile * tile_bytes) : call->pointers[command->plan->first_slot + i];
  }
  if (!has_tiles) return pyd_command_run(call, command, worker, first, last, out_failed);
  pyd_call_command_t own = *command;
  own.state.binding_ptrs = pointers;
  return pyd_command_run(call, &own, worker, first, last, out_failed);
}

// Runs tiles [begin, end) of a chain, in chunks. A workgroup's failure is reported as its tile in |*out_failed|; the
// job records which of the tile's workgroups it is.
int32_t pyd_chain_run(pyd_step_job_t* job, uint32_t worker, uint64_t begin, uint64_t end, uint64_t* out_failed) {
  const pyd_call_t* call = job->call;
  const pyd_plan_step_t* step = job->step;
  for (uint64_t stop; begin < end; begin = stop) {
    stop = end - begin > step->chunk ? begin + step->chunk : end;
    for (uint32_t i = 0; i < step->command_count; ++i) {
      const pyd_call_command_t* command = &call->commands[step->first_command + i];
      const uint64_t groups = command->plan->tile_groups, last = stop * groups, count = command->plan->count;
      uint64_t failed = 0;
      int32_t code = run_groups(call, command, worker, begin, begin * groups, last < count ? last : count, &failed);
      if (__builtin_expect(code == 0, 1)) continue;
      failed -= command->plan->start;  // index in the command, whose tiles have |groups| workgroups each
      *out_failed = failed / groups;
      note_failure(job, pack_failure(*out_failed, i, failed % groups));
      return code;
    }
  }
  return 0;
}
