// Parses the bytes of a file into a view, second half: the tables that the dynamic section points at. Tags that change
// nothing for a freestanding image (names, versions, hints) are ignored; those that need unsupported features are
// refused by name.
#include <inttypes.h>

#include "base/span.h"
#include "elf/format.h"
#include "elf/view.h"

// Values of the dynamic section as they are in the file, each named as its tag (DT_STRTAB: strtab); 0 for an absent
// tag.
typedef struct tags_s {
  uint64_t strtab, strsz, symtab, syment, hash, gnu_hash;
  uint64_t rela, relasz, relaent, jmprel, pltrelsz, pltrel, relr, relrsz, relrent;
  uint64_t init, fini, init_array, init_arraysz, fini_array, fini_arraysz;
  uint64_t relsz, android_rel, android_rela, flags;
  uint64_t needed, needed_count;  // the first DT_NEEDED, and how many there are
  bool textrel;
} tags_t;

// The tags whose values are stored.
static const struct {
  uint64_t tag;
  size_t field;  // byte offset in tags_t
} kTags[] = {
#define ROW(tag, field) {tag, offsetof(tags_t, field)},
    ROW(DT_STRTAB, strtab) ROW(DT_STRSZ, strsz) ROW(DT_SYMTAB, symtab) ROW(DT_SYMENT, syment) ROW(DT_HASH, hash)
        ROW(DT_GNU_HASH, gnu_hash) ROW(DT_RELA, rela) ROW(DT_RELASZ, relasz) ROW(DT_RELAENT, relaent)
            ROW(DT_JMPREL, jmprel) ROW(DT_PLTRELSZ, pltrelsz) ROW(DT_PLTREL, pltrel) ROW(DT_RELR, relr)
                ROW(DT_RELRSZ, relrsz) ROW(DT_RELRENT, relrent) ROW(DT_INIT, init) ROW(DT_FINI, fini)
                    ROW(DT_INIT_ARRAY, init_array) ROW(DT_INIT_ARRAYSZ, init_arraysz) ROW(DT_FINI_ARRAY, fini_array)
                        ROW(DT_FINI_ARRAYSZ, fini_arraysz) ROW(DT_RELSZ, relsz) ROW(DT_ANDROID_REL, android_rel)
                            ROW(DT_ANDROID_RELA, android_rela) ROW(DT_FLAGS, flags)
#undef ROW
};

// Reads the dynamic section, up to DT_NULL or its end, into |tags|, which are zero.
static pyd_status_t read_tags(const pyd_elf_view_t* view, tags_t* tags) {
  if (view->dynamic.size == 0) return PYD_ELF_CORRUPT("no dynamic section (PT_DYNAMIC): link it with -shared");
  const uint8_t* bytes = pyd_elf_view_bytes(view, view->dynamic.vaddr, view->dynamic.size);
  if (!bytes) {
    return PYD_ELF_CORRUPT("the dynamic section [0x%" PRIx64 ", +0x%" PRIx64 ") lies in no loaded segment",
                           view->dynamic.vaddr, view->dynamic.size);
  }
  for (uint64_t at = 0; at + PYD_ELF_DYN_SIZE <= view->dynamic.size; at += PYD_ELF_DYN_SIZE) {
    uint64_t tag = pyd_load_u64(bytes + at), value = pyd_load_u64(bytes + at + 8);
    if (tag == DT_NULL) break;
    if (tag == DT_NEEDED && tags->needed_count++ == 0) tags->needed = value;
    if (tag == DT_TEXTREL) tags->textrel = true;
    for (size_t i = 0; i < sizeof(kTags) / sizeof(kTags[0]); ++i) {
      if (kTags[i].tag == tag) memcpy((char*)tags + kTags[i].field, &value, sizeof(value));
    }
  }
  return PYD_STATUS_OK;
}

