// The part of the ELF-64 format that the loader reads: System V gABI chapters 4 and 5, little-endian. Offsets are bytes
// within one record; nothing here is a C struct, because the bytes come unaligned from outside.
#ifndef PYD_ELF_FORMAT_H_
#define PYD_ELF_FORMAT_H_

// The file header: its size in bytes, and byte offsets of its fields.
#define PYD_ELF_HEADER_SIZE 64
enum {
  EH_CLASS = 4,  // 2: 64-bit
  EH_DATA = 5,   // 1: little-endian
  EH_IDENT_VERSION = 6,
  EH_TYPE = 16,
  EH_MACHINE = 18,
  EH_VERSION = 20,
  EH_PHOFF = 32,
  EH_SHOFF = 40,
  EH_PHENTSIZE = 54,
  EH_PHNUM = 56,
  EH_SHENTSIZE = 58,
  EH_SHNUM = 60,
};
enum { ET_DYN = 3 };

// A program header: size, byte offsets of its fields, and values of type and flags.
#define PYD_ELF_PHDR_SIZE 56
enum { PH_TYPE = 0, PH_FLAGS = 4, PH_OFFSET = 8, PH_VADDR = 16, PH_FILESZ = 32, PH_MEMSZ = 40, PH_ALIGN = 48 };
#define PT_LOAD 1u
#define PT_DYNAMIC 2u
#define PT_TLS 7u
#define PT_GNU_STACK 0x6474e551u
#define PT_GNU_RELRO 0x6474e552u
#define PF_X 1u
#define PF_W 2u

// A section header.
#define PYD_ELF_SHDR_SIZE 64
enum { SH_TYPE = 4, SH_OFFSET = 24, SH_SIZE = 32, SH_LINK = 40 };
#define SHT_SYMTAB 2u

// An entry of the dynamic section: its size, and values of its tag.
#define PYD_ELF_DYN_SIZE 16
#define DT_NULL 0
#define DT_NEEDED 1
#define DT_PLTRELSZ 2
#define DT_HASH 4
#define DT_STRTAB 5
#define DT_SYMTAB 6
#define DT_RELA 7
#define DT_RELASZ 8
#define DT_RELAENT 9
#define DT_STRSZ 10
#define DT_SYMENT 11
#define DT_INIT 12
#define DT_FINI 13
#define DT_SONAME 14
#define DT_RPATH 15
#define DT_REL 17
#define DT_RELSZ 18
#define DT_PLTREL 20
#define DT_TEXTREL 22
#define DT_JMPREL 23
#define DT_INIT_ARRAY 25
#define DT_FINI_ARRAY 26
#define DT_INIT_ARRAYSZ 27
#define DT_FINI_ARRAYSZ 28
#define DT_FLAGS 30
#define DT_RUNPATH 29
#define DT_RELRSZ 35
#define DT_RELR 36
#define DT_RELRENT 37
#define DT_ANDROID_REL 0x6000000f
#define DT_ANDROID_RELA 0x60000011
#define DT_GNU_HASH 0x6ffffef5
#define DF_TEXTREL 4u

// A symbol: size, byte offsets of its fields, special section indices, binding and type.
#define PYD_ELF_SYM_SIZE 24
enum { SYM_NAME = 0, SYM_INFO = 4, SYM_SHNDX = 6, SYM_VALUE = 8, SYM_SIZE_OF = 16 };
#define SHN_UNDEF 0u
#define SHN_ABS 0xfff1u
enum { STB_LOCAL = 0, STB_GLOBAL = 1, STB_WEAK = 2, STB_GNU_UNIQUE = 10 };
enum { STT_OBJECT = 1, STT_FUNC = 2, STT_TLS = 6, STT_GNU_IFUNC = 10 };

// A relocation with an addend.
#define PYD_ELF_RELA_SIZE 24
enum { RELA_OFFSET = 0, RELA_TYPE = 8, RELA_SYMBOL = 12, RELA_ADDEND = 16 };

#endif  // PYD_ELF_FORMAT_H_
