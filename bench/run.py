"""What calls, workgroups, loading and streaming cost, beside IREE.

    python bench/run.py SECTION [--seconds S] [--json FILE]

Contenders alternate, round by round, in one process, so that a noisy machine disturbs all alike; what counts are the
ratios.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import programs
from report.figures import Figures, Row, parser, rows_of, table

import pydispatch as pd
from pydispatch.bench.measure import measure
from pydispatch.bench.peers import iree

Rows = list[Row]


def section_call(work: Path, seconds: float) -> Rows:
    """Calls from Python: the 8-element example, three dispatches of one workgroup."""
    obj = programs.compile_object(work)
    vmfb = programs.peer_compile(programs.example_text(obj), work / "call.vmfb")
    artifact = pd.compile(programs.example_text(obj), targets="cpu")
    a, b = np.full(8, 2, np.float32), np.full(8, 4, np.float32)
    sync, task = pd.device("local-sync").load(artifact), pd.device("local-task").load(artifact)
    peer_sync, peer_task = iree.Module(vmfb, "local-sync"), iree.Module(vmfb, "local-task")
    out = np.empty(8, np.float32)
    prepared = sync.mixed_invocation.prepare(a, b)
    function, with_two_workers = sync.mixed_invocation, task.mixed_invocation
    contenders = {
        "pydispatch": prepared,
        "pydispatch, out= given, not prepared": lambda: function(a, b, out=out),
        "pydispatch, new result": lambda: function(a, b),
        "pydispatch, new result, 2 workers": lambda: with_two_workers(a, b),
        "np.add of the same arrays": lambda: np.add(a, b),
        "iree local-sync": peer_sync.raw("mixed_invocation", a, b),
    }
    samples = measure(contenders, seconds)
    # Measured last: its threads spin after a call, and would take CPU time from other contenders.
    samples += measure({"iree local-task": peer_task.raw("mixed_invocation", a, b)}, seconds)
    return rows_of("a call", samples)


def section_workgroups(work: Path, seconds: float) -> Rows:
    """Workgroups that do nothing, a grid of 4096 x 4096."""
    vmfb = programs.peer_compile(programs.EMPTY, work / "empty.vmfb")
    artifact = pd.compile(programs.EMPTY, targets="cpu")
    x = np.zeros(4, np.float32)
    rows: Rows = []
    for workers, name in ((1, "local-sync"), (2, "local-task")):
        own = pd.device(f"cpu?workers={workers}").load(artifact).run.prepare(x)
        contenders = {"pydispatch": own, f"iree {name}": iree.Module(vmfb, name).raw("run", x)}
        samples = measure(contenders, seconds, pause=programs.PAUSE)
        rows += rows_of("a workgroup", samples, workers=workers, per=programs.EMPTY_WORKGROUPS)
    return rows


def section_load(work: Path, seconds: float) -> Rows:
    """From a file to the result of the first call, and everything released again."""
    import iree.runtime as rt

    obj = programs.compile_object(work)
    vmfb = programs.peer_compile(programs.example_text(obj), work / "load.vmfb")
    path = work / "load.pdx"
    pd.compile(programs.example_text(obj), targets="cpu").save(path)
    a, b = np.full(8, 2, np.float32), np.full(8, 4, np.float32)
    device = pd.device("cpu")
    config = rt.Config("local-sync")
    hal = rt.create_hal_module(config.vm_instance, config.device)
    arguments = rt.VmVariantList(2)
    device_arrays = [rt.asdevicearray(config.device, x) for x in (a, b)]
    for array in device_arrays:
        arguments.push_ref(array._buffer_view)

    def ours() -> None:
        """Load the artifact, call its function once, and release the program."""
        program = device.load(path)
        program.mixed_invocation(a, b)
        program.close()

    def peer() -> None:
        """Map the module and call its function once; both are released when this function returns."""
        module = rt.VmModule.mmap(config.vm_instance, str(vmfb))
        context = rt.VmContext(config.vm_instance, modules=[hal, module])
        context.invoke(module.lookup_function("mixed_invocation"), arguments, rt.VmVariantList(1))

    return rows_of("load, call, release", measure({"pydispatch": ours, "iree local-sync": peer}, seconds))


def section_compile(work: Path, seconds: float) -> Rows:
    """Compiling the example: one target, a linked object."""
    obj = programs.compile_object(work)
    text = programs.example_text(obj)
    source = work / "compile.mlir"
    source.write_text(text)
    flags = ["--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu"]

    def process(*command: object, **variables: str) -> Callable[[], object]:
        """Return a call that runs a command. variables: added to its environment."""
        words, environment = [str(c) for c in command], {**programs.with_bytecode(), **variables}
        return lambda: subprocess.run(words, check=True, capture_output=True, env=environment)

    ours = sys.executable, "-m", "pydispatch", "compile", source, "-o", work / "c.pdx"

    def uncached() -> None:
        """Compile in this process with a cache of size 0, that is without one."""
        os.environ["PYDISPATCH_CACHE_SIZE"] = "0"
        try:
            pd.compile(text, targets="cpu")
        finally:
            del os.environ["PYDISPATCH_CACHE_SIZE"]

    warm = {
        "pydispatch, in a warm process, nothing kept": uncached,
        "pydispatch, in a warm process, unchanged": lambda: pd.compile(text, targets="cpu"),
    }
    processes = {
        "pydispatch": process(*ours, PYDISPATCH_CACHE_SIZE="0"),
        "pydispatch, unchanged": process(*ours),
        "iree-compile": process(iree.compiler(), source, "-o", work / "c.vmfb", *flags),
    }
    return rows_of("compile", [*measure(processes, seconds), *measure(warm, seconds)])


# The work of the three dispatches as loops; the empty statements keep the compiler from fusing them.
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


def section_stream(work: Path, seconds: float) -> Rows:
    """16 M elements through three dispatches, new results."""
    n = 16 * 1024 * 1024
    obj = programs.compile_object(work)
    vmfb = programs.peer_compile(programs.example_text(obj), work / "stream.vmfb")
    artifact = pd.compile(programs.example_text(obj), targets="cpu")
    a = np.random.default_rng(1).random(n, np.float32)
    b = np.random.default_rng(2).random(n, np.float32)
    library = work / "chain.so"
    (work / "chain.c").write_text(STREAM_C)
    subprocess.run(["gcc", "-O3", "-march=native", "-shared", "-fPIC", work / "chain.c", "-o", library], check=True)
    chain = ctypes.CDLL(str(library)).chain
    t, out = np.empty(n, np.float32), np.empty(n, np.float32)
    pointers = [ctypes.c_void_p(x.ctypes.data) for x in (a, b, t, out)]
    sync, task = pd.device("local-sync").load(artifact), pd.device("local-task").load(artifact)
    # Without tile-fused chains: each dispatch runs over all elements before the next one begins.
    sync_plain, task_plain = (pd.device(f"{name}?chains=0").load(artifact) for name in ("local-sync", "local-task"))
    rows: Rows = []
    for workers, program, plain in ((1, sync, sync_plain), (2, task, task_plain)):
        name = "local-sync" if workers == 1 else "local-task"
        contenders: dict[str, Callable[[], Any]] = {
            "pydispatch": lambda f=program.mixed_invocation: f(a, b),
            "pydispatch, one dispatch after another": lambda f=plain.mixed_invocation: f(a, b),
            f"iree {name}": iree.Module(vmfb, name).raw("mixed_invocation", a, b),
        }
        if workers == 1:
            contenders["three C loops, warm buffers"] = lambda: chain(*pointers, ctypes.c_size_t(n))
        rows += rows_of("a call", measure(contenders, seconds, pause=programs.PAUSE), workers=workers)
    return rows


# Program of a process that prints how many KiB four calls add to its peak resident memory. {setup} defines call();
# writing 5 to clear_refs resets the peak, VmHWM, to the present size.
PEAK = """
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


