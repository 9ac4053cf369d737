// Applies relocations by their kind. The relocation numbers of a machine are rows of arch/<machine>.h.
//
// In the formulas S is the address of the symbol (0 for an undefined weak one), A the addend, P the address that is
// relocated, B the load bias.
#include <inttypes.h>

#include "base/span.h"
#include "elf/arch/aarch64.h"
#include "elf/arch/riscv64.h"
#include "elf/arch/x86_64.h"
#include "elf/format.h"
#include "elf/view.h"

// The value that a relocation stores, by the formula of its ABI in S, A, P and B as defined above.
typedef enum meaning_e {
  MEANING_NONE,
  MEANING_BASE,           // B + A
  MEANING_SYMBOL,         // S
  MEANING_SYMBOL_ADDEND,  // S + A
  MEANING_SYMBOL_PC,      // S + A - P
  MEANING_COPY,           // refused: data of another library
  MEANING_THREAD,         // refused: thread-local storage
  MEANING_INDIRECT,       // refused: calls code to find the address (ifunc)
} meaning_t;

// The values X that a field of n bits accepts.
typedef enum range_e {
  RANGE_ANY,       // as wide as an address
  RANGE_SIGNED,    // -2^(n-1) <= X < 2^(n-1)
  RANGE_UNSIGNED,  // 0 <= X < 2^n
  RANGE_EITHER,    // -2^(n-1) <= X < 2^n
} range_t;

// A kind of relocation of one machine.
typedef struct kind_s {
  const char* name;  // as the ABI of the machine has it
  uint8_t meaning;   // meaning_t
  uint8_t bits;      // of the field; 0: nothing is stored, or the kind is refused
  uint8_t range;     // range_t
} kind_t;

