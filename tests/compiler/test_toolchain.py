"""The compiler, the linker and the cache of compiled objects."""

import io
import os
import subprocess
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from pydispatch.compiler.backends.cpu import units
from pydispatch.compiler.backends.cuda import link
from pydispatch.compiler.backends.cuda import tools as cuda_tools
from pydispatch.compiler.backends.vulkan import tools as vulkan_tools
from pydispatch.compiler.driver.plugin import build_system
from pydispatch.compiler.kernel_ir.kernel import ObjectFile
from pydispatch.compiler.toolchain import cache as toolchain_cache
from pydispatch.compiler.toolchain import clang, foreign, linker, llvm, programs
from pydispatch.compiler.toolchain import tools as toolchain
from pydispatch.compiler.toolchain.tools import Toolchain, ToolchainError, UndefinedSymbolsError
from pydispatch.errors import CompileError, Location

SOURCE = (
    b'__attribute__((visibility("default"))) float f(const float* a, int n)'
    b"{ float s = 0; for (int i = 0; i < n; ++i) s += a[i] * a[i]; return s; }"
)
MACHINE = {"x86_64": "EM_X86_64", "aarch64": "EM_AARCH64", "riscv64": "EM_RISCV"}


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PYDISPATCH_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.parametrize("arch", toolchain.ARCHES)
def test_embedded_elf(arch):
    tools = toolchain.find()
    data = tools.link_shared([tools.compile_c(SOURCE, arch=arch)], arch=arch, exports=["f"])
    assert data == tools.link_shared([tools.compile_c(SOURCE, arch=arch)], arch=arch, exports=["f"])
    assert len(data) < 10_000
    elf = ELFFile(io.BytesIO(data))
    assert (elf["e_machine"], elf["e_type"]) == (MACHINE[arch], "ET_DYN")
    assert elf.num_sections() > 0 and elf.get_section_by_name(".hash") and not elf.get_section_by_name(".interp")
    segments = {segment["p_type"]: segment for segment in elf.iter_segments()}
    assert not segments["PT_GNU_STACK"]["p_flags"] & 1 and "PT_GNU_RELRO" in segments
    for segment in elf.iter_segments("PT_LOAD"):
        assert segment["p_align"] == (4096 if arch == "x86_64" else 65536) and segment["p_flags"] & 3 != 3
    dynamic = {tag.entry.d_tag for tag in elf.get_section_by_name(".dynamic").iter_tags()}
    assert "DT_HASH" in dynamic and not dynamic & {"DT_NEEDED", "DT_TEXTREL"}
    assert [s.name for s in elf.get_section_by_name(".dynsym").iter_symbols()] == ["", "f"]
    assert not elf.get_section_by_name(".note.gnu.build-id") and not elf.get_section_by_name(".eh_frame")


def test_undefined_symbols_are_named_with_their_object(tmp_path):
    tools = toolchain.find()
    user = tmp_path / "user.o"
    user.write_bytes(tools.compile_c(b"int a(int); int b(int); int g(int x) { return a(x) + b(x); }", arch="x86_64"))
    code = tools.compile_c(b"int g(int), a(int); int f(int x) { return g(x) + a(x); }", arch="x86_64")
    with pytest.raises(UndefinedSymbolsError, match=r"'a' \(referenced by .*user\.o\)") as caught:
        tools.link_shared([code, user], arch="x86_64", exports=["f"])
    names = {(symbol, Path(where).name) for symbol, where in caught.value.undefined}
    assert names == {("a", "object0.o"), ("a", "user.o"), ("b", "user.o")}
    with pytest.raises(UndefinedSymbolsError) as caught:
        linker.link_with_lld(tools.lld(), [("object0.o", code), ("user.o", user.read_bytes())], [], ["f"], "x86_64")
    assert set(caught.value.undefined) == names
    assert caught.value.command and "undefined symbol" in caught.value.stderr


def test_undefined_exports_are_named():
    tools = toolchain.find()
    code = tools.compile_c(SOURCE, arch="x86_64")
    assert linker.link_with_lld(tools.lld(), [("object0.o", code)], [], ["f"], "x86_64")
    for link_objects in (linker.link_own, lambda *rest: linker.link_with_lld(tools.lld(), *rest)):
        with pytest.raises(UndefinedSymbolsError, match=r"'g' \(referenced by the list of exports\)") as caught:
            link_objects([("object0.o", code)], [], ["f", "g", "h"], "x86_64")
        assert caught.value.undefined == (("g", "the list of exports"), ("h", "the list of exports"))