def section_memory(work: Path, seconds: float) -> Rows:
    """What four calls with 16 M elements add to the peak memory of a fresh process."""
    obj = programs.compile_object(work)
    vmfb = programs.peer_compile(programs.example_text(obj), work / "memory.vmfb")
    path = work / "memory.pdx"
    pd.compile(programs.example_text(obj), targets="cpu").save(path)
    setups = {
        "pydispatch": f"import pydispatch as pd\nf = pd.device('local-task').load({str(path)!r}).mixed_invocation\n"
                     "call = lambda: f(a, b)",
        "iree local-task": "from pydispatch.bench.peers import iree\n"
                           f"call = iree.Module({str(vmfb)!r}, 'local-task').raw('mixed_invocation', a, b)",
    }  # fmt: skip
    rows: Rows = []
    for name, setup in setups.items():
        code = PEAK.format(setup=setup)
        out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        rows.append(Row("peak memory", name, int(out.split()[-1]) / 1024, "MiB", workers=2))  # printed in KiB
    return rows


def section_modes(work: Path, seconds: float) -> Rows:
    """Dispatch modes: workgroups of one multiply over 64 elements."""
    obj = programs.compile_object(work)
    n = 64 * 4096  # 4096 workgroups, by which times are divided
    a, b = np.ones(n, np.float32), np.ones(n, np.float32)
    device = pd.device("local-sync")
    bitcode = work / "functions.bc"
    from pydispatch.compiler.toolchain import tools

    bitcode.write_bytes(
        tools.find().compile_c(programs.EXAMPLE / "functions.c", arch="x86_64", cpu="generic", features=(), emit="bc")
    )
    body = programs.example_text()
    start, end = body.index("func.func @mixed_invocation"), body.rindex("}")
    # The example with another function, of a single dispatch, in place of its own.
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
        ("C source, inlined", programs.EXAMPLE / "functions.c"),
        ("bitcode, inlined", bitcode),
        ("object, linked", obj),
    ):
        text = (body[:start] + only_mul + body[end:]).replace("functions.c", str(path))
        contenders[name] = device.load(pd.compile(text, targets="cpu")).mul_only.prepare(a, b)
    imported = (body[:start] + only_mul + body[end:]).replace("hal.import.static, ", "")
    imported = imported.replace('#hal.executable.object<{path = "functions.c"}>', "")
    # Kernels without an object: their functions are imports that the device resolves.
    thunk = import_thunk(work)
    importing = pd.device("local-sync")
    importing.add_import("mul_workgroup", thunk)
    importing.add_import("scale_workgroup", thunk)  # never called, but loading resolves it
    contenders["import, through the thunk"] = importing.load(pd.compile(imported, targets="cpu")).mul_only.prepare(a, b)
    return rows_of("a workgroup", measure(contenders, seconds), per=4096)


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
"""C source of the function that the kernel imports. Its parameters are in one structure: each array as a pointer and an
offset in elements (ao of a), then the size of the arrays, and the first of the 64 elements of a workgroup."""


