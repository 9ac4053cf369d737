// Verifies the steps of one procedure: operands are in range, types agree, jumps stay inside. Whether a slot has a
// value when it is read is checked at run time.
#include "program/decode/verify.h"

// The state of the verification of a procedure.
typedef struct verifier_s {
  const pyd_program_t* program;
  pyd_procedure_t* p;
  uint32_t step;        // being verified
  uint64_t* pool_left;  // words of the pool that no step has claimed so far
} verifier_t;

// Returns a CORRUPT failure that names the current step.
#define CORRUPT(v, format, ...) pyd_status_make(PYD_CODE_CORRUPT, "step %u: " format, (v)->step, __VA_ARGS__)

// Claims |words| words of the pool at |at| for one step. All steps together may claim no more words than the pool has:
// the time to verify overlapping records could otherwise grow with the product of steps and words.
static pyd_status_t claim_pool(const verifier_t* v, uint32_t at, uint64_t words) {
  PYD_COUNT_WORK(words);
  pyd_status_t status = pyd_verify_pool("step", v->step, v->p->pool_count, at, words);
  if (!pyd_ok(status)) return status;
  if (words > *v->pool_left) {
    return CORRUPT(v, "%llu words at pool word %u overlap those of other steps: the pool has %u",
                   (unsigned long long)words, at, v->p->pool_count);
  }
  *v->pool_left -= words;
  return status;
}

// Claims a counted array in the pool at |at|: a word with the count n, and n records of |width| words.
static pyd_status_t claim_records(const verifier_t* v, uint32_t at, uint32_t width, uint32_t* out_count) {
  *out_count = 0;
  pyd_status_t status = claim_pool(v, at, 1);
  if (!pyd_ok(status)) return status;
  uint32_t count = v->p->pool[at];
  status = claim_pool(v, at + 1, (uint64_t)count * width);
  if (pyd_ok(status)) *out_count = count;
  return status;
}

// Checks that |slot| exists and is of |kind|, PYD_KIND_TENSOR or PYD_KIND_SCALAR.
static pyd_status_t check_slot(const verifier_t* v, uint32_t slot, uint32_t kind) {
  if (slot >= v->p->slot_count) return CORRUPT(v, "slot %u, the procedure has %u", slot, v->p->slot_count);
  if (v->p->slots[slot].kind == kind) return PYD_STATUS_OK;
  return CORRUPT(v, "slot %u is %s", slot,
                 kind == PYD_KIND_SCALAR ? "a tensor, a scalar is needed" : "a scalar, a tensor is needed");
}

static pyd_status_t check_tensor(const verifier_t* v, uint32_t slot) { return check_slot(v, slot, PYD_KIND_TENSOR); }
static pyd_status_t check_scalar(const verifier_t* v, uint32_t slot) { return check_slot(v, slot, PYD_KIND_SCALAR); }

// Returns whether a slot has this kind (PYD_KIND_TENSOR or PYD_KIND_SCALAR) and, if it is a tensor, this element type
// and rank. Scalars are 64-bit words whatever their dtype.
static bool has_type(const pyd_slot_type_t* slot, uint32_t kind, uint32_t dtype, uint32_t rank) {
  return slot->kind == kind && (kind == PYD_KIND_SCALAR || (slot->dtype == dtype && slot->rank == rank));
}

// Checks that |slot| exists and has the given kind (PYD_KIND_TENSOR or PYD_KIND_SCALAR), dtype and rank. |what| and
// |index| name the user of the slot in the message: "argument 2". |is_read|: the step reads the slot, so the operand
// may have the flag PYD_LAST_USE.
static pyd_status_t check_type(const verifier_t* v, const char* what, uint32_t index, uint32_t slot, bool is_read,
                               uint32_t kind, uint32_t dtype, uint32_t rank) {
  if (is_read) slot &= ~PYD_LAST_USE;
  if (slot >= v->p->slot_count) return CORRUPT(v, "slot %u, the procedure has %u", slot, v->p->slot_count);
  const pyd_slot_type_t* type = &v->p->slots[slot];
  if (has_type(type, kind, dtype, rank)) return PYD_STATUS_OK;
  return CORRUPT(v, "slot %u does not have the type of %s %u: kind %u, dtype 0x%08X, rank %u; expected %u, 0x%08X, %u",
                 slot, what, index, type->kind, type->dtype, type->rank, kind, dtype, rank);
}

