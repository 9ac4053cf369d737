"""Plugins through the public API over their whole life: parameters, one load and one unload, hot swap, many threads."""

from __future__ import annotations

import itertools
import struct
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from test_imports import FUNCTION, PROGRAM, A, B

import pydispatch as pd
from pydispatch.formats.elf import fatelf

# Counts its loads and unloads in a file that its parameters name.
LIVES = """
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "pydispatch/plugin.h"
typedef struct { const float* a; size_t ao; const float* b; size_t bo; float* c; size_t co;
                 size_t size, group; } params_t;
typedef struct { char log[256]; float scale; int live; } self_t;
static void note(const self_t* self, const char* text) {
  if (!self->log[0]) return;
  int file = open(self->log, O_WRONLY | O_APPEND | O_CREAT, 0600);
  if (write(file, text, strlen(text)) < 0) abort();
  close(file);
}
static int my_mul(void* raw, void* context, void* reserved) {
  params_t* p = raw;
  self_t* self = context;
  if (self->live != 1 || reserved) abort();
  for (size_t i = p->group * 64; i < p->group * 64 + 64 && i < p->size; ++i)
    p->c[p->co + i] = self->scale * p->a[p->ao + i] * p->b[p->bo + i];
  return 0;
}
static pyd_plugin_status_t load(const pyd_plugin_environment_t* environment, size_t count,
                                const pyd_plugin_param_t* params, void** out_self) {
  (void)environment;
  self_t* self = calloc(1, sizeof(self_t));
  *out_self = self;
  self->live = self->scale = 1;
  pyd_plugin_string_t log = pyd_plugin_param(count, params, "log"), scale = pyd_plugin_param(count, params, "scale");
  if (log.data) memcpy(self->log, log.data, log.size);
  if (scale.data) self->scale = (float)(scale.data[0] - '0');
  if (pyd_plugin_param(count, params, "plugin").data) puts("loaded");
  note(self, "load\\n");
  return PYD_PLUGIN_OK;
}
static void unload(void* raw) {
  self_t* self = raw;
  if (self->live != 1) abort();
  self->live = 2;
  note(self, "unload\\n");
  free(self);
}
static pyd_plugin_status_t resolve(void* self, const pyd_plugin_resolve_params_t* params,
                                   pyd_plugin_resolution_t* out) {
  pyd_plugin_entry_t entry = {"my_mul", my_mul, self};
  return pyd_plugin_resolve_from(&entry, 1, params, out);
}
static const pyd_plugin_header_t header = {PYD_PLUGIN_VERSION, "lives", "", 0, 0, {0}};
static const pyd_plugin_table_t table = {&header, load, unload, resolve};
PYD_PLUGIN_EXPORT const pyd_plugin_header_t* const* iree_hal_executable_plugin_query(uint32_t version, void* reserved) {
  return version >= 1 && !reserved ? &table.header : 0;
}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """p.pdx, lives.so, and doubles.so, an embedded plugin."""
    made = tmp_path_factory.mktemp("lives")
    pd.compile(PROGRAM).save(made / "p.pdx")
    (made / "lives.c").write_text(LIVES)
    command = ["gcc", "-O2", "-shared", "-fPIC", f"-I{pd.get_include()}", made / "lives.c", "-o", made / "lives.so"]
    subprocess.run(command, check=True)
    (made / "doubles.c").write_text(FUNCTION.replace("SCALE", "2.0f"))
    cli = [sys.executable, "-m", "pydispatch.cli", "plugin", "build", made / "doubles.c", "--export=my_mul"]
    subprocess.run([*cli, "-o", made / "doubles.so"], check=True)
    return made


@pytest.mark.parametrize("order", list(itertools.permutations(["device", "program", "function"])))
def test_unloaded_once_after_the_last_user(folder: Path, tmp_path: Path, order: tuple[str, ...]) -> None:
    log = tmp_path / "log"
    device = pd.device("cpu?workers=2")
    device.add_plugin(folder / "lives.so", log=log, scale=2)
    program = device.load(folder / "p.pdx")
    users: dict[str, object] = {"device": device, "program": program, "function": program.run}
    del device, program
    for name in order:
        assert log.read_text() == "load\n"
        if "function" in users:
            assert users["function"](A, B)[1] == 6  # type: ignore[operator]
        del users[name]
    assert log.read_text() == "load\nunload\n"


def test_unloaded_once_when_the_interpreter_ends(folder: Path, tmp_path: Path) -> None:
    code = f"""