// Checks what the system's loader relies on in the dynamic section: it is terminated, in a writable segment if it is
// marked as writable, and its names are inside the string table.
static pyd_status_t check_system_tags(const pyd_elf_view_t* view) {
  const pyd_elf_segment_t* holder = pyd_elf_view_segment(view, view->dynamic.vaddr, view->dynamic.size);
  const uint8_t* bytes = pyd_elf_view_bytes(view, view->dynamic.vaddr, view->dynamic.size);
  if (view->writes_dynamic && !(holder->flags & PF_W)) {
    return PYD_ELF_CORRUPT("the dynamic section at 0x%" PRIx64 " is to be written, its segment must not be",
                           view->dynamic.vaddr);
  }
  for (uint64_t at = 0; at + PYD_ELF_DYN_SIZE <= view->dynamic.size; at += PYD_ELF_DYN_SIZE) {
    uint64_t tag = pyd_load_u64(bytes + at), value = pyd_load_u64(bytes + at + 8);
    if (tag == DT_NULL) return PYD_STATUS_OK;
    bool is_name = tag == DT_NEEDED || tag == DT_SONAME || tag == DT_RPATH || tag == DT_RUNPATH;
    if (is_name && value >= view->strtab.size) {
      return PYD_ELF_CORRUPT("entry %" PRIu64 " of the dynamic section has its name at byte %" PRIu64
                             " of a string table of %" PRIu64,
                             at / PYD_ELF_DYN_SIZE, value, view->strtab.size);
    }
  }
  return PYD_ELF_CORRUPT("the dynamic section of %" PRIu64 " bytes has no end (DT_NULL)", view->dynamic.size);
}

// Refuses tags of files that need a system's loader, which embedded code has not.
static pyd_status_t refuse_tags(const pyd_elf_view_t* view, const tags_t* tags) {
  if (tags->needed_count) {
    const char* name = tags->needed < view->strtab.size ? (const char*)view->strtab.bytes + tags->needed : "?";
    return PYD_ELF_UNSUPPORTED("needs the shared library '%.64s' (the first of %" PRIu64
                               " DT_NEEDED): embedded code is "
                               "freestanding, link with -nostdlib and link what it uses statically",
                               name, tags->needed_count);
  }
  if (tags->textrel || (tags->flags & DF_TEXTREL)) {
    return PYD_ELF_UNSUPPORTED("has text relocations (DT_TEXTREL): compile every object with -fPIC");
  }
  if (tags->relsz)
    return PYD_ELF_UNSUPPORTED("has relocations without addends (DT_REL); expected DT_RELA for this machine");
  if (tags->android_rel || tags->android_rela) {
    return PYD_ELF_UNSUPPORTED("has packed Android relocations: link with --pack-dyn-relocs=none or =relr");
  }
  return PYD_STATUS_OK;
}

// Finds the table |name|: |size| bytes at |vaddr|, with records of |record| bytes. It is empty if |size| is 0. |entry|:
// the record size that the file states; 0 if it states none.
static pyd_status_t find_table(const pyd_elf_view_t* view, const char* name, uint64_t vaddr, uint64_t size,
                               uint64_t entry, uint64_t record, pyd_elf_table_t* out_table) {
  *out_table = (pyd_elf_table_t){0};
  if (size == 0) return PYD_STATUS_OK;
  if (entry != 0 && entry != record) {
    return PYD_ELF_CORRUPT("%s has records of %" PRIu64 " bytes, expected %" PRIu64, name, entry, record);
  }
  if (size % record) {
    return PYD_ELF_CORRUPT("%s has %" PRIu64 " bytes, not a multiple of its %" PRIu64 "-byte records", name, size,
                           record);
  }
  const uint8_t* bytes = pyd_elf_view_bytes(view, vaddr, size);
  if (!bytes) {
    return PYD_ELF_CORRUPT("%s [0x%" PRIx64 ", +0x%" PRIx64 ") lies in no loaded segment's bytes", name, vaddr, size);
  }
  *out_table = (pyd_elf_table_t){bytes, vaddr, size};
  return PYD_STATUS_OK;
}

