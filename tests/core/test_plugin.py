"""Plugins as files: every kind and machine, by the other system's interface; each broken one; what is left behind."""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from elf_build import ROOT, run
from pydispatch._core import plugin

from pydispatch.compiler.driver import plugin as plugin_build
from pydispatch.errors import ArtifactError, InvalidArgumentError, MissingImportError
from pydispatch.formats.elf import fatelf

HOST = platform.machine()
MACHINES = ["x86_64", "aarch64", "riscv64"]
SAMPLE = ROOT / "tests" / "c" / "plugin" / "peer_plugin.c"
SYMBOL = "simple_mul_workgroup"
PRODUCTS = "3 6 9 12 15 18 21 24\n"


@pytest.fixture(scope="session")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Builds tests/c/plugin/peer_plugin.c, once for each request: an embedded ELF, a system library or a .sos file."""
    folder = tmp_path_factory.mktemp("sample")

    def build(*defines: str, kind: str = "embedded", arch: str = HOST) -> Path:
        name = hashlib.sha256(repr((defines, kind, arch)).encode()).hexdigest()[:12]
        path = folder / f"{name}.{'sos' if kind == 'fat' else 'so'}"
        if not path.exists():
            if kind == "system":
                data = plugin_build.build_system([SAMPLE], defines=["SYSTEM", *defines])
            else:
                arches = MACHINES if kind == "fat" else [arch]
                data = plugin_build.package(
                    plugin_build.build_standalone([SAMPLE], arches=arches, defines=defines, opt="-O2"), path
                )
            path.write_bytes(data)
        return path

    return build


@pytest.fixture(scope="session")
def runner() -> Callable[[str], list[str]]:
    """The command that runs tests/c/plugin/run_plugin.c on a machine, kept in build/ as long as its sources stay."""

    def command(machine: str) -> list[str]:
        native = machine == HOST
        emulator = "" if native else shutil.which(f"qemu-{machine}-static") or shutil.which(f"qemu-{machine}")
        if emulator is None:
            pytest.skip(f"qemu-{machine}-static is not installed (apt-get install qemu-user-static)")
        folder = ROOT / "csrc"
        sources = [ROOT / "tests/c/plugin/run_plugin.c", *sorted((folder / "base").glob("*.c"))]
        sources += [folder / "platform" / f"{name}_linux.c" for name in ("mem", "file", "dl")]
        sources += [p for room in ("elf", "fatelf", "plugin") for p in sorted((folder / room).glob("*.c"))]
        text = b"".join(p.read_bytes() for p in [*sources, *sorted(folder.rglob("*.h"))])
        binary = ROOT / "build" / "runner" / f"run_plugin-{machine}-{hashlib.sha256(text).hexdigest()[:16]}"
        if not binary.exists():
            binary.parent.mkdir(parents=True, exist_ok=True)
            compiler = [sys.executable, "-m", "ziglang", "cc", "-target", f"{machine}-linux-musl", "-static"]
            made = binary.with_suffix(f".new{os.getpid()}")
            run(*(["gcc"] if native else compiler), "-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE",
                f"-I{folder}", f"-I{folder}/include", *sources, "-o", made, "-pthread", "-ldl")  # fmt: skip
            made.replace(binary)
        return [emulator, str(binary)] if emulator else [str(binary)]

    return command


def call(command: list[str], *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*command, *map(str, arguments)], capture_output=True, text=True, timeout=300)


def multiply(loaded: plugin.Plugin) -> list[float]:
    """Calls the sample's function as a program would."""

    class Params(ctypes.Structure):
        _fields_ = [(name, ctypes.c_void_p if i % 2 == 0 and i < 6 else ctypes.c_size_t)
                    for i, name in enumerate(("lhs", "lo", "rhs", "ro", "out", "oo", "size", "tid"))]  # fmt: skip
        _fields_ += [("processor_id", ctypes.c_uint32), ("processor_data", ctypes.c_void_p)]

    floats = ctypes.c_float * 4
    lhs, rhs, out = floats(1, 2, 3, 4), floats(2, 2, 2, 2), floats()
    address, context = loaded_function(loaded)
    at = [ctypes.addressof(x) for x in (lhs, rhs, out)]
    params = Params(at[0], 0, at[1], 0, at[2], 0, 4, 0, 3, None)
    function = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(address)
    assert function(ctypes.addressof(params), context, None) == 0
    return list(out)