def test_wrong_machine_and_garbage_are_link_errors():
    tools = toolchain.find()
    foreign = tools.compile_c(SOURCE, arch="aarch64")
    for data, text in ((foreign, "is incompatible: a relocatable object for aarch64"), (b"not one", "cannot be read")):
        with pytest.raises(ToolchainError, match=f"object0.o {text}"):
            tools.link_shared([data], arch="x86_64", exports=["f"])
        with pytest.raises(ToolchainError) as caught:
            linker.link_with_lld(tools.lld(), [("object0.o", data)], [], ["f"], "x86_64")
        assert "object0.o" in caught.value.stderr


def test_c_errors_keep_their_location(tmp_path):
    tools = toolchain.find()
    with pytest.raises(ToolchainError, match="<stdin>:2:8: error: use of undeclared"):
        tools.compile_c(b"int f(void) {\nreturn x; }", arch="x86_64")
    bad = tmp_path / "bad.c"
    bad.write_text('#include "missing.h"\n')
    with pytest.raises(ToolchainError, match=r"bad\.c:1:10: fatal error: 'missing\.h' file not found"):
        tools.compile_c(bad, arch="riscv64")
    with pytest.raises(ToolchainError, match="C source: cannot read"):
        tools.compile_c(tmp_path / "none.c", arch="x86_64")
    with pytest.raises(ToolchainError, match="x86-64-v9"):
        tools.compile_c(SOURCE, arch="x86_64", cpu="x86-64-v9")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [({"arch": "mips"}, "arch 'mips': expected one of x86_64, aarch64, riscv64"),
     ({"arch": "x86_64", "cpu": "native"}, "native"), ({"arch": "x86_64", "emit": "asm"}, "emit 'asm'"),
     ({"arch": "x86_64", "features": ["avx2"]}, "feature 'avx2': expected a sign")],
)  # fmt: skip
def test_bad_arguments(arguments, text):
    with pytest.raises(ValueError, match=text):
        toolchain.find().compile_c(SOURCE, **arguments)
    with pytest.raises(ValueError, match="C identifier"):
        toolchain.find().link_shared([], arch="x86_64", exports=["a;b"])


def test_features_and_cpu_reach_the_code():
    tools = toolchain.find()
    source = b"double f(double a, double b, double c) { return a * b + c; }"
    plain = tools.compile_c(source, arch="x86_64")
    fused = tools.compile_c(source, arch="x86_64", features=["+avx2", "+fma"])
    assert plain != fused
    assert plain != tools.compile_c(source, arch="x86_64", cpu="x86-64-v3")
    ifdef = b"#ifndef __FMA__\n#error no fma\n#endif\n"
    tools.compile_c(ifdef, arch="x86_64", features=["+fma"])
    with pytest.raises(ToolchainError, match="no fma"):
        tools.compile_c(ifdef, arch="x86_64")


def test_standard_headers_are_there():
    headers = b"".join(b"#include <%s.h>\n" % name for name in (b"math", b"stdint", b"string", b"stddef"))
    text = headers + b"float f(float x) { return expf(x); }"
    for arch in toolchain.ARCHES:
        assert toolchain.find().compile_c(text, arch=arch)[:4] == b"\x7fELF"


def test_bitcode_has_no_attribute_that_prevents_inlining():
    from llvmlite import binding as llvm

    module = llvm.parse_bitcode(toolchain.find().compile_c(SOURCE, arch="x86_64", emit="bc"))
    assert "no-builtins" not in str(module) and "strict-float" not in str(module)


def test_cache_follows_included_files(cache, tmp_path, monkeypatch):
    tools = toolchain.find()
    header, source = tmp_path / "value.h", tmp_path / "k.c"
    source.write_text('#include "value.h"\nint f(void) { return VALUE; }\n')
    header.write_text("#define VALUE 1\n")
    one = tools.compile_c(source, arch="x86_64")
    calls = []
    run = clang.subprocess.run
    monkeypatch.setattr(clang.subprocess, "run", lambda *a, **k: calls.append(a) or run(*a, **k))
    assert tools.compile_c(source, arch="x86_64") == one and calls == []
    header.write_text("#define VALUE 2\n")
    two = tools.compile_c(source, arch="x86_64")
    assert two != one and len(calls) == 1
    assert tools.compile_c(source, arch="x86_64", defines=["UNUSED=1"]) == two and len(calls) == 2


