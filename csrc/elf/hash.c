// Computes the number of symbols, which the dynamic section does not state: the System V hash table contains it, the
// GNU hash table must be walked. Both walks end with the bytes of the table's segment, so they are linear in the size
// of the file.
#include <inttypes.h>

#include "base/span.h"
#include "elf/format.h"
#include "elf/view.h"

// Reads the number of symbols from a System V hash table. |table|: from DT_HASH to the end of its segment's bytes.
// 32-bit words: number of buckets, number of chains, buckets, chains. There is one chain word per symbol.
static pyd_status_t count_sysv(pyd_span_t table, uint64_t* out_count) {
  const uint8_t* head = pyd_span_get(table, 0, 8);
  if (!head) return PYD_ELF_CORRUPT("DT_HASH lies in no loaded segment's bytes");
  uint64_t buckets = pyd_load_u32(head), chains = pyd_load_u32(head + 4);
  if (!pyd_span_get(table, 8, 4 * (buckets + chains))) {
    return PYD_ELF_CORRUPT("DT_HASH has %" PRIu64 " buckets and %" PRIu64 " chains, more than its segment holds",
                           buckets, chains);
  }
  *out_count = chains;
  return PYD_STATUS_OK;
}

// Returns the highest first symbol of |count| chains, whose buckets are at |buckets|. 0 if all are empty.
static uint64_t find_last_chain(const uint8_t* buckets, uint64_t count) {
  uint64_t last = 0;
  for (uint64_t i = 0; i < count; ++i) {
    uint32_t first = pyd_load_u32(buckets + 4 * i);
    if (first > last) last = first;
  }
  return last;
}

// Counts the symbols by walking a GNU hash table. |table|: from DT_GNU_HASH to the end of its segment's bytes. 32-bit
// words: number of buckets, first hashed symbol, number of 64-bit filter words, shift; then the filter, the buckets
// (first symbol of each chain), and one word per hashed symbol, whose lowest bit ends a chain. The last symbol is the
// end of the chain that begins last.
static pyd_status_t count_gnu(pyd_span_t table, uint64_t* out_count) {
  const uint8_t* head = pyd_span_get(table, 0, 16);
  if (!head) return PYD_ELF_CORRUPT("DT_GNU_HASH lies in no loaded segment's bytes");
  uint64_t buckets = pyd_load_u32(head), first = pyd_load_u32(head + 4), bloom = pyd_load_u32(head + 8);
  uint64_t start = 16 + 8 * bloom;  // offset of the buckets
  const uint8_t* bucket = pyd_span_get(table, start, 4 * buckets);
  if (!bucket) {
    return PYD_ELF_CORRUPT("DT_GNU_HASH has %" PRIu64 " filter words and %" PRIu64
                           " buckets, more than its segment holds",
                           bloom, buckets);
  }
  uint64_t last = find_last_chain(bucket, buckets);
  if (last < first) {  // all buckets are empty: there are only unhashed symbols, which come first
    *out_count = first;
    return PYD_STATUS_OK;
  }
  for (uint64_t at = start + 4 * buckets + 4 * (last - first);; at += 4, ++last) {
    const uint8_t* chain = pyd_span_get(table, at, 4);
    if (!chain) return PYD_ELF_CORRUPT("the DT_GNU_HASH chain of symbol %" PRIu64 " leaves its segment", last);
    if (chain[0] & 1) break;
  }
  *out_count = last + 1;
  return PYD_STATUS_OK;
}

// Returns the table from |vaddr| to the end of its segment's bytes; empty when there are none.
static pyd_elf_table_t table_at(const pyd_elf_view_t* view, uint64_t vaddr) {
  uint64_t size = pyd_elf_view_bytes_left(view, vaddr);
  return (pyd_elf_table_t){pyd_elf_view_bytes(view, vaddr, size), vaddr, size};
}

// Finds the hash table and the symbol table, and the number of symbols. |sysv| and |gnu|: addresses of the two hash
// tables, 0 if absent. Symbols are looked up in the GNU table if there is one. They are counted by the System V table
// if there is one, which states the number; else by a walk through the GNU table.
pyd_status_t pyd_elf_parse_hash(pyd_elf_view_t* view, uint64_t sysv, uint64_t gnu) {
  if (!sysv && !gnu) return PYD_ELF_CORRUPT("no symbol hash table: link with --hash-style=both");
  view->hash_is_gnu = gnu != 0;
  view->hash = table_at(view, gnu ? gnu : sysv);
  pyd_elf_table_t counted = sysv ? table_at(view, sysv) : view->hash;
  pyd_span_t span = {counted.bytes, (size_t)counted.size};
  pyd_status_t st = sysv ? count_sysv(span, &view->symbol_count) : count_gnu(span, &view->symbol_count);
  if (!pyd_ok(st)) return st;
  if (!view->hash.bytes) {  // possible if the symbols were counted by the other table
    return PYD_ELF_CORRUPT("the hash table at 0x%" PRIx64 " lies in no loaded segment's bytes", view->hash.vaddr);
  }
  view->symtab.size = view->symbol_count * PYD_ELF_SYM_SIZE;
  view->symtab.bytes = pyd_elf_view_bytes(view, view->symtab.vaddr, view->symtab.size);
  if (!view->symtab.bytes) {
    return PYD_ELF_CORRUPT("%" PRIu64 " symbols at 0x%" PRIx64 " lie in no loaded segment's bytes", view->symbol_count,
                           view->symtab.vaddr);
  }
  return PYD_STATUS_OK;
}