// Returns the kind with the number |type| on |machine|; NULL if it is not known.
static const kind_t* find_kind(uint32_t machine, uint32_t type) {
#define X(number, name, meaning, bits, range)                                      \
  case number: {                                                                   \
    static const kind_t kKind = { #name, MEANING_##meaning, bits, RANGE_##range }; \
    return &kKind;                                                                 \
  }
  switch (machine) {
    case PYD_ELF_MACHINE_X86_64:
      switch (type) { PYD_ELF_RELOCS_X86_64(X) }
      break;
    case PYD_ELF_MACHINE_AARCH64:
      switch (type) { PYD_ELF_RELOCS_AARCH64(X) }
      break;
    case PYD_ELF_MACHINE_RISCV64:
      switch (type) { PYD_ELF_RELOCS_RISCV64(X) }
      break;
  }
#undef X
  return NULL;
}

// The relocation of one ELF module in memory: the module, and the entry of a relocation table that is being applied.
typedef struct relocator_s {
  const pyd_elf_view_t* view;
  uint8_t* image;  // NULL: only check
  uint64_t bias;
  const pyd_elf_segment_t* segment;  // of the last relocated word: the next one is nearly always in it too
  // The current relocation:
  const char* table;  // the tag of its table, for messages
  uint64_t index;     // in the table
  uint32_t type;
  uint32_t symbol;  // index in the symbol table; 0: none
} relocator_t;

#define WHERE_FORMAT "relocation %" PRIu64 " of %s (%s%s%.64s)"
#define WHERE(r, kind)                                                  \
  (r)->index, (r)->table, (kind)->name, (r)->symbol ? ", symbol " : "", \
      (r)->symbol ? pyd_elf_view_symbol_name((r)->view, (r)->symbol) : ""

// Returns whether |size| bytes at |vaddr| are in a writable segment. Relocated words must be writable in the protected
// image too: any other would be a text relocation, and would let a file change tables that are read later.
static bool is_writable(relocator_t* r, uint64_t vaddr, uint64_t size) {
  const pyd_elf_segment_t* s = r->segment;
  if (!(s && vaddr >= s->vaddr && size <= s->memory_size && vaddr - s->vaddr <= s->memory_size - size)) {
    s = r->segment = pyd_elf_view_segment(r->view, vaddr, size);
  }
  return s && (s->flags & PF_W);
}

// Stores the low |bytes| bytes of |value|, little-endian.
static void store(uint8_t* target, uint64_t value, uint32_t bytes) {
  for (uint32_t i = 0; i < bytes; ++i) target[i] = (uint8_t)(value >> 8 * i);
}

// Returns whether a field of |bits| bits, at most 64, can hold |value|. Negative values are in two's complement.
static bool fits(uint64_t value, uint32_t bits, range_t range) {
  if (bits == 64) return true;
  int64_t number = (int64_t)value, half = (int64_t)1 << (bits - 1);
  bool as_signed = number >= -half && number < half;  // -2^(bits-1) <= X < 2^(bits-1)
  bool as_unsigned = value < (uint64_t)half * 2;
  if (range == RANGE_SIGNED) return as_signed;
  return range == RANGE_UNSIGNED ? as_unsigned : as_signed || as_unsigned;
}

// Returns the failure of a relocation at |vaddr| whose |value| does not fit.
static pyd_status_t refuse_range(const relocator_t* r, const kind_t* kind, uint64_t vaddr, uint64_t value) {
  static const char* const kRanges[] = {"", "signed", "unsigned", "signed or unsigned"};
  uint64_t high = (kind->range == RANGE_SIGNED ? (uint64_t)1 << (kind->bits - 1) : (uint64_t)1 << kind->bits) - 1;
  return PYD_ELF_UNSUPPORTED(WHERE_FORMAT " at 0x%" PRIx64 ": value %" PRId64 " (0x%" PRIx64
                                          ") is out of range for a %s %u-bit field, largest 0x%" PRIx64
                                          ": compile with -fPIC",
                             WHERE(r, kind), vaddr, (int64_t)value, value, kRanges[kind->range], kind->bits, high);
}

// Returns the failure of a relocation of a kind that is refused.
static pyd_status_t refuse_meaning(const relocator_t* r, const kind_t* kind) {
  switch ((meaning_t)kind->meaning) {
    case MEANING_THREAD:
      return PYD_ELF_UNSUPPORTED(WHERE_FORMAT
                                 " needs thread-local storage, which embedded code has no place for: remove "
                                 "__thread / _Thread_local variables",
                                 WHERE(r, kind));
    case MEANING_INDIRECT:
      return PYD_ELF_UNSUPPORTED(WHERE_FORMAT
                                 " needs an indirect function (ifunc): choose the implementation without "
                                 "__attribute__((ifunc)) or target_clones",
                                 WHERE(r, kind));
    default:
      return PYD_ELF_UNSUPPORTED(WHERE_FORMAT
                                 " copies data out of another library, which a shared object cannot ask for: "
                                 "compile with -fPIC and link with -shared",
                                 WHERE(r, kind));
  }
}

// Returns the address of the symbol of the current relocation, S in the formulas: 0 if the relocation has no symbol or
// an undefined weak one. The index of the symbol has been checked.
static uint64_t symbol_address(const relocator_t* r) {
  if (r->symbol == 0) return 0;
  const uint8_t* symbol = r->view->symtab.bytes + (uint64_t)r->symbol * PYD_ELF_SYM_SIZE;
  uint32_t section = pyd_load_u16(symbol + SYM_SHNDX);
  uint64_t value = pyd_load_u64(symbol + SYM_VALUE);
  if (section == SHN_UNDEF) return 0;
  return section == SHN_ABS ? value : r->bias + value;
}

// Applies the current relocation, which is at |vaddr|. Without an image, checks it only.
static pyd_status_t apply(relocator_t* r, const kind_t* kind, uint64_t vaddr, uint64_t addend) {
  if (kind->meaning == MEANING_NONE) return PYD_STATUS_OK;
  // This check is before all others, because their messages look up the name of the symbol.
  if (r->symbol != 0 && r->symbol >= r->view->symbol_count) {
    return PYD_ELF_CORRUPT("relocation %" PRIu64 " of %s (%s) names symbol %u; there are %" PRIu64, r->index, r->table,
                           kind->name, r->symbol, r->view->symbol_count);
  }
  if (kind->bits == 0) return refuse_meaning(r, kind);  // not supported, such as thread-local storage
  if (!is_writable(r, vaddr, kind->bits / 8)) {
    return PYD_ELF_CORRUPT(WHERE_FORMAT " writes to 0x%" PRIx64
                                        ", which lies in no writable segment: compile with -fPIC",
                           WHERE(r, kind), vaddr);
  }
  uint64_t address = symbol_address(r), value = 0;
  switch ((meaning_t)kind->meaning) {
    case MEANING_BASE: value = r->bias + addend; break;
    case MEANING_SYMBOL: value = address; break;
    case MEANING_SYMBOL_ADDEND: value = address + addend; break;
    // MEANING_SYMBOL_PC; all other kinds have no bits and were refused above.
    default: value = address + addend - (r->bias + vaddr); break;
  }
  if (!r->image) return PYD_STATUS_OK;  // the value depends on the bias, which is not known then
  if (!fits(value, kind->bits, (range_t)kind->range)) return refuse_range(r, kind, vaddr, value);
  store(r->image + (vaddr - r->view->low), value, kind->bits / 8);
  return PYD_STATUS_OK;
}

// Applies the relocations with addends of a table, named |name| in messages.
static pyd_status_t apply_table(relocator_t* r, const char* name, pyd_elf_table_t table) {
  const kind_t* kind = NULL;
  r->table = name;
  for (uint64_t at = 0; at < table.size; at += PYD_ELF_RELA_SIZE) {
    const uint8_t* record = table.bytes + at;
    uint32_t type = pyd_load_u32(record + RELA_TYPE);
    r->index = at / PYD_ELF_RELA_SIZE;
    r->symbol = pyd_load_u32(record + RELA_SYMBOL);
    // Most relocations are of the same kind as the one before.
    if (!kind || type != r->type) kind = find_kind(r->view->machine, type);
    r->type = type;
    if (!kind) {
      return PYD_ELF_UNSUPPORTED("relocation %" PRIu64 " of %s has type %u, which is not a known one of %s", r->index,
                                 name, type, pyd_elf_machine_name(r->view->machine));
    }
    pyd_status_t st = apply(r, kind, pyd_load_u64(record + RELA_OFFSET), pyd_load_u64(record + RELA_ADDEND));
    if (!pyd_ok(st)) return st;
  }
  return PYD_STATUS_OK;
}

// Adds the bias to the word at |vaddr|.
static pyd_status_t apply_relative_word(relocator_t* r, uint64_t vaddr) {
  if (!is_writable(r, vaddr, 8)) {
    return PYD_ELF_CORRUPT("word %" PRIu64 " of DT_RELR writes to 0x%" PRIx64 ", which lies in no writable segment",
                           r->index, vaddr);
  }
  if (r->image) {
    uint8_t* target = r->image + (vaddr - r->view->low);
    store(target, pyd_load_u64(target) + r->bias, 8);
  }
  return PYD_STATUS_OK;
}

// Applies DT_RELR (gABI, "Relative relocations"). An even word is the address of a word to relocate. An odd one is a
// bitmap, from bit 1 on, of the 63 words after those that the word before it covered.
static pyd_status_t apply_relr(relocator_t* r) {
  uint64_t next = 0;  // address of the word that bit 1 of a bitmap stands for
  pyd_status_t st = PYD_STATUS_OK;
  for (uint64_t at = 0; pyd_ok(st) && at < r->view->relr.size; at += 8) {
    uint64_t word = pyd_load_u64(r->view->relr.bytes + at);
    r->index = at / 8;
    if ((word & 1) == 0) {
      st = apply_relative_word(r, word);
      next = word + 8;
      continue;
    }
    uint64_t vaddr = next;
    for (uint64_t bits = word >> 1; pyd_ok(st) && bits; bits >>= 1, vaddr += 8) {
      if (bits & 1) st = apply_relative_word(r, vaddr);
    }
    next += 63 * 8;  // a bitmap stands for 63 words of 8 bytes
  }
  return st;
}

// Applies all relocations of a file to its |image| in memory. Without an image, only checks them.
pyd_status_t pyd_elf_relocate(const pyd_elf_view_t* view, uint8_t* image, uint64_t bias) {
  relocator_t r = {.view = view, .image = image, .bias = bias};
  pyd_status_t st = apply_relr(&r);
  if (pyd_ok(st)) st = apply_table(&r, "DT_RELA", view->rela);
  if (pyd_ok(st)) st = apply_table(&r, "DT_JMPREL", view->plt);
  return st;
}