def loaded_function(loaded: plugin.Plugin) -> tuple[int, int]:
    manager = plugin.Manager()
    manager.add(loaded)
    return manager.resolution().resolve([SYMBOL])[0]


@pytest.mark.parametrize("kind", ["embedded", "system", "fat"])
def test_each_kind(sample: Callable[..., Path], kind: str) -> None:
    path = sample(kind=kind)
    expected = "system" if kind == "system" else "embedded"
    for source in (path, str(path), path.read_bytes()):
        with plugin.Plugin(source, name="mine") as loaded:
            assert (loaded.kind, loaded.name, loaded.label) == (expected, "peer_sample", "mine")
            assert loaded.description == "a plugin by the document"
            assert multiply(loaded) == [2, 4, 6, 8]
    with plugin.Plugin(path, {"scale": "3"}) as loaded:
        assert multiply(loaded) == [6, 12, 18, 24]
    with pytest.raises(
        InvalidArgumentError, match=r"refused to load: it returned INVALID_ARGUMENT \(3\); does it take"
    ):
        plugin.Plugin(path, {"scale": "0"})
    with pytest.raises(InvalidArgumentError, match="plugin parameter 'scale': expected texts, got 3"):
        plugin.Plugin(path, {"scale": 3})  # type: ignore[dict-item]


def test_libraries_of_the_system_in_memory_at_the_same_time(sample: Callable[..., Path]) -> None:
    names = ["first", "second", "third"]
    files = [sample(f'NAME="{name}"', kind="system").read_bytes() for name in names]
    loaded = [plugin.Plugin(file, kind="system") for file in files]
    assert [library.name for library in loaded] == names
    loaded[1].close()
    with plugin.Plugin(files[2], kind="system") as again:
        assert (again.name, loaded[0].name, loaded[2].name) == ("third", "first", "third")
        assert multiply(again) == [2, 4, 6, 8]