def import_thunk(work: Path) -> int:
    """Compile IMPORT_C and return the address of `mul`, which takes its parameters in one structure, as imports do."""
    (work / "import.c").write_text(IMPORT_C)
    subprocess.run(["gcc", "-O3", "-shared", "-fPIC", work / "import.c", "-o", work / "import.so"], check=True)
    address = ctypes.cast(ctypes.CDLL(str(work / "import.so")).mul, ctypes.c_void_p).value
    assert address is not None
    return address


# Functions of a folder for scratch files and of the seconds of each contender; their docstrings are titles of figures.
SECTIONS: dict[str, Callable[[Path, float], Rows]] = {
    "calls": section_call,
    "workgroups": section_workgroups,
    "load": section_load,
    "compile-example": section_compile,
    "stream": section_stream,
    "memory": section_memory,
    "modes": section_modes,
}


def main() -> None:
    """Measure a section, and print its figures, whose title is the docstring of its function."""
    arguments = parser(__doc__)
    arguments.add_argument("section", choices=SECTIONS)
    arguments.add_argument("--seconds", type=float, default=1.0, help="for each contender")
    options = arguments.parse_args()
    run = SECTIONS[options.section]
    method = "Medians; contenders alternate in one process. IREE has the same C functions as a linked object."
    with tempfile.TemporaryDirectory() as folder:
        figures = Figures((run.__doc__ or "").rstrip("."), method, run(Path(folder), options.seconds))
    print(table(figures.rows))
    if options.json:
        figures.save(options.json)


if __name__ == "__main__":
    main()
