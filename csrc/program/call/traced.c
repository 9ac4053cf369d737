// Execution of commands with a trace event for each range of indices, while a trace is recorded.
#include "program/call/step.h"

static pyd_string_t text(const char* data) { return (pyd_string_t){.data = data, .length = strlen(data)}; }

// Returns the name of a command in the trace: the name of its export or host command, or its kind.
static pyd_string_t name_of(const pyd_plan_t* plan, const pyd_plan_command_t* command) {
  switch (command->kind) {
    case PYD_COMMAND_DISPATCH: return plan->program->exports[command->export].name;
    case PYD_COMMAND_CUSTOM: return plan->program->commands[command->command].name;
    case PYD_COMMAND_FILL: return text("fill");
    default: return text("copy");
  }
}

// Runs indices [begin, end) of a command, and records a trace event with its name, time and outcome.
int32_t pyd_command_run_traced(const pyd_call_t* call, const pyd_call_command_t* command, uint32_t worker,
                               uint64_t begin, uint64_t end, uint64_t* out_failed) {
  const pyd_plan_command_t* plan = command->plan;
  const pyd_trace_kind_t kind = plan->kind == PYD_COMMAND_CUSTOM ? PYD_TRACE_HOST : PYD_TRACE_RUN;
  const pyd_string_t name = name_of(call->plan, plan);
  pyd_trace_event_t event = {.begin = pyd_trace_ticks(), .first = begin, .count = end - begin, .kind = (uint8_t)kind};
  int32_t code = command->run(call, command, worker, begin, end, out_failed);
  event.has_failed = code != 0;
  pyd_trace_record(call->trace, &event, name.data, name.length);
  return code;
}
