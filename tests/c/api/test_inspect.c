// links: base platform sched memory program api
// with: ../program/double.c
// tsan: 3
// What programs and calls are made of, and the time of each command.
#include "api/world.h"

static bool is(pyd_api_text_t text, const char* expected) {
  return text.length == strlen(expected) && !memcmp(text.data, expected, text.length);
}

static void test_program(const world_t* w) {
  CHECK(pd.program_executable_count(w->program) == 1 && !pd.program_executable_count(NULL));
  pyd_api_executable_t found = {.struct_size = sizeof(found), .variant = 9};
  CHECK_OK(pd.program_executable(w->program, 0, &found));
  CHECK(is(found.name, "exe") && found.variant == 0 && found.variant_count == 0 && found.export_count == 2);
  CHECK(found.import_count == 0 && found.struct_size == sizeof(found));
  CHECK_REFUSED(pd.program_executable(w->program, 1, &found), INVALID_ARGUMENT,
                "executable 1 does not exist, there are 1");
  CHECK_REFUSED(pd.program_executable(w->program, 0, NULL), INVALID_ARGUMENT, "the structure to fill is NULL");
  CHECK_REFUSED(pd.program_executable(NULL, 0, &found), INVALID_ARGUMENT, "program is NULL");
  found.struct_size = 8;
  CHECK_REFUSED(pd.program_executable(w->program, 0, &found), INVALID_ARGUMENT, "set its struct_size");
  CHECK(pd.program_host_command_count(w->program) == 0 && !pd.program_host_command_count(NULL));
  CHECK(!pd.program_host_command(w->program, 0).data);
}

// The least size is that of the first version of a structure, whose last member is the last one today.
static void test_least_sizes(const world_t* w, const pyd_api_call_t* call) {
  pyd_api_executable_t found = {.struct_size = offsetof(pyd_api_executable_t, imports) + sizeof(found.imports)};
  pyd_api_command_t command = {.struct_size = offsetof(pyd_api_command_t, bytes) + sizeof(command.bytes)};
  CHECK_OK(pd.program_executable(w->program, 0, &found));
  CHECK_OK(pd.call_command(call, 0, &command));
  CHECK(is(found.name, "exe") && is(command.name, "next"));
  --found.struct_size, --command.struct_size;
  CHECK_REFUSED(pd.program_executable(w->program, 0, &found), INVALID_ARGUMENT,
                "program_executable: the structure to fill has");
  CHECK_REFUSED(pd.call_command(call, 0, &command), INVALID_ARGUMENT, "call_command: the structure to fill has");
}

// A structure of a newer header is filled as far as this library knows it.
static void test_newer(const pyd_api_call_t* call) {
  struct {
    pyd_api_command_t known;
    uint64_t more;
  } newer = {.known = {.struct_size = sizeof(newer)}, .more = 77};
  CHECK_OK(pd.call_command(call, 0, &newer.known));
  CHECK(is(newer.known.name, "next") && newer.more == 77 && newer.known.struct_size == sizeof(newer));
}

