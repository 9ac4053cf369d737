// Cost history of each export, bucketed by the bytes bound per workgroup. New plans start with the cost estimates that
// plans for other sizes have measured.
#include "program/plan/plan.h"

// Returns the entry of the cost history for a dispatch: the picoseconds of one of its workgroups, 0 if unknown. Bucket
// i is for workgroups with at least 4^i and less than 4^(i+1) bytes of bindings. The dispatch has at least one
// workgroup.
static uint32_t* cost_bucket(const pyd_plan_t* plan, const pyd_plan_command_t* command) {
  uint64_t bytes = 0;  // per workgroup
  for (uint32_t i = 0; i < command->slot_count; ++i)
    bytes += plan->slots[command->first_slot + i].length / command->count;  // |count|: of workgroups
  // The logarithm to base 4 is half of the logarithm to base 2, which is the number of the highest bit.
  const uint32_t size_class = bytes ? (63 - (uint32_t)__builtin_clzll(bytes)) / 2 : 0;
  const uint32_t last_class = PYD_EXPORT_COST_CLASSES - 1;  // holds all larger workgroups, too
  return &plan->program->exports[command->export].costs[size_class < last_class ? size_class : last_class];
}

// Returns the expected cost of one index of the job of |step|, in picoseconds: the costs of all workgroups of the step
// by the history, divided by the number of indices. 0 if the cost of one of its commands is unknown, as it always is
// for fills, copies and host commands.
static uint32_t expected_cost(const pyd_plan_t* plan, const pyd_plan_step_t* step) {
  double sum = 0;
  for (uint32_t i = 0; i < step->command_count; ++i) {
    const pyd_plan_command_t* command = &plan->commands[step->first_command + i];
    const bool is_empty = command->count == 0;
    if (is_empty) continue;
    if (command->kind != PYD_COMMAND_DISPATCH) return 0;
    const uint32_t workgroup_cost = __atomic_load_n(cost_bucket(plan, command), __ATOMIC_RELAXED);
    if (!workgroup_cost) return 0;
    sum += (double)workgroup_cost * (double)command->count;
  }
  // |total|: indices of the job, each of which is a workgroup; or a tile, if the step computes its dispatches by tiles.
  const double average = step->total ? sum / (double)step->total : 0;
  return average < (double)UINT32_MAX ? (uint32_t)average : UINT32_MAX;
}

// Initializes the cost estimates of all steps of a new plan from the cost history of its exports.
void pyd_plan_expect_costs(pyd_plan_t* plan) {
  for (uint32_t i = 0; i < plan->step_count; ++i) plan->costs[i].picoseconds = expected_cost(plan, &plan->steps[i]);
}

// Stores the measured cost of step number |step| in the cost history of its export, after the first run of the step.
void pyd_plan_note_cost(const pyd_plan_t* plan, uint32_t step) {
  const pyd_plan_command_t* command = &plan->commands[plan->steps[step].first_command];
  // The measured cost is that of a whole step. It is the cost of an export only if the step is one dispatch.
  if (plan->steps[step].command_count != 1 || command->kind != PYD_COMMAND_DISPATCH) return;
  const uint32_t cost = pyd_plan_known_cost(plan, step);
  if (cost) __atomic_store_n(cost_bucket(plan, command), cost, __ATOMIC_RELAXED);
}
