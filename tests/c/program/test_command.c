// links: base platform sched memory program
// with: double.c reverse.c
// extended: reverse.c
// A kind of command that the program has one row for and one file: it is verified, planned, described, told to devices,
// run and refused like the others.
#include "program/builder.h"

uint64_t pyd_work;  // steps, which this build counts

// A copy of argument 0 into the result, which is reversed in a region of its own. |target|: the buffer to reverse
// instead.
static void build(builder_t* b, uint32_t target, bool is_cut) {
  fn_t* f = add_function(b, "main");
  const int64_t dims[] = {-1};
  add_tensor(b, f, I8, "x", 1, dims);
  uint32_t n = op(f, PYD_OP_DIM, 0, 0, 0, 0), result = add_result(f, I8, 1, &n, n);
  add_copy(f, 0, 0, NONE, result, NONE, n);
  add_command(f, PYD_OP_REVERSE, 1, is_cut ? f->pool.count : push(&f->pool, target == NONE ? result : target));
}

static void refuse(uint32_t target, bool is_cut, const char* text) {
  static builder_t b;
  build(&b, target, is_cut);
  pyd_span_t bytes = encode(&b);
  pyd_program_t* program = NULL;
  check_refused(pyd_program_decode(bytes, &program), PYD_CODE_CORRUPT, text, __FILE__, __LINE__);
  free((void*)bytes.data);
}

static void check_plan(const pyd_plan_t* plan, uint32_t bytes) {
  char text[128];
  pyd_command_info_t info;
  pyd_command_slot_t slot;
  CHECK(pyd_plan_command_count(plan) == 2);
  CHECK_OK(pyd_plan_describe(plan, 1, text, sizeof(text)));
  CHECK(strcmp(text, "region 1: reverse result 0") == 0);
  CHECK_OK(pyd_plan_describe(plan, 1, text, 12));  // is cut where the text ends
  CHECK(strcmp(text, "region 1: r") == 0);
  pyd_plan_command(plan, 1, &info);
  CHECK(info.kind == PYD_COMMAND_REVERSE && info.region == 1 && info.slot_count == 1 && info.is_empty == (bytes == 0));
  pyd_plan_command_slot(plan, 1, 0, &slot);
  CHECK(slot.buffer == 1 && slot.offset == 0 && slot.length == bytes);
}

static void check_run(const pyd_program_t* program, const char* in, const char* expected) {
  char out[16] = "";
  const int64_t dims[] = {(int64_t)strlen(in)};
  pyd_plan_t* plan;
  pyd_call_t* call;
  CHECK_OK(pyd_plan_create(program, 0, dims, NULL, &plan));
  check_plan(plan, (uint32_t)dims[0]);
  CHECK_OK(pyd_call_create(plan, NULL, NULL, &call));
  pyd_call_bind_arg(call, 0, in);
  pyd_call_bind_result(call, 0, out);
  if (expected) {
    CHECK_OK(pyd_call_run(call));
    CHECK(strcmp(out, expected) == 0);
  } else {
    CHECK_REFUSED(pyd_call_run(call), KERNEL, "command 1 (reverse) ended with 7");
  }
  pyd_call_free(call);
  pyd_plan_free(plan);
}

int main(void) {
  static builder_t b;
  build(&b, NONE, false);
  pyd_program_t* program = decode(&b);
  check_run(program, "abcde", "edcba");
  check_run(program, "ab", "ba");
  check_run(program, "", "");
  check_run(program, "\xEE tail", NULL);
  pyd_program_free(program);
  refuse(0, false, "instruction 2: buffer 0 is an argument and cannot be written");
  refuse(9, false, "instruction 2: buffer 9, the function has 2");
  refuse(NONE, true, "instruction 2: 1 words at pool word");
  return 0;
}
