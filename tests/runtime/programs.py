"""Small artifacts made without the compiler: kernels in C, host programs through the encoder."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydispatch.compiler.toolchain import tools as toolchain
from pydispatch.formats.artifact.artifact import Artifact, PackedExecutable, Variant
from pydispatch.formats.program.program import (
    NONE,
    BindingRange,
    ExportEntry,
    FunctionArgument,
    Numerical,
    Opcode,
    Program,
    ProgramExecutable,
    ProgramFunction,
    Result,
    dtype_word,
)

ROOT = Path(__file__).resolve().parents[2]
F32 = dtype_word(Numerical.FLOAT, 32)
F64 = dtype_word(Numerical.FLOAT, 64)
I32 = dtype_word(Numerical.INTEGER, 32)
I64 = dtype_word(Numerical.INTEGER, 64)
TILE = 64


@dataclass(frozen=True)
class Export:
    """A kernel. body: C over `n` (constants), `in(T, i)` and `out(T, i)` bindings, `x` (workgroup)."""

    name: str
    body: str
    bindings: int
    constants: int = 1
    pages: int = 0


HEAD = """
#include "pydispatch/library.h"
#define buffer(T, i) ((T*)dispatch->binding_ptrs[i])
#define constant(i) (dispatch->constants[i])
#define X (workgroup->workgroup_id_x)
"""

TAIL = """
static const pyd_library_header_t header = {6, "test", 0, 0};
static const pyd_library_t library = {
  .header = &header,
  .exports = {.count = sizeof(names) / sizeof(names[0]), .ptrs = functions, .attrs = attrs, .names = names}};
