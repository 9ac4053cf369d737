"""Measures pydispatch and its peer side by side and prints the table of docs/benchmarks.md.

    python bench/run.py [SECTION...] [--json FILE]

Sections: call, workgroups, load, compile, stream, modes. Each alternates the contenders round by round in one process
and reports medians, so that a noisy machine disturbs both alike; what counts are the ratios.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

import peer as peers

import pydispatch as pd

Rows = dict[str, float]


def alternate(contenders: dict[str, Callable[[], Any]], rounds: int, calls: int) -> Rows:
    """Median seconds per call of each contender; every round runs each `calls` times."""
    for call in contenders.values():
        for _ in range(max(1, calls // 10)):
            call()
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, call in contenders.items():
            start = time.perf_counter()
            for _ in range(calls):
                call()
            times[name].append((time.perf_counter() - start) / calls)
    return {name: statistics.median(values) for name, values in times.items()}


def section_call(work: Path) -> Rows:
    """The 8-element example from Python, microseconds: three dispatches of one workgroup."""
    obj = peers.compile_object(work)
    vmfb = peers.peer_compile(peers.example_text(obj), work / "call.vmfb")
    artifact = pd.compile(peers.example_text(obj), targets="cpu")
    a, b = np.full(8, 2, np.float32), np.full(8, 4, np.float32)
    sync, task = pd.device("local-sync").load(artifact), pd.device("local-task").load(artifact)
    peer_sync, peer_task = peers.Peer(vmfb, "local-sync"), peers.Peer(vmfb, "local-task")
    out = np.empty(8, np.float32)
    prepared = sync.mixed_invocation.prepare(a, b)
    f, g = sync.mixed_invocation, task.mixed_invocation
    rows = alternate(
        {
            "call": lambda: f(a, b),
            "call, out= given": lambda: f(a, b, out=out),
            "call, local-task": lambda: g(a, b),
            "prepared": prepared,
            "np.add of the same arrays": lambda: np.add(a, b),
            "peer local-sync": peer_sync.raw("mixed_invocation", a, b),
        },
        rounds=15, calls=5000,
    )  # fmt: skip
    rows |= alternate({"peer local-task": peer_task.raw("mixed_invocation", a, b)}, rounds=7, calls=500)
    return {name: seconds * 1e6 for name, seconds in rows.items()}


def section_workgroups(work: Path) -> Rows:
    """Empty workgroups, nanoseconds each, a grid of 4096 x 4096."""
    vmfb = peers.peer_compile(peers.EMPTY, work / "empty.vmfb")
    artifact = pd.compile(peers.EMPTY, targets="cpu")
    x = np.zeros(4, np.float32)
    contenders = {}
    for workers in (1, 2):
        contenders[f"{workers} worker{'s'[: workers - 1]}"] = (
            pd.device(f"cpu?workers={workers}").load(artifact).run.prepare(x)
        )
    for device in ("local-sync", "local-task"):
        contenders[f"peer {device}"] = peers.Peer(vmfb, device).raw("run", x)
    rows = alternate(contenders, rounds=9, calls=1)
    return {name: seconds / peers.EMPTY_WORKGROUPS * 1e9 for name, seconds in rows.items()}


def section_load(work: Path) -> Rows:
    """From a file to the result of the first call, and everything released again, microseconds."""
    import iree.runtime as rt

    obj = peers.compile_object(work)
    vmfb = peers.peer_compile(peers.example_text(obj), work / "load.vmfb")
    path = work / "load.pdx"
    pd.compile(peers.example_text(obj), targets="cpu").save(path)
    a, b = np.full(8, 2, np.float32), np.full(8, 4, np.float32)
    device = pd.device("cpu")
    config = rt.Config("local-sync")
    hal = rt.create_hal_module(config.vm_instance, config.device)
    arguments = rt.VmVariantList(2)
    kept = [rt.asdevicearray(config.device, x) for x in (a, b)]
    for array in kept:
        arguments.push_ref(array._buffer_view)

    def ours() -> None:
        program = device.load(path)
        program.mixed_invocation(a, b)
        program.close()

    def peer() -> None:
        module = rt.VmModule.mmap(config.vm_instance, str(vmfb))
        context = rt.VmContext(config.vm_instance, modules=[hal, module])
        context.invoke(module.lookup_function("mixed_invocation"), arguments, rt.VmVariantList(1))

    rows = alternate({"file to first result": ours, "peer local-sync": peer}, rounds=15, calls=200)
    return {name: seconds * 1e6 for name, seconds in rows.items()}


def section_compile(work: Path) -> Rows:
    """Compiling the example (a linked object, one target) with nothing kept, and once more, seconds."""
    obj = peers.compile_object(work)
    text = peers.example_text(obj)
    source = work / "compile.mlir"
    source.write_text(text)
    flags = ["--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu"]

    def process(*command: object, **variables: str) -> Callable[[], object]:
        words, environment = [str(c) for c in command], {**peers.with_bytecode(), **variables}
        return lambda: subprocess.run(words, check=True, capture_output=True, env=environment)

    python = Path(sys.executable)
    ours = python, "-m", "pydispatch", "compile", source, "-o", work / "c.pdx"

    def uncached() -> None:
        os.environ["PYDISPATCH_CACHE_SIZE"] = "0"
        try:
            pd.compile(text, targets="cpu")
        finally:
            del os.environ["PYDISPATCH_CACHE_SIZE"]

    warm = {"warm process, no cache": uncached, "warm process, unchanged": lambda: pd.compile(text, targets="cpu")}
    rows = alternate(warm, rounds=7, calls=1)
    return rows | alternate(
        {
            "as a process, no cache": process(*ours, PYDISPATCH_CACHE_SIZE="0"),
            "as a process, unchanged": process(*ours),
            "peer as a process": process(python.with_name("iree-compile"), source, "-o", work / "c.vmfb", *flags),
        },
        rounds=5, calls=1,
    )  # fmt: skip


STREAM_C = """
#include <stddef.h>
void chain(const float* restrict a, const float* restrict b, float* restrict t, float* restrict out, size_t n) {
  for (size_t i = 0; i < n; ++i) t[i] = a[i] * b[i];
  __asm__ volatile("" ::: "memory");
  for (size_t i = 0; i < n; ++i) out[i] = t[i] + b[i];
  __asm__ volatile("" ::: "memory");
  for (size_t i = 0; i < n; ++i) out[i] *= t[i];
}
"""


def section_stream(work: Path) -> Rows:
    """16 M elements through three dispatches, fresh outputs, milliseconds."""
    n = 16 * 1024 * 1024
    obj = peers.compile_object(work)
    vmfb = peers.peer_compile(peers.example_text(obj), work / "stream.vmfb")
    artifact = pd.compile(peers.example_text(obj), targets="cpu")
    a = np.random.default_rng(1).random(n, np.float32)
    b = np.random.default_rng(2).random(n, np.float32)
    library = work / "chain.so"
    (work / "chain.c").write_text(STREAM_C)
    subprocess.run(["gcc", "-O3", "-march=native", "-shared", "-fPIC", work / "chain.c", "-o", library], check=True)
    chain = ctypes.CDLL(str(library)).chain
    t, out = np.empty(n, np.float32), np.empty(n, np.float32)
    pointers = [ctypes.c_void_p(x.ctypes.data) for x in (a, b, t, out)]
    sync, task = pd.device("local-sync").load(artifact), pd.device("local-task").load(artifact)
    sync_plain, task_plain = (pd.device(f"{name}?chains=0").load(artifact) for name in ("local-sync", "local-task"))
    rows = alternate(
        {
            "1 worker": lambda: sync.mixed_invocation(a, b),
            "2 workers": lambda: task.mixed_invocation(a, b),
            "1 worker, one dispatch after another": lambda: sync_plain.mixed_invocation(a, b),
            "2 workers, one dispatch after another": lambda: task_plain.mixed_invocation(a, b),
            "peer local-sync": peers.Peer(vmfb, "local-sync").raw("mixed_invocation", a, b),
            "peer local-task": peers.Peer(vmfb, "local-task").raw("mixed_invocation", a, b),
            "plain C loops, one thread, warm buffers": lambda: chain(*pointers, ctypes.c_size_t(n)),
        },
        rounds=9, calls=1,
    )  # fmt: skip
    return {name: seconds * 1e3 for name, seconds in rows.items()}


PEAK = """
import sys
sys.path.insert(0, {bench!r})
import numpy as np
def status(key):
    return next(int(l.split()[1]) for l in open("/proc/self/status") if l.startswith(key))
