"""A program whose kernels call out: `ask` asks an imported function for each workgroup, `signal` sends its own process
SIGINT at workgroup 3 and sleeps for a millisecond in each later one.

The functions (n) -> n floats: a 1 for each workgroup that ran. The procedures of the same names with `_state` after
them also add n to the global that `total` returns.
"""

from __future__ import annotations

import programs
from programs import F32, HEAD, I64, ROOT, TAIL

from pydispatch.compiler.toolchain import tools as toolchain
from pydispatch.formats.artifact.artifact import Artifact, PackedExecutable, Variant
from pydispatch.formats.program.program import FunctionArgument, Opcode, Result

SIGNAL_AT = 3
CODE = r"""
static long ask_system(long number, long a, long b) {
  long result;
  __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b) : "rcx", "r11", "memory");
  return result;
}
static int32_t ask(const pyd_environment_t* environment, const pyd_dispatch_state_t* dispatch,
                   const pyd_workgroup_state_t* workgroup) {
  uint32_t x = X;
  buffer(float, 0)[X] = 1;
  return environment->import_thunk(environment->import_funcs[0], &x, environment->import_contexts[0], 0);
}
static int32_t signal(const pyd_environment_t* environment, const pyd_dispatch_state_t* dispatch,
                      const pyd_workgroup_state_t* workgroup) {
  long pause[2] = {0, 1000000};
  if (X == 3) ask_system(62, ask_system(39, 0, 0), 2);  // kill(getpid(), SIGINT)
  if (X > 3) ask_system(35, (long)pause, 0);            // nanosleep
  buffer(float, 0)[X] = 1;
  return 0;
}
static const pyd_dispatch_fn_t functions[] = {ask, signal};
static const char* const names[] = {"ask", "signal"};
static const char* const imported[] = {"hook"};
static const pyd_library_export_attrs_t attrs[] = {
  {.constant_count = 1, .binding_count = 1}, {.constant_count = 1, .binding_count = 1}};
"""


def build() -> Artifact:
    exports = (programs.Export("ask", "", 1), programs.Export("signal", "", 1))
    builder = programs.Builder(exports)
    m = builder.program
    functions = []
    for export in builder.names:
        f = builder.function(export, "(i64) -> tensor<?xf32>")
        f.add_argument(FunctionArgument(I64, None, "n"))
        n = f.emit(Opcode.SCALAR, 0)
        builder.run(f, export, n, [programs.finish_vector(f, n)], grid=n)
        functions.append(f)
    add = m.add_function("add", public=False)
    for name in "ab":
        add.add_argument(FunctionArgument(I64, None, name))
    total = add.binary(Opcode.ADD, add.emit(Opcode.SCALAR, 0), add.emit(Opcode.SCALAR, 1))
    add.results.append(Result(I64, None, register=total))
    count = m.add_global("count", I64, None, value=0)
    for function in functions:
        p = m.add_procedure(f"{function.name}_state", "(i64) -> tensor<?xf32>")
        n = p.add_argument(I64, None, "n")
        p.add_result(F32, (-1,))
        sum_, ran = p.slot(I64, None), p.slot(F32, 1)
        p.load(sum_, count)
        p.run(add, [sum_, n], [sum_])
        p.store(count, sum_)
        p.run(function, [n], [ran])
        p.ret([ran])
    p = m.add_procedure("total", "() -> i64")
    value = p.slot(I64, None)
    p.add_result(I64, None)
    p.load(value, count)
    p.ret([value])
    tail = TAIL.replace(".exports =", ".imports = {.count = 1, .symbols = imported},\n  .exports =")
    tools = toolchain.find()
    made = tools.compile_c(
        (HEAD + CODE + tail).encode(), arch="x86_64", include_dirs=[ROOT / "csrc/include"], opt="-O2"
    )
    data = tools.link_shared([made], arch="x86_64", exports=["iree_hal_executable_library_query"])
    public = [(f.name, f.signature or "()") for f in [*m.procedures, *m.functions] if f.public]
    variant = Variant("v0", "embedded-elf-x86_64", data, alignment=4, imports=["hook"])
    return Artifact.build(public, m.encode(), [PackedExecutable("lib", builder.names, [variant])])
