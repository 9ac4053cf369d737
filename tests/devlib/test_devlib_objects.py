"""What the compiled library consists of, on every target."""

import io

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection

from pydispatch.compiler import devlib
from pydispatch.compiler.devlib.symbols import SYMBOLS
from pydispatch.compiler.toolchain import tools as toolchain

TARGETS = [
    ("x86_64", "generic"),
    ("x86_64", "x86-64-v3"),
    ("x86_64", "x86-64-v4"),
    ("aarch64", "generic"),
    ("riscv64", "generic"),
]


def symbols(elf):
    return [s for s in elf.get_section_by_name(".symtab").iter_symbols() if s.name]


@pytest.fixture(scope="module", params=TARGETS, ids="-".join)
def elves(request):
    arch, cpu = request.param
    return {stem: ELFFile(io.BytesIO(data)) for stem, data in zip(SYMBOLS, devlib.objects(arch, cpu), strict=True)}


def test_each_source_defines_what_the_table_says(elves):
    for stem, elf in elves.items():
        defined = {
            s.name for s in symbols(elf) if s["st_info"]["bind"] == "STB_GLOBAL" and s["st_shndx"] != "SHN_UNDEF"
        }
        assert defined == SYMBOLS[stem], stem
    assert len(devlib.provided_symbols()) == sum(map(len, SYMBOLS.values()))


def test_nothing_is_missing_and_nothing_is_writable(elves):
    for stem, elf in elves.items():
        missing = {s.name for s in symbols(elf) if s["st_shndx"] == "SHN_UNDEF"}
        assert missing <= devlib.provided_symbols() and not missing - SYMBOLS[stem], (stem, missing)
        for section in elf.iter_sections():
            writable = section["sh_flags"] & 1 and section["sh_size"]
            assert not writable or section.name.startswith(".data.rel.ro"), (stem, section.name)


def test_no_function_calls_itself(elves):
    """A compiler that recognises memset in our memset, or fmin in our fmin, would make it loop for ever."""
    for stem, elf in elves.items():
        table = elf.get_section_by_name(".symtab")
        for section in elf.iter_sections():
            if not isinstance(section, RelocationSection):
                continue
            function = elf.get_section(section["sh_info"]).name.removeprefix(".text.")
            targets = {table.get_symbol(r["r_info_sym"]).name for r in section.iter_relocations()}
            assert function not in targets, (stem, function)


@pytest.mark.parametrize("target", TARGETS, ids="-".join)
def test_the_linker_takes_only_what_is_used(target):
    arch, cpu = target
    tools = toolchain.find()
    kernel = tools.compile_c(
        b'float expf(float); __attribute__((visibility("default"))) float f(float x) { return expf(x); }',
        arch=arch,
        cpu=cpu,
    )
    data = tools.link_shared([kernel], arch=arch, exports=["f"], archives=devlib.objects(arch, cpu))
    assert len(data) < 10_000
    elf = ELFFile(io.BytesIO(data))
    names = {s.name for s in symbols(elf)}
    assert "expf" in names and not names & {"powf", "exp", "memcpy"}


def test_bitcode_inlines_and_leaves_no_call():
    from llvmlite import binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    kernel = llvm.parse_assembly(
        """
target triple = "x86_64-unknown-linux-musl"
declare float @expf(float)
declare float @sinf(float)
define void @kernel(ptr noalias %x, ptr noalias %y, i64 %n) {
entry:
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%j, %loop]
  %p = getelementptr float, ptr %x, i64 %i
  %v = load float, ptr %p
  %s = call float @sinf(float %v)
  %e = call float @expf(float %s)
  %q = getelementptr float, ptr %y, i64 %i
  store float %e, ptr %q
  %j = add i64 %i, 1
  %c = icmp ult i64 %j, %n
  br i1 %c, label %loop, label %exit
exit:
  ret void
}
"""
    )
    library = llvm.parse_bitcode(devlib.bitcode("x86_64", "x86-64-v3", symbols={"expf", "sinf"}))
    defined = {f.name for f in library.functions if not f.is_declaration}
    assert {"expf", "sinf"} <= defined and "powf" in defined and "erf" not in defined  # whole sources, no others
    assert "target-cpu" not in str(library) and "no-builtins" not in str(library)
    kernel.link_in(library)
    for function in kernel.functions:
        if not function.is_declaration and function.name != "kernel":
            function.linkage = "internal"
    machine = llvm.Target.from_triple("x86_64-unknown-linux-musl").create_target_machine(cpu="x86-64-v3", opt=3)
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = True
    llvm.create_pass_builder(machine, options).getModulePassManager().run(
        kernel, llvm.create_pass_builder(machine, options)
    )
    text = machine.emit_assembly(kernel)
    assert "call" not in text
    assert "vfmadd" in text and "%ymm" in text


def test_every_function_is_in_the_bitcode():
    from llvmlite import binding as llvm

    for arch in toolchain.ARCHES:
        module = llvm.parse_bitcode(devlib.bitcode(arch))
        defined = {f.name for f in module.functions if not f.is_declaration}
        assert devlib.inlinable_symbols() <= defined