static void test_commands(const world_t* w) {
  enum { kN = 6 };
  const float in[kN] = {0};
  float out[kN];
  pyd_api_call_t* call = prepare_bound(w->next, in, out, kN);
  CHECK(pd.call_command_count(call) == 3 && pd.call_arena_bytes(call) >= kN * 4);
  for (uint32_t i = 0; i < 3; ++i) {
    pyd_api_command_t command = {.struct_size = sizeof(command)};
    CHECK_OK(pd.call_command(call, i, &command));
    CHECK(command.kind == PYD_API_COMMAND_DISPATCH && command.region == i && command.bytes == 2 * kN * 4);
    CHECK(is(command.executable, "exe") && is(command.name, "next"));
    CHECK(command.grid[0] == kN && command.grid[1] == 1 && command.grid[2] == 1);
  }
  test_newer(call);
  test_least_sizes(w, call);
  pyd_api_command_t command = {.struct_size = sizeof(command)};
  CHECK_REFUSED(pd.call_command(call, 3, &command), INVALID_ARGUMENT, "command 3 does not exist, there are 3");
  CHECK_REFUSED(pd.call_command(call, 0, NULL), INVALID_ARGUMENT, "is NULL");
  CHECK_REFUSED(pd.call_command(NULL, 0, &command), INVALID_ARGUMENT, "call is NULL");
  CHECK(!pd.call_command_count(NULL) && !pd.call_arena_bytes(NULL));
  pd.call_release(call);
  call = prepare_bound(w->next, NULL, NULL, 0);  // dispatches without workgroups
  CHECK_OK(pd.call_command(call, 1, &command));
  CHECK(command.grid[0] == 0 && command.bytes == 0);
  pd.call_release(call);
  call = prepare(w->tally, 4);
  CHECK(pd.call_command_count(call) == 0 && pd.call_arena_bytes(call) == 0);
  CHECK_REFUSED(pd.call_run_timed(call, NULL, NULL, 0), UNSUPPORTED, "'tally' has control flow or state");
  pd.call_release(call);
}

static int32_t always(void* context) {
  (void)context;
  return 1;
}

static void test_times(const world_t* w) {
  enum { kN = 300 };
  float in[kN], out[kN + 1];
  pyd_api_time_t times[3];
  for (int i = 0; i < kN; ++i) in[i] = (float)i;
  pyd_api_call_t* call = prepare_bound(w->next, in, out + 1, kN);  // copied, since it lies unaligned
  for (int run = 0; run < 5; ++run) {
    memset(out, 0, sizeof(out));
    CHECK_OK(pd.call_run_timed(call, NULL, times, 3));
    for (int i = 0; i < kN; ++i) CHECK(out[i + 1] == (float)i + 3);
    for (int i = 0; i < 3; ++i) CHECK(times[i].begin <= times[i].end && (!i || times[i - 1].end <= times[i].begin));
  }
  const pyd_api_interrupt_t at_once = {sizeof(at_once), always, NULL}, incomplete = {sizeof(incomplete), NULL, NULL};
  CHECK_REFUSED(pd.call_run_timed(call, &at_once, times, 3), INTERRUPTED, "'next'");
  CHECK(!times[0].end && !times[2].end);
  CHECK_REFUSED(pd.call_run_timed(call, &incomplete, times, 3), INVALID_ARGUMENT, "no function to ask");
  CHECK_REFUSED(pd.call_run_timed(call, NULL, times, 2), INVALID_ARGUMENT, "has 3 commands, got room for 2 times");
  CHECK_REFUSED(pd.call_run_timed(call, NULL, NULL, 3), INVALID_ARGUMENT, "out_times is NULL");
  CHECK_REFUSED(pd.call_run_timed(NULL, NULL, times, 3), INVALID_ARGUMENT, "call is NULL");
  in[kN - 2] = -2;  // becomes -1, at which the second command fails
  pyd_status_t status = pd.call_run_timed(call, NULL, times, 3);
  CHECK(pd.status_code(status) == PYD_CODE_KERNEL &&
        strstr(pd.status_text(status), "@exe::@next: workgroup (298, 0, 0)"));
  CHECK(pd.status_values(status)[0] == 1 && pd.status_values(status)[1] == kN - 2);
  CHECK(times[0].end && times[1].end && !times[2].end);
  pd.status_free(status);
  in[kN - 2] = 0;
  CHECK_OK(pd.call_run_timed(call, NULL, times, 3));
  CHECK_OK(pd.call_run(call));
  pd.call_release(call);
  call = prepare(w->next, kN);
  CHECK_REFUSED(pd.call_run_timed(call, NULL, times, 3), INVALID_ARGUMENT, "has no memory");
  pd.call_release(call);
}

int main(void) {
  for (uint32_t workers = 1; workers <= 3; workers += 2) {
    world_t w;
    open_world(&w, &(pyd_sched_options_t){.workers = workers, .spin_us = -1});
    test_program(&w);
    test_commands(&w);
    test_times(&w);
    close_world(&w);
  }
  return 0;
}