def test_damaged_cache_entries_are_compiled_again(cache):
    tools = toolchain.find()
    good = tools.compile_c(SOURCE, arch="x86_64")
    entries = {path: path.read_bytes() for path in cache.rglob("*") if path.is_file()}
    assert entries and not any(path.name.startswith(".new-") for path in entries)
    for path, data in entries.items():  # the object, and what the tools say of themselves if no test before asked them
        for damaged in (b"", data[:-1], data[:-9] + b"x" * 9, b"garbage", data[:40]):
            path.write_bytes(damaged)
            assert tools.compile_c(SOURCE, arch="x86_64") == good


def test_a_cache_that_cannot_be_made_is_replaced(tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.write_text("")
    for name in ("PYDISPATCH_CACHE_DIR", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.setenv(name, str(blocked / "below"))
    folder = toolchain_cache.directory()
    assert folder.is_dir() and os.access(folder, os.W_OK) and blocked not in folder.parents
    assert toolchain.find().compile_c(SOURCE, arch="x86_64")[:4] == b"\x7fELF"


def test_zig_has_a_cache_that_can_be_written(tmp_path, monkeypatch):
    """zig hangs when its cache cannot be written: its own is replaced then, and only then."""
    blocked, own = tmp_path / "file", tmp_path / "own"
    blocked.write_text("")
    variables = {"ZIG_GLOBAL_CACHE_DIR": "", "XDG_CACHE_HOME": "zig", "HOME": ".cache/zig"}
    monkeypatch.setenv("PYDISPATCH_CACHE_DIR", str(own))
    for name in variables:
        monkeypatch.delenv(name, raising=False)
    assert programs.zig_environment()["ZIG_GLOBAL_CACHE_DIR"] == str(own / "zig")
    for name, below in reversed(variables.items()):  # the last to be set is the first that zig reads
        monkeypatch.setenv(name, str(blocked / "below"))
        assert programs.zig_environment()["ZIG_GLOBAL_CACHE_DIR"] == str(own / "zig")
        monkeypatch.setenv(name, str(tmp_path / name))
        assert programs.zig_environment()["ZIG_GLOBAL_CACHE_DIR"] == str(tmp_path / name / below)
    monkeypatch.setenv("ZIG_GLOBAL_CACHE_DIR", str(blocked))
    monkeypatch.setattr(toolchain_cache, "directory", lambda: None)
    with pytest.raises(ToolchainError, match="none can be written: set ZIG_GLOBAL_CACHE_DIR"):
        programs.zig_environment()


def test_a_plugin_without_a_system_compiler(tmp_path, monkeypatch):
    """zig compiles it, with the environment that keeps zig from hanging."""
    zig, source = tmp_path / "compiler", tmp_path / "f.c"
    zig.write_text('#!/bin/sh\necho "$1 $ZIG_GLOBAL_CACHE_DIR" >&2\nexit 1\n')
    zig.chmod(0o755)
    source.write_text(SOURCE.decode())
    for name, value in {"PATH": "", "HOME": "/proc", "PYDISPATCH_CACHE_DIR": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    for name in ("CC", "XDG_CACHE_HOME", "ZIG_GLOBAL_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(programs, "_zig", lambda: str(zig))
    with pytest.raises(ToolchainError, match=f"building the system plugin failed\ncc {tmp_path}/zig$"):
        build_system([source], exports=["f"])
    monkeypatch.setattr(programs, "_zig", lambda: None)
    with pytest.raises(ToolchainError, match="no C compiler for this machine: install gcc or clang, set CC"):
        build_system([source], exports=["f"])


def test_an_old_linker_on_the_path_is_passed_over(monkeypatch, tmp_path, caplog):
    """ld.lld 14, which Debian 12 has, cannot relax calls of RISC-V."""
    old = tmp_path / "ld.lld"
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    for version, is_used in (("14.0.6", False), ("15.0.0", True)):
        old.write_text(f"#!/bin/sh\necho Debian LLD {version}\n")
        old.chmod(0o755)
        with caplog.at_level("INFO", logger="pydispatch.compiler"):
            assert (Toolchain().lld().argv == (str(old),)) == is_used
    assert [r.getMessage() for r in caplog.records if "LLD" in r.getMessage() or "ld.lld" in r.getMessage()] == [
        f"{old} is not used: version 14.0.6, 15 or newer is needed"
    ]


def test_describe_and_missing_tools(monkeypatch, tmp_path):
    described = toolchain.find().describe()
    assert set(described) == {"clang", "clang (bitcode)", "linker", "lld", "cache"} and " from " in described["clang"]
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(programs, "_zig", lambda: None)
    with pytest.raises(ToolchainError, match=r"no clang >= 17 on PATH.*pip install 'pydispatch\[c\]'"):
        Toolchain().clang("obj")
    with pytest.raises(ToolchainError, match=r"no ld\.lld >= 15 on PATH.*pip install 'pydispatch\[c\]'"):
        Toolchain().lld()
    assert "no clang >= 17" in Toolchain().describe()["clang"]
    old = tmp_path / "clang"
    old.write_text("#!/bin/sh\necho clang version 14.0.6\n")
    old.chmod(0o755)
    with pytest.raises(ToolchainError, match="no clang >= 17"):
        Toolchain().clang("obj")
    monkeypatch.setenv("PYDISPATCH_CLANG", str(old))
    with pytest.raises(ToolchainError, match=r"version 14\.0\.6, expected 17 or newer"):
        Toolchain().clang("obj")
    monkeypatch.setenv("PYDISPATCH_CLANG", str(tmp_path / "none"))
    with pytest.raises(ToolchainError, match=r"cannot run .*none: No such file"):
        Toolchain().clang("obj")


def test_a_newer_clang_is_not_used_for_bitcode(monkeypatch, tmp_path):
    if programs._zig() is None:
        pytest.skip("needs the bundled compiler")
    new = tmp_path / "clang"
    new.write_text("#!/bin/sh\necho clang version 99.0.0\n")
    new.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    described = Toolchain().describe()
    assert described["clang"].startswith("99.0.0 from PATH") and "from ziglang" in described["clang (bitcode)"]


def test_a_version_is_asked_for_again_when_the_program_changes(cache, monkeypatch, tmp_path):
    program = tmp_path / "clang"
    monkeypatch.setenv("PYDISPATCH_CLANG", str(program))
    for version, size in (("18.1.0", 1), ("19.1.0", 2)):
        program.write_text(f"#!/bin/sh\necho clang version {version}\n" + "#" * size)
        program.chmod(0o755)
        assert str(Toolchain().clang("obj")).startswith(version)


@pytest.mark.parametrize("module", [units, llvm, foreign])
def test_units_are_compiled_again_when_their_compiler_changes(tmp_path, monkeypatch, module):
    before = units._tools.__wrapped__()
    changed = tmp_path / "changed.py"
    changed.write_bytes(Path(module.__file__).read_bytes() + b"#")
    monkeypatch.setattr(module, "__file__", str(changed))
    assert units._tools.__wrapped__() != before


LOCATION = Location("program.mlir", 3, 7)
SLOW = {
    "compiling k.cu": lambda: cuda_tools.compile_cu(ObjectFile("k.cu", b"", LOCATION), "sm_80"),
    "checking k.ptx": lambda: cuda_tools.assemble_problem(b".version 7.0", "k.ptx", "sm_80"),
    "linking k.cubin": lambda: link.link_machine_code(
        "", [(ObjectFile("k.cubin", b"", LOCATION), "CUBIN")], arch="sm_80"
    ),
    "compiling k.glsl": lambda: vulkan_tools.compile_glsl(ObjectFile("k.glsl", b"", LOCATION)),
}


@pytest.mark.parametrize("task", SLOW)
def test_programs_that_take_too_long(task, cache, monkeypatch):
    def run(command, **options):
        raise subprocess.TimeoutExpired(command, options["timeout"])

    monkeypatch.setattr(cuda_tools, "tool", lambda name: f"/opt/cuda/bin/{name}")
    monkeypatch.setattr(cuda_tools, "version", lambda path: "release 12.0")
    monkeypatch.setattr(vulkan_tools.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(programs.subprocess, "run", run)
    with pytest.raises(CompileError, match=rf"{task} took longer than \d+ seconds: \S+ was ended") as caught:
        SLOW[task]()
    assert caught.value.location == (None if task.startswith("checking") else LOCATION)