// Calls check_type() with the kind, dtype and rank of |value|.
static pyd_status_t check_value(const verifier_t* v, const char* what, uint32_t index, uint32_t slot, bool is_read,
                                const pyd_program_value_t* value) {
  return check_type(v, what, index, slot, is_read, value->kind, value->dtype, value->rank);
}

// Checks that |count| slots exist and are scalars.
static pyd_status_t check_scalars(const verifier_t* v, const uint32_t* slots, uint32_t count) {
  pyd_status_t status = PYD_STATUS_OK;
  for (uint32_t i = 0; i < count && pyd_ok(status); ++i) status = check_scalar(v, slots[i]);
  return status;
}

// Checks that |step|, the target of a jump, exists.
static pyd_status_t check_jump(const verifier_t* v, uint32_t step) {
  return step < v->p->step_count ? PYD_STATUS_OK : CORRUPT(v, "step %u, the procedure has %u", step, v->p->step_count);
}

// Raises |*maximum| to |value| if it is lower.
static void update_max(uint32_t* maximum, uint32_t value) {
  if (*maximum < value) *maximum = value;
}

// Verifies a step that calls function a: pool word b begins its argument slots, then its result slots (PYD_NONE drops a
// result), and all have the types of the function. Also updates the sizes of the arrays that running the procedure
// needs.
static pyd_status_t verify_run(const verifier_t* v, const pyd_step_t* step) {
  if (step->a >= v->program->function_count) {
    return CORRUPT(v, "function %u, the program has %u", step->a, v->program->function_count);
  }
  const pyd_function_t* fn = &v->program->functions[step->a];
  uint32_t args = fn->info.arg_count, results = fn->info.result_count;
  pyd_status_t status = claim_pool(v, step->b, (uint64_t)args + results);
  if (!pyd_ok(status)) return status;
  const uint32_t* slots = v->p->pool + step->b;
  for (uint32_t i = 0; i < args && pyd_ok(status); ++i) {
    status = check_value(v, "argument", i, slots[i], /* is_read */ true, &fn->info.args[i]);
  }
  for (uint32_t i = 0; i < results && pyd_ok(status); ++i) {
    if (slots[args + i] == PYD_NONE) continue;
    status = check_value(v, "result", i, slots[args + i], /* is_read */ false, &fn->info.results[i]);
  }
  update_max(&v->p->max_dims, fn->info.dims_count);
  update_max(&v->p->max_scalars, fn->scalar_count);
  update_max(&v->p->max_regs, fn->reg_count);
  update_max(&v->p->max_args, args);
  update_max(&v->p->max_results, results);
  return status;
}

// Verifies parallel moves between slots: pool word a holds their number, then a target and a source slot per move,
// which have the same type.
static pyd_status_t verify_move(const verifier_t* v, const pyd_step_t* step) {
  uint32_t count;
  pyd_status_t status = claim_records(v, step->a, 2, &count);
  if (!pyd_ok(status)) return status;
  const uint32_t* pairs = v->p->pool + step->a + 1;
  for (uint32_t i = 0; i < count && pyd_ok(status); ++i) {
    uint32_t target = pairs[2 * i];
    if (target >= v->p->slot_count) return CORRUPT(v, "slot %u, the procedure has %u", target, v->p->slot_count);
    const pyd_slot_type_t* type = &v->p->slots[target];
    status = check_type(v, "move", i, pairs[2 * i + 1], /* is_read */ true, type->kind, type->dtype, type->rank);
  }
  update_max(&v->p->max_moves, count);
  return status;
}