n = 16 * 1024 * 1024
a, b = np.ones(n, np.float32), np.ones(n, np.float32)
{setup}
before = status("VmRSS")
open("/proc/self/clear_refs", "w").write("5")
for _ in range(4): result = call()
print(status("VmHWM") - before)
"""


def section_memory(work: Path) -> Rows:
    """What four calls of the 16 M chain add to the peak of a fresh process, MiB."""
    obj = peers.compile_object(work)
    vmfb = peers.peer_compile(peers.example_text(obj), work / "memory.vmfb")
    path = work / "memory.pdx"
    pd.compile(peers.example_text(obj), targets="cpu").save(path)
    setups = {
        "2 workers": f"import pydispatch as pd\nf = pd.device('local-task').load({str(path)!r}).mixed_invocation\n"
                     "call = lambda: f(a, b)",
        "peer local-task": f"import peer\ncall = peer.Peer({str(vmfb)!r}, 'local-task').raw('mixed_invocation', a, b)",
    }  # fmt: skip
    rows = {}
    for name, setup in setups.items():
        code = PEAK.format(bench=str(Path(__file__).parent), setup=setup)
        out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        rows[name] = int(out.split()[-1]) / 1024
    return rows


def section_modes(work: Path) -> Rows:
    """One dispatch mode against another: 64-element workgroups of one multiply, nanoseconds per workgroup, 1 worker."""
    obj = peers.compile_object(work)
    n = 64 * 4096
    a, b = np.ones(n, np.float32), np.ones(n, np.float32)
    device = pd.device("local-sync")
    bitcode = work / "functions.bc"
    from pydispatch.compiler.toolchain import tools

    bitcode.write_bytes(
        tools.find().compile_c(peers.EXAMPLE / "functions.c", arch="x86_64", cpu="generic", features=(), emit="bc")
    )
    body = peers.example_text()
    start, end = body.index("func.func @mixed_invocation"), body.rindex("}")
    only_mul = """func.func @mul_only(%a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<?xf32> {
      %zero = arith.constant 0 : index
      %size = tensor.dim %a, %zero : tensor<?xf32>
      %product = flow.dispatch @kernels::@mul[%size](%a, %b, %size)
          : (tensor<?xf32>{%size}, tensor<?xf32>{%size}, index) -> tensor<?xf32>{%size}
      return %product : tensor<?xf32>
    }
    """
    contenders: dict[str, Callable[[], Any]] = {}
    for name, path in (
        ("C source, inlined", peers.EXAMPLE / "functions.c"),
        ("bitcode, inlined", bitcode),
        ("object, linked", obj),
    ):
        text = (body[:start] + only_mul + body[end:]).replace("functions.c", str(path))
        contenders[name] = device.load(pd.compile(text, targets="cpu")).mul_only.prepare(a, b)
    imported = (body[:start] + only_mul + body[end:]).replace("hal.import.static, ", "")
    imported = imported.replace('#hal.executable.object<{path = "functions.c"}>', "")
    thunk = import_thunk(work)
    importing = pd.device("local-sync")
    importing.add_import("mul_workgroup", thunk)
    importing.add_import("scale_workgroup", thunk)
    contenders["import, through the thunk"] = importing.load(pd.compile(imported, targets="cpu")).mul_only.prepare(a, b)
    rows = alternate(contenders, rounds=15, calls=50)
    return {name: seconds / 4096 * 1e9 for name, seconds in rows.items()}


IMPORT_C = """
#include <stddef.h>
struct params { const float* a; size_t ao; const float* b; size_t bo; float* c; size_t co; size_t size; size_t first; };
int mul(void* raw, void* context, void* reserved) {
  const struct params* p = raw;
  size_t end = p->size - p->first < 64 ? p->size : p->first + 64;
  float* restrict c = p->c + p->co;
  for (size_t i = p->first; i < end; ++i) c[i] = p->a[p->ao + i] * p->b[p->bo + i];
  return 0;
}
"""


def import_thunk(work: Path) -> int:
    """The address of the multiply as an import: parameters in one structure."""
    (work / "import.c").write_text(IMPORT_C)
    subprocess.run(["gcc", "-O3", "-shared", "-fPIC", work / "import.c", "-o", work / "import.so"], check=True)
    address = ctypes.cast(ctypes.CDLL(str(work / "import.so")).mul, ctypes.c_void_p).value
    assert address is not None
    return address


SECTIONS: dict[str, tuple[Callable[[Path], Rows], str, str]] = {
    "call": (section_call, "us", "peer local-sync"),
    "workgroups": (section_workgroups, "ns", "peer local-sync"),
    "load": (section_load, "us", "peer local-sync"),
    "compile": (section_compile, "s", "peer as a process"),
    "stream": (section_stream, "ms", "peer local-task"),
    "memory": (section_memory, "MiB", "peer local-task"),
    "modes": (section_modes, "ns", "object, linked"),
}


def cpu_name() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":")[1].strip()
    return platform.processor()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sections", nargs="*", choices=[*SECTIONS, []])
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    print(f"{cpu_name()}, {os.cpu_count()} CPUs, Python {platform.python_version()}, NumPy {np.__version__}")
    everything: dict[str, Rows] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in args.sections or SECTIONS:
            run, unit, base = SECTIONS[name]
            rows = run(Path(folder))
            everything[name] = rows
            print(f"\n{name}: {run.__doc__}")
            for row, value in rows.items():
                ratio = rows[base] / value if value else float("inf")
                print(f"  {row:42s} {value:10.3f} {unit:4s} {ratio:7.2f}x of {base}")
    print(f"\npeak memory of this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MiB")
    if args.json:
        args.json.write_text(json.dumps(everything, indent=1) + "\n")


if __name__ == "__main__":
    main()
