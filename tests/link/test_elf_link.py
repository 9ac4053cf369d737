# ruff: noqa: E501 - the C text
"""The linker of embedded ELF files: what it makes runs, and says the same as what ld.lld makes of the same objects."""

import random
import struct
import subprocess

import pytest
from elftools.elf.elffile import ELFFile
from pydispatch._core import elf as core_elf
from started import output

from pydispatch.compiler.toolchain import linker
from pydispatch.compiler.toolchain import tools as toolchain
from pydispatch.compiler.toolchain.tools import ARCHES, ToolchainError, UndefinedSymbolsError
from pydispatch.formats.elf import reader
from pydispatch.link.elf.inputs import LinkError, UnsupportedError
from pydispatch.link.elf.link import link
from pydispatch.link.elf.resolve import UndefinedError

START = r"""
#if defined(__x86_64__)
__asm__(".text; .globl entry; .type entry,@function; entry: xor %ebp,%ebp; and $-16,%rsp; call main_of_test@PLT; hlt; .size entry, .-entry");
static long sys(long n, long a, long b, long c) { long r; __asm__ volatile("syscall" : "=a"(r) : "a"(n), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory"); return r; }
enum { WRITE = 1, EXIT = 60 };
#elif defined(__aarch64__)
__asm__(".text; .globl entry; .type entry,@function; entry: bl main_of_test; .size entry, .-entry");
static long sys(long n, long a, long b, long c) {
  register long x8 __asm__("x8") = n, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory"); return x0; }
enum { WRITE = 64, EXIT = 93 };
#else
__asm__(".text; .globl entry; .type entry,@function; entry: call main_of_test; .size entry, .-entry");
static long sys(long n, long a, long b, long c) {
  register long a7 __asm__("a7") = n, a0 __asm__("a0") = a, a1 __asm__("a1") = b, a2 __asm__("a2") = c;
  __asm__ volatile("ecall" : "+r"(a0) : "r"(a7), "r"(a1), "r"(a2) : "memory"); return a0; }
enum { WRITE = 64, EXIT = 93 };
#endif
"""
MAIN = (
    START
    + r"""
#pragma GCC visibility push(default)
typedef long (*f)(long);
long twice(long), named(long), chosen(long), lazily(long); extern const long table[4]; extern const char* const words[3];
__attribute__((weak, visibility("hidden"))) long absent(long); __attribute__((weak)) long chosen(long x) { return x - 1; }
extern const f functions[3];
static const char* const own[] = {"zero", "one", "two", "three", "four", "five", "six", "seven"};
static const double numbers[] = {1.5, 2.5, 3.5, 4.5};
__attribute__((noinline)) static const char* word(long i) { return own[i & 7]; }
__attribute__((noinline)) static long many(long i) {
  switch (i) { case 0: return twice(3); case 1: return named(4) ^ 99; case 2: return table[1] * 5; case 3: return 17; case 4: return words[1][2];
    case 5: return (long)(numbers[i & 3] * 8); case 6: return chosen(8); case 7: return lazily(i); default: return -i; } }
__attribute__((used)) void main_of_test(void) {
  static const char digits[] = "0123456789abcdef";
  for (long i = 0; i < 12; ++i) {
    unsigned long v = (unsigned long)(many(i) + functions[i % 3](i) + (absent ? 1000 : 0)); char text[20]; int n = 0;
    for (int k = 0; k < 16; ++k) text[n++] = digits[v >> (60 - 4 * k) & 15];
    text[n++] = ' '; sys(WRITE, 1, (long)text, n);
    long length = 0; while (word(i)[length]) ++length;
    sys(WRITE, 1, (long)word(i), length); sys(WRITE, 1, (long)"\n", 1);
  }
  sys(EXIT, 0, 0, 0);
}
"""
)
OTHER = r"""
#pragma GCC visibility push(default)
extern const long table[4]; const long table[4] = {7, 11, 13, 17};
const char* const words[3] = {"alpha", "beta", "gamma"};
long twice(long x) { return 2 * x + table[x & 3]; } long named(long x) { return x << 4; } long chosen(long x) { return x * 100; }
static long third(long x) { return twice(x) - words[x % 3][0]; }
typedef long (*f)(long); const f functions[3] = {twice, named, third};
long never_used(long x) { return x + table[2]; }
"""
LAZY = r"""
#pragma GCC visibility push(default)
extern const char* const words[3]; long lazily(long x) { return words[x % 3][1]; }
"""
INLINE = 'template <class T> __attribute__((noinline, visibility("default"))) T shared(T x) {{ return x * 3 + {0}; }} extern "C" __attribute__((visibility("default"))) long {1}(long x) {{ return shared<long>(x); }}'