import numpy as np, pydispatch as pd
device = pd.device("cpu")
device.add_plugin({str(folder / "lives.so")!r}, log={str(tmp_path / "log")!r})
program = device.load({str(folder / "p.pdx")!r})
program.run(np.ones(200, np.float32), np.ones(200, np.float32))
keep = [program.run]
keep.append(keep)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    assert (tmp_path / "log").read_text() == "load\nunload\n"


def test_hot_swap_while_others_call(folder: Path) -> None:
    device = pd.device("cpu?workers=2")
    stop, wrong = threading.Event(), []

    def call(program: pd.Program, expected: float) -> None:
        while not stop.is_set():
            if program.run(A, B)[1] != expected:
                wrong.append(expected)

    threads, old = [], None
    for i in range(60):
        new = device.add_plugin(folder / "lives.so", scale=i % 7 + 1)
        if old is not None:
            device.remove_plugin(old)
        old = new
        program = device.load(folder / "p.pdx")
        assert program.run(A, B)[1] == 3 * (i % 7 + 1)
        if i < 2:
            threads.append(threading.Thread(target=call, args=(program, 3.0 * (i + 1))))
            threads[-1].start()
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong


def test_many_threads_register_and_load_at_once(folder: Path) -> None:
    device = pd.device("cpu?workers=2")
    start, done = threading.Barrier(64), []

    def work() -> None:
        start.wait()
        for name in ("lives.so", "doubles.so"):
            provider = device.add_plugin(folder / name, scale=2)
            program = device.load(folder / "p.pdx")
            device.remove_plugin(provider)
            done.append(float(program.run(A, B)[1]))

    threads = [threading.Thread(target=work) for _ in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert done == [6.0] * 128
    with pytest.raises(pd.MissingImportError):
        device.load(folder / "p.pdx")


def held() -> tuple[int, int]:
    return len(Path("/proc/self/maps").read_text().splitlines()), len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.parametrize("name", ["lives.so", "doubles.so"])
def test_nothing_is_left_after_many_cycles(folder: Path, name: str) -> None:
    device = pd.device("cpu?workers=2")

    def cycle(count: int) -> None:
        for _ in range(count):
            provider = device.add_plugin(folder / name)
            device.load(folder / "p.pdx").run(A, B)
            device.remove_plugin(provider)

    cycle(100)
    before = held()
    cycle(2000)
    after = held()
    assert after[1] == before[1] and after[0] <= before[0] + 4  # the heap may grow by itself


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pydispatch.cli", "run", str(folder / "p.pdx")]
    values = ["--input=8xf32=2", "--input=8xf32=4"]
    return subprocess.run([*command, *values, *arguments], capture_output=True, text=True)


def test_parameters_on_the_command_line(folder: Path) -> None:
    lives, doubles = folder / "lives.so", folder / "doubles.so"
    done = run(folder, f"--executable_plugin=system:{lives}?scale=3&plugin=x")
    assert done.stdout.startswith("loaded\nEXEC @run\n") and "8xf32=24 24" in done.stdout, done.stderr
    assert "8xf32=16 16" in run(folder, f"--plugin={lives}?scale=3", f"--plugin={doubles}").stdout
    assert "8xf32=24 24" in run(folder, f"--plugin={lives}?scale=3&priority=1", f"--plugin={doubles}").stdout
    bad = run(folder, f"--plugin={lives}?priority=high")
    assert bad.returncode == 1 and "priority: expected a whole number, got 'high'" in bad.stderr


def test_a_fatelf_file_made_by_hand(folder: Path) -> None:
    """As the format is described, with the tool of nobody: the first record that fits counts."""
    elf = (folder / "doubles.so").read_bytes()
    (machine,) = struct.unpack_from("<H", elf, 18)
    foreign = 8  # MIPS
    at = 4096
    records = [(foreign, 0, 0, 2, 1, 0, 0, at, len(elf)), (machine, 3, 0, 2, 1, 0, 0, at, len(elf))]
    head = struct.pack("<IHBB", 0x1F0E70FA, 1, 2, 0) + b"".join(struct.pack("<HBBBBBBQQ", *r) for r in records)
    made = head.ljust(at, b"\0") + elf
    device = pd.device("cpu")
    device.add_plugin(made)
    assert device.load(folder / "p.pdx").run(A, B)[1] == 6
    assert bytes(fatelf.select(made)) == elf
    with pytest.raises(pd.ArtifactError, match="FatELF"):
        device.add_plugin(made[:30])


def test_an_executable_is_looked_at_before_it_is_opened(tmp_path: Path) -> None:
    """Opening a library with a sanitizer's runtime would end the process."""
    (tmp_path / "s.c").write_text("int f(int* p) { return *p; }")
    command = ["gcc", "-shared", "-fPIC", "-fsanitize=address", tmp_path / "s.c", "-o", tmp_path / "s.so"]
    subprocess.run(command, check=True)
    with pytest.raises(pd.ArtifactError, match=r"add_executable 'e': .*s\.so: was built with the address sanitizer"):
        pd.device("cpu").add_executable("e", tmp_path / "s.so")


LIARS = {
    "version": ("VERSION=99", "version 0.99"),
    "table": ("RESOLVE=0", "no resolve function"),
    "sanitizer": ("SANITIZER=1", "address sanitizer"),
    "status": ("FEATURES=0", None),  # with scale=0 its load fails
}


@pytest.mark.parametrize("kind", ["embedded", "system"])
@pytest.mark.parametrize("lie", LIARS)
def test_liars_are_refused_by_the_device(folder: Path, tmp_path: Path, kind: str, lie: str) -> None:
    define, message = LIARS[lie]
    source = Path(__file__).parents[1] / "c" / "plugin" / "peer_plugin.c"
    library = tmp_path / "liar.so"
    if kind == "system":
        subprocess.run(["gcc", "-shared", "-fPIC", "-DSYSTEM", f"-D{define}", source, "-o", library], check=True)
    else:
        cli = [sys.executable, "-m", "pydispatch.cli", "plugin", "build", source, "-o", library]
        subprocess.run([*cli, "-D", define if message else "FEATURES=1"], check=True)
    device = pd.device("cpu")
    with pytest.raises(pd.Error, match=message or r"refused to load: it returned INVALID_ARGUMENT \(3\)") as caught:
        device.add_plugin(f"{kind}:{library}", **({} if message else {"scale": 0}))
    assert str(library) in str(caught.value)
    assert str(library) not in Path("/proc/self/maps").read_text()
    with pytest.raises(pd.MissingImportError, match="no plugin or function is registered"):
        device.load(folder / "p.pdx")


@pytest.mark.peer
@pytest.mark.parametrize("device", ["local-sync", "local-task"])
def test_the_peer_loads_what_we_build(tmp_path: Path, device: str) -> None:
    """One program, compiled and run by IREE, with our plugins: .so, .sos and a system library."""
    example = Path(__file__).parents[2] / "examples" / "plugin"
    tools, module = Path(sys.executable).parent, tmp_path / "m.vmfb"
    compiler = [tools / "iree-compile", "--iree-hal-target-device=local", "--iree-llvmcpu-target-cpu=generic"]
    options = ["--iree-hal-local-target-device-backends=llvm-cpu", example / "program.mlir", "-o", module]
    subprocess.run([*compiler, *options], check=True, capture_output=True)
    for name, flags in (("embedded:a.so", []), ("embedded:b.sos", []), ("./c.so", ["--system"])):
        path = tmp_path / name.rpartition(":")[2]
        cli = [sys.executable, "-m", "pydispatch.cli", "plugin", "build", example / "simple_mul.c", "-o", path]
        subprocess.run([*cli, *flags], check=True)
        command = [tools / "iree-run-module", f"--device={device}", f"--module={module}", f"--executable_plugin={name}"]
        done = subprocess.run(
            [*command, "--input=8xf32=2", "--input=8xf32=4"], cwd=tmp_path, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0 and "8xf32=8 8 8 8 8 8 8 8" in done.stdout, (name, done.stderr)