// Verifies a step that reads one element of tensor slot b into scalar slot a: pool word c holds the number of indices,
// then one scalar slot per axis; pool word d, if not PYD_NONE, begins the source location. The width of an element is a
// power of two up to 64 bits, of a boolean (numerical type 0x13) up to 8.
static pyd_status_t verify_read(const verifier_t* v, const pyd_step_t* step) {
  uint32_t count = 0;
  pyd_status_t status = check_scalar(v, step->a);
  if (pyd_ok(status)) status = check_tensor(v, step->b);
  if (pyd_ok(status)) status = claim_records(v, step->c, 1, &count);
  if (!pyd_ok(status)) return status;
  const pyd_slot_type_t* tensor = &v->p->slots[step->b];
  uint32_t bits = tensor->dtype & 0xFFFFFF;  // a dtype is numerical type << 24 | bits
  if (count != tensor->rank) return CORRUPT(v, "%u indices for %u axes", count, tensor->rank);
  if (bits > 64 || (bits & (bits - 1)) != 0 || (tensor->dtype >> 24 == 0x13 && bits > 8))
    return CORRUPT(v, "an element of %u bits cannot be read", bits);
  status = check_scalars(v, v->p->pool + step->c + 1, count);
  if (!pyd_ok(status) || step->d == PYD_NONE) return status;
  status = claim_pool(v, step->d, 2);
  if (!pyd_ok(status)) return status;
  return pyd_verify_text("step", v->step, v->program, "location", v->p->pool + step->d, UINT32_MAX);
}

// Verifies a load of global |number| into |slot|, or a store of |slot| to it, and sets |loads_mutable| or |has_stores|
// of the procedure.
static pyd_status_t verify_global(const verifier_t* v, uint32_t number, uint32_t slot, bool is_store) {
  if (number >= v->program->global_count)
    return CORRUPT(v, "global %u, the program has %u", number, v->program->global_count);
  const pyd_global_t* global = &v->program->globals[number];
  v->p->has_stores |= is_store;
  v->p->loads_mutable |= !is_store && global->is_mutable;
  return check_value(v, "global", number, slot, /* is_read */ is_store, &global->type);
}

// Verifies a step that records values for check a: the check exists, and takes as many values as pool word b says. The
// slots of the values follow that word.
static pyd_status_t verify_observe(const verifier_t* v, const pyd_step_t* step) {
  uint32_t count;
  if (step->a >= v->program->check_count)
    return CORRUPT(v, "check %u, the program has %u", step->a, v->program->check_count);
  pyd_status_t status = claim_records(v, step->b, 1, &count);
  for (uint32_t i = 0; i < count && pyd_ok(status); ++i) {
    uint32_t slot = v->p->pool[step->b + 1 + i];
    if (slot >= v->p->slot_count) status = CORRUPT(v, "slot %u, the procedure has %u", slot, v->p->slot_count);
  }
  // Checks of kinds from 3 on compare two values; the others look at one.
  uint32_t wanted = pyd_ok(status) && v->program->checks[step->a].kind >= 3 ? 2 : 1;
  if (pyd_ok(status) && count != wanted)
    status = CORRUPT(v, "check %u takes %u values, got %u", step->a, wanted, count);
  return status;
}

// Verifies a return: the slots from pool word a on have the types of the results.
static pyd_status_t verify_return(const verifier_t* v, const pyd_step_t* step) {
  const pyd_program_function_t* info = &v->p->info;
  pyd_status_t status = claim_pool(v, step->a, info->result_count);
  for (uint32_t i = 0; i < info->result_count && pyd_ok(status); ++i) {
    status = check_value(v, "result", i, v->p->pool[step->a + i], /* is_read */ true, &info->results[i]);
  }
  return status;
}