// Finds the string table, and checks the record size of the symbol table, whose length only the hash table tells.
static pyd_status_t find_strings(pyd_elf_view_t* view, const tags_t* tags) {
  if (!tags->strtab || !tags->strsz || !tags->symtab) {
    return PYD_ELF_CORRUPT("DT_STRTAB, DT_STRSZ or DT_SYMTAB is missing: link it with -shared");
  }
  if (tags->syment != 0 && tags->syment != PYD_ELF_SYM_SIZE) {
    return PYD_ELF_CORRUPT("symbols of %" PRIu64 " bytes, expected 24", tags->syment);
  }
  pyd_status_t st =
      find_table(view, "DT_STRTAB", tags->strtab, tags->strsz, /* entry */ 0, /* record */ 1, &view->strtab);
  if (pyd_ok(st) && view->strtab.bytes[view->strtab.size - 1] != 0) {
    st = PYD_ELF_CORRUPT("the string table (DT_STRTAB) does not end with a NUL byte");
  }
  return st;
}

// Finds the three tables of relocations, each of which may be absent.
static pyd_status_t find_relocations(pyd_elf_view_t* view, const tags_t* tags) {
  if (tags->pltrelsz && tags->pltrel != DT_RELA) {
    return PYD_ELF_UNSUPPORTED("DT_PLTREL is %" PRIu64 "; expected 7 (relocations with addends)", tags->pltrel);
  }
  pyd_status_t st =
      find_table(view, "DT_RELA", tags->rela, tags->relasz, tags->relaent, PYD_ELF_RELA_SIZE, &view->rela);
  if (pyd_ok(st))
    st = find_table(view, "DT_JMPREL", tags->jmprel, tags->pltrelsz, /* entry */ 0, PYD_ELF_RELA_SIZE, &view->plt);
  if (pyd_ok(st))
    st = find_table(view, "DT_RELR", tags->relr, tags->relrsz, tags->relrent, /* record */ 8, &view->relr);
  return st;
}

// Returns |vaddr|, the address of the function of tag |name|, in |*out_vaddr|, after checking that it is in executable
// bytes of the file. 0: the file has no such function.
static pyd_status_t find_function(const pyd_elf_view_t* view, const char* name, uint64_t vaddr, uint64_t* out_vaddr) {
  *out_vaddr = vaddr;
  if (vaddr == 0 || pyd_elf_view_is_code(view, vaddr)) return PYD_STATUS_OK;
  return PYD_ELF_CORRUPT("%s 0x%" PRIx64 " lies in no executable segment's bytes", name, vaddr);
}

// Returns an array of 64-bit function addresses, |size| bytes at |vaddr|, as |*out_range|, after checking that it is in
// a segment. |name|: its tag, for messages.
static pyd_status_t find_array(const pyd_elf_view_t* view, const char* name, uint64_t vaddr, uint64_t size,
                               pyd_elf_range_t* out_range) {
  *out_range = (pyd_elf_range_t){vaddr, size};
  if (size % 8) return PYD_ELF_CORRUPT("%s has %" PRIu64 " bytes, not a multiple of 8", name, size);
  if (size && !pyd_elf_view_segment(view, vaddr, size)) {
    return PYD_ELF_CORRUPT("%s [0x%" PRIx64 ", +0x%" PRIx64 ") lies in no loaded segment", name, vaddr, size);
  }
  return PYD_STATUS_OK;
}

// Parses what the dynamic section refers to: symbol, hash and relocation tables. The second half of pyd_elf_parse().
pyd_status_t pyd_elf_parse_dynamic(pyd_elf_view_t* view) {
  tags_t tags = {0};
  pyd_status_t st = read_tags(view, &tags);
  if (pyd_ok(st)) st = find_strings(view, &tags);
  if (pyd_ok(st)) st = view->is_system ? check_system_tags(view) : refuse_tags(view, &tags);
  view->symtab.vaddr = tags.symtab;
  if (pyd_ok(st)) st = pyd_elf_parse_hash(view, tags.hash, tags.gnu_hash);
  if (pyd_ok(st)) st = find_relocations(view, &tags);
  if (pyd_ok(st)) st = find_function(view, "DT_INIT", tags.init, &view->init);
  if (pyd_ok(st)) st = find_function(view, "DT_FINI", tags.fini, &view->fini);
  if (pyd_ok(st)) st = find_array(view, "DT_INIT_ARRAY", tags.init_array, tags.init_arraysz, &view->init_array);
  if (pyd_ok(st)) st = find_array(view, "DT_FINI_ARRAY", tags.fini_array, tags.fini_arraysz, &view->fini_array);
  return st;
}