def test_kinds_by_name(sample: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    embedded, system = sample(), sample(kind="system")
    assert plugin.Plugin(f"embedded:{embedded}").kind == "embedded"
    assert plugin.Plugin(f"system:{embedded}").kind == "system"  # the system's loader takes it as well
    assert plugin.Plugin(embedded, kind="system").kind == "system"
    with pytest.raises(ArtifactError, match=r"plugin '.*': ELF: needs the shared library 'libc"):
        plugin.Plugin(system, kind="embedded")
    with pytest.raises(InvalidArgumentError, match="kind: expected one of auto, system, embedded, got 'dll'"):
        plugin.Plugin(system, kind="dll")
    renamed = tmp_path / "system.sos"
    renamed.write_bytes(system.read_bytes())
    with pytest.raises(ArtifactError, match="needs the shared library"):  # .sos is embedded, without a second try
        plugin.Plugin(renamed)
    shutil.copy(system, tmp_path / "local.so")
    monkeypatch.chdir(tmp_path)
    assert plugin.Plugin("local.so").kind == "system"  # this folder's, not the library path's


@pytest.mark.parametrize("kind", ["embedded", "system"])
@pytest.mark.parametrize(
    ("define", "message"),
    [
        ("VERSION=99", "has plugin version 0.99, whose tables are laid out differently; version 0.1 can be loaded"),
        ("VERSION=0", "has plugin version 0.0,"),
        ("RESOLVE=0", "its table has no resolve function"),
        ("SANITIZER=1", "was built with the address sanitizer (1)"),
        ("SANITIZER=4", "was built with the undefined behaviour sanitizer (4)"),
        ("iree_hal_executable_plugin_query=other", None),
    ],
)
def test_liars(sample: Callable[..., Path], tmp_path: Path, kind: str, define: str, message: str | None) -> None:
    if message is None:
        path = tmp_path / "nothing.so"
        run("gcc", "-shared", "-fPIC", "-nostdlib", f"-D{define}", SAMPLE, "-o", path)
        message = "does not export 'iree_hal_executable_plugin_query': end its source with PYD_PLUGIN(...)"
    else:
        path = sample(define, kind=kind)
    before = mappings()
    with pytest.raises(ArtifactError) as raised:
        plugin.Plugin(path, kind=kind)
    assert f"plugin '{path}'" in str(raised.value) and message in str(raised.value)
    assert mappings() == before


def mappings() -> list[str]:
    """Files and executable memory, without the heap, whose growth says nothing."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return [line for line in lines if "r-xp" in line or "/sample" in line]


def test_not_standalone(sample: Callable[..., Path]) -> None:
    path = sample("FEATURES=0")
    with pytest.raises(ArtifactError, match="an embedded ELF that does not declare itself standalone"):
        plugin.Plugin(path, kind="embedded")
    assert plugin.Plugin(path).kind == "system"
    assert plugin.Plugin(sample("FEATURES=3")).kind == "embedded"  # statuses with a payload are understood


def test_other_machines(sample: Callable[..., Path], tmp_path: Path) -> None:
    other = "aarch64" if HOST == "x86_64" else "x86_64"
    path = sample(arch=other)
    for kind in ("auto", "system", "embedded"):
        with pytest.raises(ArtifactError, match=rf"is for {other}.*this machine is {HOST}"):
            plugin.Plugin(path, kind=kind)
    fat = tmp_path / "other.sos"
    fat.write_bytes(fatelf.join([("a", path.read_bytes())]))
    with pytest.raises(ArtifactError, match=f"FatELF: has no record for {HOST}; it has {other}"):
        plugin.Plugin(fat)


def test_constructors_of_a_wrong_library_do_not_run(tmp_path: Path) -> None:
    """A library with a sanitizer's runtime would end the process when it is opened."""
    source, path = tmp_path / "s.c", tmp_path / "s.so"
    source.write_text("int f(int* p) { return *p; }")
    run("gcc", "-shared", "-fPIC", "-fsanitize=address", source, "-o", path)
    with pytest.raises(ArtifactError, match="was built with the address sanitizer, which this process was not"):
        plugin.Plugin(path)
    program = path.with_name("program")
    source.write_text("int main(void) { return 0; }")
    run("gcc", source, "-o", program, "-no-pie")
    with pytest.raises(ArtifactError, match="ELF type 2, expected 3: link it with -shared"):
        plugin.Plugin(program)


def test_truncated_everywhere(sample: Callable[..., Path]) -> None:
    data = sample(kind="fat").read_bytes()
    whole = sample().read_bytes()
    for cut in [*range(0, 200, 7), *range(4096, len(data) - 1, 997)]:
        try:
            plugin.Plugin(data[:cut]).close()  # the host's record may be whole
        except ArtifactError as error:
            assert "plugin" in str(error)
    loaded = 0
    for cut in range(0, len(whole), 61):
        try:
            plugin.Plugin(whole[:cut], kind="embedded").close()
            loaded += 1
        except ArtifactError:
            assert loaded == 0  # only what lies behind the last segment may be missing
    assert loaded < len(whole) // 61 // 2


@pytest.mark.parametrize("machine", MACHINES)
def test_machines(sample: Callable[..., Path], runner: Callable[[str], list[str]], machine: str) -> None:
    """The records of one .sos file, each on its machine."""
    command = runner(machine)
    done = call(command, sample(kind="fat"), SYMBOL)
    assert (done.returncode, done.stdout) == (0, PRODUCTS), done.stderr
    done = call(command, sample(arch=machine), f"?{SYMBOL}", "--param=scale=2")
    assert (done.returncode, done.stdout) == (0, "6 12 18 24 30 36 42 48\n"), done.stderr
    done = call(command, sample(kind="fat"), "other")
    assert done.returncode == 1 and "the plugin does not have: other" in done.stderr
    done = call(command, sample(kind="fat"), SYMBOL, "--param=scale=0")
    assert done.returncode == 1 and "refused to load: it returned INVALID_ARGUMENT (3)" in done.stderr


@pytest.mark.parametrize("kind", ["embedded", "fat", "system"])
def test_ten_thousand_cycles(sample: Callable[..., Path], runner: Callable[[str], list[str]], kind: str) -> None:
    done = call(runner(HOST), sample(kind=kind), SYMBOL, "--cycles=10000", *(["--system"] * (kind == "system")))
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_library_prints_in_order_with_c(sample: Callable[..., Path], runner: Callable[[str], list[str]]) -> None:
    done = call(runner(HOST), sample(kind="system"), SYMBOL, "--param=scale=5")
    assert done.stdout == "processor_id=0\n15 30 45 60 75 90 105 120\n", done.stderr


# ---- the manager from Python


def test_functions_of_the_host() -> None:
    log: list[object] = []

    class Owner:
        def __del__(self) -> None:
            log.append("gone")

    manager = plugin.Manager()
    first = manager.add_function("f", 4096, 16, Owner())
    second = manager.add_functions({"f": 8192, "g": (12288, 32)}, "pair", Owner(), priority=-1)
    resolution = manager.resolution()
    assert resolution.resolve(["f", "?g", "?h"]) == [(4096, 16), (12288, 32), (0, 0)]
    report = {symbol.name: symbol for symbol in resolution.report()}
    assert report["f"].provider.label == "f" and report["g"].provider.label == "pair" and report["h"].provider is None
    assert [p.label for p in report["h"].asked] == ["f", "pair"] and report["h"].is_optional
    assert list(manager.entries()) == [first, second]
    manager.remove(first)
    manager.remove(second)
    assert manager.entries() == {} and log == []  # the resolution holds them
    with pytest.raises(InvalidArgumentError, match=f"provider {first} is not registered"):
        manager.remove(first)
    with pytest.raises(MissingImportError, match="executable 'exe' has 1 unresolved import: 'f'"):
        manager.resolution().resolve(["f"], "exe")
    del resolution
    assert log == ["gone", "gone"]
    for name, address, message in (
        ("f", 0, "the address of 'f' is 0"),
        ("?f", 8, "a name with '?'"),
        ("", 8, "non-empty"),
    ):
        with pytest.raises(InvalidArgumentError, match=message.replace("?", r"\?")):
            manager.add_function(name, address, 0, Owner())
    assert log == ["gone"] * 5


def test_a_program_keeps_its_plugin(sample: Callable[..., Path]) -> None:
    manager = plugin.Manager()
    loaded = plugin.Plugin(sample())
    number = manager.add(loaded)
    loaded.close()
    with pytest.raises(InvalidArgumentError, match="the plugin is closed"):
        loaded.name  # noqa: B018
    with pytest.raises(InvalidArgumentError, match="the plugin is closed"):
        manager.add(loaded)
    resolution = manager.resolution()
    address, _ = resolution.resolve([SYMBOL])[0]
    manager.remove(number)
    resolution.end()
    code = ctypes.string_at(address, 4)  # still mapped
    assert len(code) == 4 and resolution.report()[0].provider.id == number
    with pytest.raises(InvalidArgumentError, match="the resolution has ended"):
        resolution.resolve([SYMBOL])


def test_a_static_plugin(sample: Callable[..., Path]) -> None:
    library = ctypes.CDLL(str(sample(kind="system")))
    query = ctypes.cast(library.iree_hal_executable_plugin_query, ctypes.c_void_p).value
    loaded = plugin.Plugin.from_query(query, "linked in")
    assert (loaded.kind, loaded.label) == ("static", "linked in") and multiply(loaded) == [2, 4, 6, 8]


PRINTING = """
#include <stdio.h>
#include "pydispatch/plugin.h"
static int f(void* params, void* context, void* reserved) { return 0; }
PYD_PLUGIN("printing", "prints as it is loaded", PYD_PLUGIN_FN("f", f))
PYD_PLUGIN_EXPORT const pyd_plugin_header_t* const* query(uint32_t version, void* reserved) {
  printf("loaded\\n");
  return iree_hal_executable_plugin_query(version, reserved);
}
"""


def test_a_static_plugin_prints_in_order_with_python(tmp_path: Path) -> None:
    (tmp_path / "printing.c").write_text(PRINTING)
    include = [ROOT / "csrc" / "include"]
    library = tmp_path / "printing.so"
    library.write_bytes(plugin_build.build_system([tmp_path / "printing.c"], include_dirs=include))
    code = f"""
import ctypes, os
from pydispatch._core import plugin
query = ctypes.cast(ctypes.CDLL({str(library)!r}).query, ctypes.c_void_p).value
loaded = plugin.Plugin.from_query(query)
os.write(1, b"after\\n")
"""
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}  # C stdio obeys it too
    done = subprocess.run([sys.executable, "-c", code], env=buffered, capture_output=True, text=True, check=True)
    assert done.stdout == "loaded\nafter\n"


def test_fork_while_others_register() -> None:
    code = """
import os, threading
from pydispatch._core import plugin
manager, stop = plugin.Manager(), False
def work():
    while not stop:
        manager.remove(manager.add_function("f", 4096))
threads = [threading.Thread(target=work) for _ in range(3)]
for t in threads: t.start()
for _ in range(30):
    child = os.fork()
    if child == 0:
        manager.remove(manager.add_function("g", 4096))
        manager.resolution()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
stop = True
for t in threads: t.join()
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=300)