// Verifies a step that stores constant b in tensor slot a: the sizes from pool word c on (low word, then high word of
// each) make up the bytes of the constant.
static pyd_status_t verify_constant(const verifier_t* v, const pyd_step_t* step) {
  pyd_status_t status = check_tensor(v, step->a);
  if (!pyd_ok(status)) return status;
  const pyd_slot_type_t* slot = &v->p->slots[step->a];
  if (step->b >= v->program->constant_count)
    return CORRUPT(v, "constant %u, the program has %u", step->b, v->program->constant_count);
  status = claim_pool(v, step->c, 2 * (uint64_t)slot->rank);
  if (!pyd_ok(status)) return status;
  int64_t dims[PYD_PROGRAM_MAX_RANK];
  for (uint32_t i = 0; i < slot->rank; ++i) {
    const uint32_t* words = v->p->pool + step->c + 2 * i;
    dims[i] = (int64_t)(words[0] | (uint64_t)words[1] << 32);
  }
  uint64_t bytes;
  bool fits = pyd_tensor_bytes(slot->dtype, slot->rank, dims, &bytes) && bytes == v->program->constants[step->b].length;
  return fits ? status
              : CORRUPT(v, "the sizes of constant %u do not make up its %llu bytes", step->b,
                        (unsigned long long)v->program->constants[step->b].length);
}

// Verifies a step that stores a view of tensor slot b in tensor slot a: pool word c is the scalar slot of the byte
// offset, or PYD_NONE, and the words after it are a scalar slot per size of the view.
static pyd_status_t verify_view(const verifier_t* v, const pyd_step_t* step) {
  pyd_status_t status = check_tensor(v, step->a);
  if (pyd_ok(status)) status = check_tensor(v, step->b & ~PYD_LAST_USE);
  if (!pyd_ok(status)) return status;
  uint32_t rank = v->p->slots[step->a].rank;
  status = claim_pool(v, step->c, 1 + (uint64_t)rank);
  if (!pyd_ok(status)) return status;
  const uint32_t* words = v->p->pool + step->c;
  if (words[0] != PYD_NONE) status = check_scalar(v, words[0]);
  return pyd_ok(status) ? check_scalars(v, words + 1, rank) : status;
}

enum { kPositionDtype = 0x10000040 };  // dtype of row numbers: i64 or index, which are signless integers of 64 bits

// Verifies a step that stores the value of tensor slot b in tensor slot a, of the same type, so that later steps may
// overwrite some of its rows in place. Pool word c is the slot of the numbers of these rows. The next word is the slot
// of a copy of their elements, which restores them after a failed call; its rank may differ.
static pyd_status_t verify_save(const verifier_t* v, const pyd_step_t* step) {
  pyd_status_t status = check_tensor(v, step->a);
  if (!pyd_ok(status)) return status;
  const pyd_slot_type_t* type = &v->p->slots[step->a];
  status =
      check_type(v, "the tensor of save", step->a, step->b, /* is_read */ true, type->kind, type->dtype, type->rank);
  if (pyd_ok(status)) status = claim_pool(v, step->c, 2);
  const uint32_t dtypes[2] = {kPositionDtype, type->dtype};
  for (uint32_t i = 0; i < 2 && pyd_ok(status); ++i) {
    uint32_t slot = v->p->pool[step->c + i] & ~PYD_LAST_USE;
    status = check_tensor(v, slot);
    if (pyd_ok(status) && v->p->slots[slot].dtype != dtypes[i])
      status = CORRUPT(v, "slot %u has the dtype 0x%08X, expected 0x%08X", slot, v->p->slots[slot].dtype, dtypes[i]);
  }
  return status;
}