def objects_of(arch, opt="-O2"):
    tools = toolchain.find()
    main, other, lazy = (
        tools.compile_c(text.encode(), arch=arch, opt=opt, extra_args=["-fno-builtin"]) for text in (MAIN, OTHER, LAZY)
    )
    return [("main.o", main), ("other.o", other)], [("lazy.o", lazy)]


@pytest.mark.parametrize("opt", ["-O0", "-O2", "-Os"])
@pytest.mark.parametrize("arch", ARCHES)
def test_it_runs_as_what_lld_links(arch, opt, tmp_path):
    objects, lazy = objects_of(arch, opt)
    ours = link(objects, lazy, ["entry"], arch)
    assert ours == link(objects, lazy, ["entry"], arch)
    core_elf.validate(ours)
    said = output(ours, "entry", arch, tmp_path)
    assert said.splitlines()[0] == b"%016x zero" % (2 * 3 + 17 + 7) and len(said.splitlines()) == 12
    theirs = linker.link_with_lld(toolchain.find().lld(), objects, lazy, ["entry"], arch)
    assert said == output(theirs, "entry", arch, tmp_path)


@pytest.mark.parametrize("arch", ARCHES)
def test_other_readers_find_it_right(arch, tmp_path):
    objects, lazy = objects_of(arch)
    path = tmp_path / "linked.so"
    path.write_bytes(link(objects, lazy, ["entry", "twice"], arch))
    done = subprocess.run(["readelf", "-W", "-a", str(path)], capture_output=True, text=True, check=True)
    assert "warning" not in done.stderr.lower() and "error" not in done.stderr.lower(), done.stderr
    with path.open("rb") as file:
        elf = ELFFile(file)
        table = elf.get_section_by_name(".hash")
        dynsym = elf.get_section_by_name(".dynsym")
        assert [symbol.name for symbol in dynsym.iter_symbols()] == ["", "entry", "twice"]
        assert table.get_symbol("twice")["st_value"] == dynsym.get_symbol(2)["st_value"] != 0
        names = {symbol.name for symbol in elf.get_section_by_name(".symtab").iter_symbols()}
        assert {"main_of_test", "third", "table"} <= names and "never_used" not in names
        loads = list(elf.iter_segments("PT_LOAD"))
        assert all((load["p_vaddr"] - load["p_offset"]) % load["p_align"] == 0 for load in loads)


def test_copies_of_inline_functions_and_archives(tmp_path):
    tools = toolchain.find()
    one, two = (
        tools.compile_c(INLINE.format(n, name).encode(), arch="x86_64", language="c++")
        for n, name in ((1, "first"), (2, "second"))
    )
    both = link([("one.o", one), ("two.o", two)], [], ["first", "second"], "x86_64")
    names = [symbol.name for symbol in reader.ElfFile(both).symbols()]
    assert sum("shared" in name for name in names) == 1
    (tmp_path / "two.o").write_bytes(two)
    subprocess.run(["ar", "rc", "lib.a", "two.o"], cwd=tmp_path, check=True)
    library = (tmp_path / "lib.a").read_bytes()
    user = tools.compile_c(
        b'long second(long); __attribute__((visibility("default"))) long f(long x) { return second(x); }', arch="x86_64"
    )
    assert "second" in [
        s.name for s in reader.ElfFile(link([("user.o", user), ("lib.a", library)], [], ["f"], "x86_64")).symbols()
    ]
    with pytest.raises(LinkError, match=r"lib\.a cannot be read: is cut off"):
        link([("user.o", user), ("lib.a", library[:-9])], [], ["f"], "x86_64")