static const pyd_library_header_t* const* pointer = (const pyd_library_header_t* const*)&library;
__attribute__((visibility("default"))) const pyd_library_header_t* const* iree_hal_executable_library_query(
    uint32_t version, const pyd_environment_t* environment) {
  return version == 6 ? pointer : 0;
}
"""


@functools.cache
def elf(exports: tuple[Export, ...], arch: str = "x86_64", extra: str = "") -> bytes:
    """An embedded ELF with these exports."""
    text = HEAD + extra
    for e in exports:
        text += (
            f"static int32_t {e.name}(const pyd_environment_t* environment, const pyd_dispatch_state_t* dispatch,\n"
            f"                        const pyd_workgroup_state_t* workgroup) {{ {e.body} }}\n"
        )
    text += f"static const pyd_dispatch_fn_t functions[] = {{{', '.join(e.name for e in exports)}}};\n"
    names = ", ".join(f'"{e.name}"' for e in exports)
    text += f"static const char* const names[] = {{{names}}};\n"
    attrs = ", ".join(
        f"{{.constant_count = {e.constants}, .binding_count = {e.bindings}, .local_memory_pages = {e.pages}}}"
        for e in exports
    )
    text += f"static const pyd_library_export_attrs_t attrs[] = {{{attrs}}};\n" + TAIL
    tools = toolchain.find()
    made = tools.compile_c(text.encode(), arch=arch, include_dirs=[ROOT / "csrc/include"], opt="-O2")
    return tools.link_shared([made], arch=arch, exports=["iree_hal_executable_library_query"])


def loop(statement: str) -> str:
    """A body that runs `statement` for each element i of the tile."""
    return (
        f"uint32_t n = constant(0), end = (X + 1) * {TILE}; if (end > n) end = n;"
        f"for (uint32_t i = X * {TILE}; i < end; ++i) {{ {statement} }} return 0;"
    )


MUL = Export("mul", loop("buffer(float, 2)[i] = buffer(float, 0)[i] * buffer(float, 1)[i];"), 3)
ADD = Export("add", loop("buffer(float, 2)[i] = buffer(float, 0)[i] + buffer(float, 1)[i];"), 3)
WAIT = "for (volatile uint64_t k = 0; k < 100000000ull; ++k) {}"
SLOW = Export("slow", WAIT + "buffer(float, 1)[0] = buffer(float, 0)[0]; return 0;", 2)
FAIL = Export("fail", "return X == 2 ? 77 : 0;", 1)
STANDARD = (MUL, ADD, SLOW, FAIL)


class Builder:
    """A program with one executable "lib"; its exports are referred to by name."""

    def __init__(self, exports: Sequence[Export] = STANDARD, variants: int = 1) -> None:
        self.program = Program()
        self.exports = tuple(exports)
        self.names = [e.name for e in exports]
        self.program.executables.append(ProgramExecutable("lib", variant_conditions=[NONE] * variants))
        for ordinal, e in enumerate(exports):
            self.program.exports.append(ExportEntry(0, ordinal, e.name, e.constants, e.bindings))

    def function(self, name: str, signature: str = "()") -> ProgramFunction:
        return self.program.add_function(name, signature)

    def run(self, f: ProgramFunction, export: str, n: int, bindings: Sequence[int], grid: int | None = None) -> None:
        """Dispatches `export` over ceil(n / TILE) workgroups with the constant n (a register)."""
        if grid is None:
            grid = f.binary(Opcode.CEILDIVU, n, f.constant(TILE))
        one = f.constant(1)
        f.dispatch(
            f.constant(self.names.index(export)), [grid, one, one], [n], [BindingRange(b) for b in bindings]
        )  # fmt: skip

    def artifact(
        self, requires: Sequence[Sequence[str]] = ((),), alignment: int = 4, format: str = "embedded-elf-x86_64"
    ) -> Artifact:
        data = elf(self.exports)
        variants = [
            Variant(f"v{i}", format, data, requires=list(need), alignment=alignment) for i, need in enumerate(requires)
        ]
        functions = [(f.name, f.signature or "()") for f in self.program.functions if f.public]
        return Artifact.build(functions, self.program.encode(), [PackedExecutable("lib", self.names, variants)])


def add_vector(f: ProgramFunction, name: str, dim: int = -1, dtype: int = F32) -> int:
    """A rank-1 argument; returns its index."""
    return f.add_argument(FunctionArgument(dtype, (dim,), name))


def finish_vector(f: ProgramFunction, n: int, dtype: int = F32) -> int:
    """A rank-1 result of n elements (a register); returns its buffer."""
    size = f.multiply([n, f.constant((dtype & 0xFFFFFF) // 8)])
    buffer = f.add_result_buffer(len(f.results), size)
    f.results.append(Result(dtype, (n,), buffer=buffer))
    return buffer


def binary(builder: Builder, name: str, export: str, dim: int = -1) -> ProgramFunction:
    """(tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>"""
    f = builder.function(name, "(tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>")
    a, b = add_vector(f, "a", dim), add_vector(f, "b", dim)
    n = f.emit(Opcode.DIM, a, 0)
    f.check_equal(n, f.emit(Opcode.DIM, b, 0), "sizes of 'a' and 'b' differ: {a} and {b}")
    out = finish_vector(f, n)
    builder.run(f, export, n, [f.arguments[a].buffer, f.arguments[b].buffer, out])
    return f


def chain(builder: Builder, name: str = "chain") -> ProgramFunction:
    """(a * b) * b + a in three dispatches."""
    f = builder.function(name, "(tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>")
    a, b = add_vector(f, "a"), add_vector(f, "b")
    n = f.emit(Opcode.DIM, a, 0)
    f.check_equal(n, f.emit(Opcode.DIM, b, 0), "sizes of 'a' and 'b' differ: {a} and {b}")
    size = f.multiply([n, f.constant(4)])
    first, second = f.add_transient(size), f.add_transient(size)
    buffers = [f.arguments[a].buffer, f.arguments[b].buffer]
    builder.run(f, "mul", n, [*buffers, first])
    f.next_region()
    builder.run(f, "mul", n, [first, buffers[1], second])
    f.next_region()
    out = finish_vector(f, n)
    builder.run(f, "add", n, [second, buffers[0], out])
    return f


def standard(alignment: int = 4) -> Artifact:
    """mul, add, chain, fixed (8xf32), slow, fail."""
    builder = Builder()
    binary(builder, "mul", "mul")
    binary(builder, "add", "add")
    chain(builder)
    binary(builder, "fixed", "mul", 8)
    both(builder, "both")
    filled(builder, "filled")
    nothing(builder, "nothing")
    f = builder.function("slow", "(tensor<?xf32>) -> tensor<?xf32>")
    a = add_vector(f, "a")
    n = f.emit(Opcode.DIM, a, 0)
    out = finish_vector(f, n)
    builder.run(f, "slow", n, [f.arguments[a].buffer, out], f.constant(1))
    f = builder.function("fail", "(tensor<?xf32>) -> tensor<?xf32>")
    add_vector(f, "a")
    n = f.emit(Opcode.DIM, 0, 0)
    out = finish_vector(f, n)
    builder.run(f, "fail", n, [out], f.constant(4))
    return builder.artifact(alignment=alignment)


def identity(builder: Builder, name: str, dtype: int, rank: int = 1) -> ProgramFunction:
    """One tensor that comes back as it is."""
    f = builder.function(name)
    f.add_argument(FunctionArgument(dtype, (-1,) * rank, "x"))
    dims = tuple(f.emit(Opcode.DIM, 0, axis) for axis in range(rank))
    size = f.multiply([*dims, f.constant(max(1, (dtype & 0xFFFFFF) // 8))])
    f.results.append(Result(dtype, dims, buffer=f.add_result_buffer(0, size)))
    f.copy(f.arguments[0].buffer, NONE, 1, NONE, size)
    return f


def scalars(builder: Builder, name: str, dtypes: Sequence[int]) -> ProgramFunction:
    """Numbers that come back as they are."""
    f = builder.function(name)
    for i, dtype in enumerate(dtypes):
        f.add_argument(FunctionArgument(dtype, None, f"s{i}"))
        f.results.append(Result(dtype, None, register=f.emit(Opcode.SCALAR, i)))
    return f


def filled(builder: Builder, name: str) -> ProgramFunction:
    """(n: index, value: f32) -> (tensor<?xf32> full of value, n + 1): n decides a size, value does not."""
    f = builder.function(name)
    f.add_argument(FunctionArgument(I64, None, "n"))
    f.add_argument(FunctionArgument(F32, None, "value"))
    n = f.emit(Opcode.SCALAR, 0)
    out = finish_vector(f, n)
    f.fill(BindingRange(out), f.emit(Opcode.SCALAR, 1), 4)
    f.results.append(Result(I64, None, register=f.binary(Opcode.ADD, n, f.constant(1))))
    return f


def both(builder: Builder, name: str) -> ProgramFunction:
    """(a, b) -> (a * b, a + b)"""
    f = builder.function(name)
    add_vector(f, "a")
    add_vector(f, "b")
    n = f.emit(Opcode.DIM, 0, 0)
    f.check_equal(n, f.emit(Opcode.DIM, 1, 0), "sizes of 'a' and 'b' differ: {a} and {b}")
    inputs = [a.buffer for a in f.arguments]
    for export in ("mul", "add"):
        builder.run(f, export, n, [*inputs, finish_vector(f, n)])
    return f


def nothing(builder: Builder, name: str) -> ProgramFunction:
    """() -> ()"""
    return builder.function(name)