// Verifies a step that jumps to step b or c, as the scalar slot a says.
static pyd_status_t verify_branch(const verifier_t* v, const pyd_step_t* step) {
  pyd_status_t status = check_scalar(v, step->a);
  if (pyd_ok(status)) status = check_jump(v, step->b);
  return pyd_ok(status) ? check_jump(v, step->c) : status;
}

// Verifies a step that empties slot a.
static pyd_status_t verify_drop(const verifier_t* v, const pyd_step_t* step) {
  if (step->a < v->p->slot_count) return PYD_STATUS_OK;
  return CORRUPT(v, "slot %u, the procedure has %u", step->a, v->p->slot_count);
}

// Verifies a step that stores the size of axis c of tensor slot b in scalar slot a.
static pyd_status_t verify_dim(const verifier_t* v, const pyd_step_t* step) {
  pyd_status_t status = check_scalar(v, step->a);
  if (pyd_ok(status)) status = check_tensor(v, step->b);
  if (!pyd_ok(status) || step->c < v->p->slots[step->b].rank) return status;
  return CORRUPT(v, "axis %u of slot %u does not exist", step->c, step->b);
}

// Verifies one step by its opcode.
static pyd_status_t verify_step(const verifier_t* v) {
  const pyd_step_t* step = &v->p->steps[v->step];
  PYD_COUNT_WORK(1);
  switch ((pyd_step_op_t)step->op) {
    case PYD_STEP_RUN: return verify_run(v, step);
    case PYD_STEP_MOVE: return verify_move(v, step);
    case PYD_STEP_JUMP: return check_jump(v, step->a);
    case PYD_STEP_BRANCH: return verify_branch(v, step);
    case PYD_STEP_READ: return verify_read(v, step);
    case PYD_STEP_LOAD: return verify_global(v, step->b, step->a, /* is_store */ false);
    case PYD_STEP_STORE: return verify_global(v, step->a, step->b, /* is_store */ true);
    case PYD_STEP_OBSERVE: return verify_observe(v, step);
    case PYD_STEP_DROP: return verify_drop(v, step);
    case PYD_STEP_RETURN: return verify_return(v, step);
    case PYD_STEP_CONSTANT: return verify_constant(v, step);
    case PYD_STEP_SCALAR: return check_scalar(v, step->a);
    case PYD_STEP_DIM: return verify_dim(v, step);
    case PYD_STEP_VIEW: return verify_view(v, step);
    case PYD_STEP_SAVE: return verify_save(v, step);
  }
  return CORRUPT(v, "opcode %u does not exist", step->op);
}

// Verifies the steps of |procedure|, after all functions and globals are decoded.
pyd_status_t pyd_procedure_verify(const pyd_program_t* program, pyd_procedure_t* p) {
  uint64_t pool_left = p->pool_count;
  verifier_t v = {.program = program, .p = p, .pool_left = &pool_left};
  pyd_status_t status = PYD_STATUS_OK;
  for (uint32_t i = 0; i < p->info.arg_count && pyd_ok(status); ++i) {
    if (p->arg_slots[i] < p->slot_count) {
      const pyd_slot_type_t* slot = &p->slots[p->arg_slots[i]];
      if (has_type(slot, p->info.args[i].kind, p->info.args[i].dtype, p->info.args[i].rank)) continue;
    }
    status = pyd_status_make(PYD_CODE_CORRUPT, "argument %u: slot %u does not exist or has another type", i,
                             p->arg_slots[i]);
  }
  for (; v.step < p->step_count && pyd_ok(status); ++v.step) status = verify_step(&v);
  if (!pyd_ok(status)) return status;
  uint32_t last_op = p->step_count ? p->steps[p->step_count - 1].op : 0;  // 0 is no opcode
  if (last_op == PYD_STEP_RETURN || last_op == PYD_STEP_JUMP || last_op == PYD_STEP_BRANCH) return status;
  return pyd_status_make(PYD_CODE_CORRUPT, "the last of %u steps goes on to one that does not exist", p->step_count);
}