def test_archive_members_of_one_name_are_loaded_both(tmp_path):
    """`ar q` adds members of a name that the archive has, as CMake does for sources of one name."""
    tools = toolchain.find()
    for name, text in (("one", b"long one(long x) { return x + 1; }"), ("two", b"long two(long x) { return x + 2; }")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "same.o").write_bytes(tools.compile_c(text, arch="x86_64"))
    subprocess.run(["ar", "qc", "lib.a", "one/same.o", "two/same.o"], cwd=tmp_path, check=True)
    user = tools.compile_c(
        b'long one(long), two(long); __attribute__((visibility("default"))) long f(long x) { return one(two(x)); }',
        arch="x86_64",
    )
    library = ("lib.a", (tmp_path / "lib.a").read_bytes())
    linked = reader.ElfFile(link([("user.o", user), library], [], ["f"], "x86_64"))
    assert {"one", "two"} <= {symbol.name for symbol in linked.symbols()}
    with pytest.raises(UndefinedError, match=r"^undefined symbols: 'three' \(referenced by the list of exports\)$"):
        link([("user.o", user), library], [], ["f", "three"], "x86_64")


NOTED = r"""__asm__(".section .note.g,\"a\"\n.globl g\ng: .quad 5\n.section .text.f,\"ax\"\n.globl f\n.type f,@function\n"
"f: mov g@GOTPCREL(%rip), %rax\nret\n.size f,.-f\n.text");"""


def test_symbols_of_sections_that_are_left_out_are_not_0():
    tools = toolchain.find()
    noted = tools.compile_c(NOTED.encode(), arch="x86_64")
    with pytest.raises(UnsupportedError, match=r"^a\.o: \.text\.f refers to a section that is left out$"):
        link([("a.o", noted)], [], ["f"], "x86_64")
    user = tools.compile_c(
        b'extern long g; __attribute__((visibility("default"))) long h(void) { return g; }', arch="x86_64"
    )
    for objects, lazy in [([("b.o", user)], [("a.o", noted)]), ([("b.o", user), ("a.o", noted)], [])]:
        with pytest.raises(UnsupportedError, match=r"^b\.o: 'g' is in a section that is left out$"):
            link(objects, lazy, ["h"], "x86_64")
    assert tools.link_shared([noted, user], arch="x86_64", exports=["f", "h"])[:4] == b"\x7fELF"  # by ld.lld


GROUP = r"""__asm__(".section .text.{0},\"axG\",@progbits,signature{1}\n.globl {0}\n.type {0},@function\n"
"{0}: ret\n.size {0},.-{0}\n.text");"""


@pytest.mark.parametrize(("first", "second"), [("", ",comdat"), (",comdat", ""), ("", "")])
def test_only_groups_of_copies_are_left_out(first, second):
    """A group that is no COMDAT group keeps its sections together, and says nothing about groups of other objects."""
    tools = toolchain.find()
    objects = [
        (f"{name}.o", tools.compile_c(GROUP.format(name, linkage).encode(), arch="x86_64"))
        for name, linkage in (("one", first), ("two", second))
    ]
    linked = reader.ElfFile(link(objects, [], ["one", "two"], "x86_64"))
    assert {"one", "two"} <= {symbol.name for symbol in linked.symbols()}


def test_variables_and_initialisers_have_their_segments():
    source = b"""#pragma GCC visibility push(default)
    static volatile int count = 5; static volatile int zeros[100]; extern volatile int* const where; volatile int* const where = &count;
    __attribute__((constructor)) static void start(void) { count += 1; zeros[3] = count; }
    int f(void) { return count + zeros[3] + *where; }"""
    elf = reader.ElfFile(link([("a.o", toolchain.find().compile_c(source, arch="x86_64"))], [], ["f"], "x86_64"))
    loads = [segment for segment in elf.segments if segment.kind == reader.PT_LOAD]
    assert [segment.flags for segment in loads] == [5, 6, 6] and loads[2].memory_size >= loads[2].file_size + 400
    assert elf.tag(reader.DT_INIT_ARRAYSZ) == 8
    assert core_elf.validate(bytes(elf.data)) == "x86_64"


