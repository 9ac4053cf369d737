// Running a call. A step with one workgroup is a plain function call; everything else is one job per step, whose indices
// are the workgroups and pieces of all its commands one after another.
#include <string.h>

#include "program/call.h"

#define LIKELY(x) __builtin_expect(!!(x), 1)

typedef struct job_s {
  const pyd_call_t* call;
  const pyd_plan_step_t* step;
} job_t;

// The command of |step| that index |index| belongs to: the last one that starts at or before it. Commands that run
// nothing start where the next one does, so they are never the last.
static const pyd_call_command_t* find_command(const pyd_call_t* call, const pyd_plan_step_t* step, uint64_t index) {
  const pyd_plan_command_t* commands = call->plan->commands + step->first_command;
  uint32_t low = 0, high = step->command_count;
  while (high - low > 1) {
    uint32_t middle = low + (high - low) / 2;
    if (commands[middle].start <= index) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return &call->commands[step->first_command + low];
}

typedef struct group_s {
  uint32_t x, y, z;
} group_t;

static group_t workgroup_at(const pyd_plan_command_t* command, uint64_t index) {
  if (index < command->grid[0]) return (group_t){(uint32_t)index, 0, 0};
  uint64_t row = index / command->grid[0];
  return (group_t){(uint32_t)(index % command->grid[0]), (uint32_t)(row % command->grid[1]),
                   (uint32_t)(row / command->grid[1])};
}

// Workgroups [begin, end) of one dispatch.
static int32_t run_workgroups(const pyd_call_t* call, const pyd_call_command_t* command, uint32_t worker, uint64_t begin,
                              uint64_t end, uint64_t* out_failed) {
  const pyd_plan_command_t* plan = command->plan;
  const pyd_dispatch_fn_t function = command->function;
  const pyd_environment_t* environment = command->environment;
  const pyd_dispatch_state_t* state = &command->state;
  const bool is_embedded = command->is_embedded;
  const uint32_t count_x = plan->grid[0], count_y = plan->grid[1];
  group_t id = workgroup_at(plan, begin);
  _Alignas(16) pyd_workgroup_state_t workgroup = {
      .workgroup_id_x = id.x,
      .workgroup_id_y = id.y,
      .workgroup_id_z = (uint16_t)id.z,
      .processor_id = worker,
      .local_memory = plan->local_bytes ? call->scratch + (size_t)worker * call->plan->local_bytes : NULL,
      .local_memory_size = plan->local_bytes,
  };
  for (uint64_t left = end - begin;;) {
    // One row, or what is left of it: only x changes.
    uint64_t row = count_x - id.x;
    uint32_t x_end = id.x + (uint32_t)(left < row ? left : row);
    left -= x_end - id.x;
    for (; id.x < x_end; ++id.x) {
      workgroup.workgroup_id_x = id.x;
      int32_t code = pyd_dispatch_call(function, is_embedded, environment, state, &workgroup);
      if (LIKELY(code == 0)) continue;
      *out_failed = plan->start + ((uint64_t)id.z * count_y + id.y) * count_x + id.x;
      return code;
    }
    if (left == 0) return 0;
    id.x = 0;
    if (++id.y == count_y) {
      id.y = 0;
      workgroup.workgroup_id_z = (uint16_t)++id.z;
    }
    workgroup.workgroup_id_y = id.y;
  }
}

static void fill(uint8_t* target, uint64_t length, uint64_t pattern, uint32_t pattern_bytes) {
  switch (pattern_bytes) {
    case 1: pattern = (pattern & 0xFF) * UINT64_C(0x0101010101010101); break;
    case 2: pattern = (pattern & 0xFFFF) * UINT64_C(0x0001000100010001); break;
    case 4: pattern = (pattern & 0xFFFFFFFF) * UINT64_C(0x0000000100000001); break;
    default: break;
  }
  if (pattern == (pattern & 0xFF) * UINT64_C(0x0101010101010101)) {
    memset(target, (int)(pattern & 0xFF), length);
    return;
  }
  uint64_t at = 0;
  for (; length - at >= sizeof(pattern); at += sizeof(pattern)) memcpy(target + at, &pattern, sizeof(pattern));
  if (length != at) memcpy(target + at, &pattern, length - at);
}

// Pieces [begin, end) of one fill or copy.
static void run_pieces(const pyd_call_t* call, const pyd_call_command_t* command, uint64_t begin, uint64_t end) {
  const pyd_plan_command_t* plan = command->plan;
  void* const* pointers = call->pointers + plan->first_slot;
  if (plan->overlaps) {
    memmove(pointers[1], pointers[0], plan->length);
    return;
  }
  if (pointers[0] == pointers[1] && plan->kind == PYD_COMMAND_COPY) return;  // a result that took its argument's memory over
  uint64_t from = begin * PYD_TILE_BYTES;
  uint64_t length = (end == plan->count ? plan->length : end * PYD_TILE_BYTES) - from;
  if (plan->kind == PYD_COMMAND_FILL) {
    fill((uint8_t*)pointers[0] + from, length, command->pattern, plan->pattern_bytes);
  } else {
    memcpy((uint8_t*)pointers[1] + from, (const uint8_t*)pointers[0] + from, length);
  }
}

static int32_t run_range(void* self, uint32_t worker, uint64_t begin, uint64_t end, uint64_t* out_failed) {
  const job_t* job = self;
  const pyd_call_t* call = job->call;
  const pyd_call_command_t* command = &call->commands[job->step->first_command];
  if (job->step->command_count > 1) command = find_command(call, job->step, begin);
  int32_t code = 0;
  for (; begin < end && code == 0; ++command) {
    uint64_t start = command->plan->start, stop = start + command->plan->count;
    if (stop > end) stop = end;
    if (stop == begin) continue;  // runs nothing
    if (command->function) {
      code = run_workgroups(call, command, worker, begin - start, stop - start, out_failed);
    } else {
      run_pieces(call, command, begin - start, stop - start);
    }
    begin = stop;
  }
  return code;
}

// What a code of generated kernels means, behind the number.
static const char* code_text(int32_t code) {
  switch (code) {
    case PYD_LIBRARY_CODE_MISSING_IMPORT: return ": it called an optional import that nobody provides";
    case PYD_LIBRARY_CODE_FAILED_ASSERTION: return ": a cf.assert does not hold";
    default: return "";
  }
}

static pyd_status_t kernel_failure(const pyd_call_t* call, const pyd_plan_step_t* step, uint64_t index, int32_t code) {
  const pyd_plan_command_t* command = find_command(call, step, index)->plan;
  const pyd_export_t* export = &call->plan->program->exports[command->export];
  pyd_string_t executable = call->plan->program->executables[export->executable].name;
  group_t id = workgroup_at(command, index - command->start);
  const int64_t values[5] = {command->number, id.x, id.y, id.z, code};
  return pyd_status_make_values(PYD_CODE_KERNEL, values, "@%.*s::@%.*s: workgroup (%u, %u, %u) returned %d%s",
                                (int)executable.length, executable.data, (int)export->name.length, export->name.data, id.x,
                                id.y, id.z, code, code_text(code));
}

static pyd_status_t interrupted(const pyd_call_t* call) {
  pyd_string_t name = call->plan->fn->info.name;
  return pyd_status_make(PYD_CODE_INTERRUPTED, "function '%.*s': the call was interrupted", (int)name.length, name.data);
}

static pyd_status_t run_step(const pyd_call_t* call, uint32_t number, const pyd_interrupt_t* interrupt) {
  const pyd_plan_step_t* step = &call->plan->steps[number];
  job_t job = {call, step};
  pyd_sched_failure_t failure = {0};
  if (step->total == 1 || (call->workers == 1 && (!interrupt || !call->sched))) {
    failure.code = run_range(&job, 0, 0, step->total, &failure.index);
  } else {
    const pyd_sched_job_t description = {run_range, &job, step->total, &call->plan->costs[number], interrupt};
    pyd_sched_run(call->sched, &description, &failure);
  }
  if (failure.is_interrupted) return interrupted(call);
  return LIKELY(failure.code == 0) ? PYD_STATUS_OK : kernel_failure(call, step, failure.index, failure.code);
}

enum { kAskSteps = 64 };  // steps of one workgroup between two questions whether to go on

static pyd_status_t run_steps(const pyd_call_t* call, const pyd_interrupt_t* interrupt) {
  const pyd_plan_t* plan = call->plan;
  const uint32_t count = plan->step_count;
  for (uint32_t begin = 0;;) {
    const uint32_t end = count - begin > kAskSteps ? begin + kAskSteps : count;
    for (uint32_t i = begin; i < end; ++i) {
      const pyd_plan_step_t* step = &plan->steps[i];
      const pyd_call_command_t* command = &call->commands[step->first_command];
      if (step->total == 1 && command->function) {
        int32_t code = pyd_dispatch_call(command->function, command->is_embedded, command->environment, &command->state,
                                         &command->workgroup);
        if (LIKELY(code == 0)) continue;
        return kernel_failure(call, step, 0, code);
      }
      pyd_status_t status = run_step(call, i, interrupt);
      if (!pyd_ok(status)) return status;
    }
    if (LIKELY(end == count)) return PYD_STATUS_OK;
    if (interrupt && interrupt->is_wanted(interrupt->self)) return interrupted(call);
    begin = end;
  }
}

static pyd_status_t compute_late(pyd_call_t* call) {
  const pyd_plan_t* plan = call->plan;
  pyd_status_t status = pyd_function_interpret_late(plan->program, plan->fn, call->scalars, call->regs);
  if (!pyd_ok(status)) return status;
  for (uint32_t i = 0; i < plan->late_count; ++i) {
    const pyd_plan_late_t* late = &plan->late[i];
    uint64_t value = call->regs[late->reg];
    if (late->is_pattern) {
      call->commands[late->target].pattern = value;
    } else {
      call->constants[late->target] = (uint32_t)(value >> (late->is_high ? 32 : 0));
    }
  }
  call->is_late_stale = false;
  return PYD_STATUS_OK;
}

static pyd_status_t refuse_unbound(const pyd_call_t* call) {
  const pyd_function_t* fn = call->plan->fn;
  char who[128] = "a buffer";
  for (uint32_t i = fn->buffer_count; i-- > 0;) {
    bool needs = fn->buffers[i].kind == PYD_BUFFER_ARGUMENT || fn->buffers[i].kind == PYD_BUFFER_RESULT;
    if (needs && !call->is_bound[i]) pyd_plan_name_buffer(fn, i, who, sizeof(who));
  }
  return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "@%.*s: %s has no memory; bind it before the call is run",
                         (int)fn->info.name.length, fn->info.name.data, who);
}

pyd_status_t pyd_call_run(pyd_call_t* call) { return pyd_call_run_until(call, NULL); }

pyd_status_t pyd_call_run_until(pyd_call_t* call, const pyd_interrupt_t* interrupt) {
  if (call->unbound) return refuse_unbound(call);
  pyd_status_t status = PYD_STATUS_OK;
  if (call->is_late_stale) status = compute_late(call);
  if (!pyd_ok(status)) return status;
  const pyd_runner_t* runner = &call->plan->program->runner;
  if (runner->run) return runner->run(runner->self, call);
  if (LIKELY(call->is_arena_kept)) return run_steps(call, interrupt);
  void* arena = NULL;
  status = pyd_pool_acquire(call->pool, call->plan->arena_bytes, &arena);
  if (!pyd_ok(status)) return status;
  pyd_call_patch_arena(call, arena);
  status = run_steps(call, interrupt);
  pyd_pool_release(call->pool, arena);
  return status;
}