def test_what_is_wrong_is_named():
    tools = toolchain.find()

    def compiled(text, arch="x86_64"):
        return tools.compile_c(b"#pragma GCC visibility push(default)\n" + text, arch=arch)

    f = compiled(b"int f(void) { return 1; }")
    with pytest.raises(ToolchainError, match=r"duplicate symbol 'f': a\.o and object1\.o define it"):
        tools.link_shared([f, f], arch="x86_64", exports=["f"], labels=["a.o"])
    with pytest.raises(UndefinedSymbolsError, match=r"'g' \(referenced by the list of exports\)"):
        tools.link_shared([f], arch="x86_64", exports=["g"])
    fixed = tools.compile_c(
        b"int a[4]; int* f(int i) { return a + i; }", arch="x86_64", extra_args=["-fno-pic", "-mcmodel=large"]
    )
    with pytest.raises(
        ToolchainError, match=r"R_X86_64_64 in \.ltext\.f writes an address into memory.*compile it with -fPIC"
    ):
        tools.link_shared([fixed], arch="x86_64", exports=["f"])


@pytest.mark.parametrize("arch", ARCHES)
def test_a_word_that_is_not_whole_in_its_section_is_refused(arch):
    source = b"#pragma GCC visibility push(default)\nint value; int* address = &value;"
    data = bytearray(toolchain.find().compile_c(source, arch=arch))
    elf = reader.ElfFile(bytes(data))
    table = next(section for section in elf.sections if elf.name(section) == ".rela.data.address")
    struct.pack_into("<Q", data, table.offset, 4)  # the offset of the word of 8 bytes in .data.address
    with pytest.raises(LinkError, match=r"^a\.o: R_\w+64 at 0x4 is outside \.data\.address$") as caught:
        link([("a.o", bytes(data))], [], ["address"], arch)
    assert not isinstance(caught.value, UnsupportedError)


def test_what_it_leaves_out_goes_to_lld(monkeypatch):
    tools = toolchain.find()
    relaxed = tools.compile_c(OTHER.encode(), arch="riscv64", extra_args=["-mrelax"])
    link([("a.o", relaxed)], [], ["twice"], "riscv64")
    with pytest.raises(UnsupportedError, match=r"b\.o: relocation 43 in \.text"):
        link([("b.o", aligned(tools))], [], ["f"], "riscv64")
    assert tools.link_shared([aligned(tools)], arch="riscv64", exports=["f"])[:4] == b"\x7fELF"
    calls = []
    monkeypatch.setattr(linker, "link_with_lld", lambda *args: calls.append(args) or b"")
    tools.link_shared([relaxed], arch="riscv64", exports=["twice"])
    monkeypatch.setenv("PYDISPATCH_LLD", tools.lld().argv[0])
    tools.link_shared([relaxed], arch="riscv64", exports=["twice"])
    assert len(calls) == 1


def aligned(tools):
    """An object that asks for alignment by relaxation."""
    text = b'__attribute__((visibility("default"))) int f(int x) { __asm__ volatile("call f; .balign 16; nop"); return x; }'
    return tools.compile_c(text, arch="riscv64", extra_args=["-mrelax"])


@pytest.mark.parametrize("arch", ARCHES)
def test_broken_objects_are_errors(arch):
    """Bytes changed at random: a file, or an error that names the object; nothing else."""
    objects, lazy = objects_of(arch)
    numbers = random.Random(5)
    refused = 0
    for _ in range(150):
        data = bytearray(objects[0][1])
        tables = struct.unpack_from("<Q", data, 40)[0]
        for _ in range(numbers.randrange(1, 4)):
            at = numbers.choice(
                [numbers.randrange(len(data)), numbers.randrange(tables, len(data)), numbers.randrange(64)]
            )
            data[at] = numbers.choice([0, 1, 255, numbers.randrange(256)])
        try:
            link([("main.o", bytes(data)), *objects[1:]], lazy, ["entry"], arch)
        except LinkError as error:
            refused += 1
            assert ".o" in str(error) or "'entry'" in str(error)
    assert refused > 30
