# ruff: noqa: E501  (tables and lines of MLIR)
"""Compiles kernel IR for this machine and runs it: the ELF is opened with plain dlopen, the structures are ctypes."""

from __future__ import annotations

import ctypes
import os
import platform
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from pydispatch.compiler.backends.cpu.backend import compile_variant
from pydispatch.compiler.kernel_ir.kernel import Binary, Binding, Export, Layout, ObjectFile, Target, Variant
from pydispatch.ir import parse

FORMAT = {"x86_64": "embedded-elf-x86_64", "aarch64": "embedded-elf-arm_64", "riscv64": "embedded-elf-riscv_64"}
HOST_FORMAT = FORMAT[platform.machine()]
PTR, U8, U16, U32, U64 = ctypes.c_void_p, ctypes.c_uint8, ctypes.c_uint16, ctypes.c_uint32, ctypes.c_uint64
IMPORT = ctypes.CFUNCTYPE(ctypes.c_int32, PTR, PTR, PTR)
THUNK = ctypes.CFUNCTYPE(ctypes.c_int32, IMPORT, PTR, PTR, PTR)
PARALLEL = '"scf.parallel"({0}) <{{operandSegmentSizes = array<i32: {1}, {1}, {1}, 0>}}> ({{\n^bb0({2}):'
END_PARALLEL = '"scf.reduce"() : () -> ()\n}}) : ({0}) -> ()'


class Environment(ctypes.Structure):
    _fields_ = [("constants", PTR), ("thunk", THUNK), ("functions", PTR), ("contexts", PTR), ("processor", U64 * 8)]


class State(ctypes.Structure):
    _fields_ = [
        ("size_x", U32), ("size_y", U32), ("size_z", U16), ("constant_count", U16), ("count_x", U32), ("count_y", U32),
        ("count_z", U16), ("concurrency", U8), ("binding_count", U8), ("constants", PTR), ("bindings", PTR),
        ("lengths", PTR),
    ]  # fmt: skip


class Workgroup(ctypes.Structure):
    _fields_ = [
        ("x", U32), ("y", U32), ("z", U16), ("reserved", U16), ("processor", U32), ("memory", PTR), ("memory_size", U32),
    ]  # fmt: skip


class Header(ctypes.Structure):
    _fields_ = [("version", U32), ("name", ctypes.c_char_p), ("features", U32), ("sanitizer", U32)]


class Attrs(ctypes.Structure):
    _fields_ = [
        ("flags", U64), ("pages", U16), ("constants", U8), ("bindings", U8), ("x", U32), ("y", U32), ("z", U16),
        ("parameters", U16), ("reserved", U64 * 5),
    ]  # fmt: skip


class Library(ctypes.Structure):
    _fields_ = [
        ("header", ctypes.POINTER(Header)), ("import_count", U32), ("imports", ctypes.POINTER(ctypes.c_char_p)),
        ("count", U32), ("functions", ctypes.POINTER(PTR)), ("attrs", ctypes.POINTER(Attrs)), ("params", PTR),
        ("occupancy", PTR), ("names", ctypes.POINTER(ctypes.c_char_p)), ("tags", PTR), ("parameter_names", PTR),
        ("locations", PTR), ("stages", PTR), ("constants", U32), ("source_count", U32), ("sources", PTR),
    ]  # fmt: skip


DISPATCH = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.POINTER(Environment), ctypes.POINTER(State), ctypes.POINTER(Workgroup)
)


def aligned(structure: type[ctypes.Structure]) -> ctypes.Structure:
    """A zeroed structure at an address that is a multiple of 64."""
    room = ctypes.create_string_buffer(ctypes.sizeof(structure) + 64)
    made = structure.from_buffer(room, -ctypes.addressof(room) % 64)
    made.room = room
    return made


def variant(
    source: str,
    *,
    constants: int = 0,
    bindings: int = 0,
    exports: Sequence[str] = ("kernel",),
    cpu: str = "native",
    features: tuple[str, ...] = (),
    format: str = HOST_FORMAT,
    objects: Sequence[ObjectFile] = (),
    keys: tuple[str, ...] = (),
) -> Variant:
    layout = Layout(constants, tuple(Binding() for _ in range(bindings)))
    made = tuple(Export(name, number, layout) for number, name in enumerate(exports))
    target = Target("llvm-cpu", format, cpu, features)
    return Variant("executable", "variant", target, made, parse(source, "kernel.mlir"), tuple(objects), keys)


class Loaded:
    """An executable in this process."""

    def __init__(self, binary: Binary, imports: dict[str, Callable[..., int]] | None = None) -> None:
        self.binary = binary
        handle, path = tempfile.mkstemp(suffix=".so")
        with os.fdopen(handle, "wb") as file:
            file.write(binary.data)
        self.library = ctypes.CDLL(path)
        Path(path).unlink()
        self.environment = aligned(Environment)
        self.query(6, imports or {})

    def query(self, version: int, imports: dict[str, Callable[..., int]]) -> None:
        function = self.library.iree_hal_executable_library_query
        function.restype = ctypes.POINTER(Library)
        function.argtypes = [U32, PTR]
        self.table = function(version, ctypes.addressof(self.environment)).contents
        names = [self.table.imports[i].decode().removeprefix("?") for i in range(self.table.import_count)]
        self.imported = [IMPORT(imports[n]) if n in imports else IMPORT() for n in names]
        self.functions = (IMPORT * max(1, len(names)))(*self.imported)
        self.contexts = (PTR * max(1, len(names)))(*[1000 + i for i in range(len(names))])
        self.environment.functions = ctypes.addressof(self.functions)
        self.environment.contexts = ctypes.addressof(self.contexts)
        self.environment.thunk = THUNK(lambda f, params, context, reserved: f(params, context, reserved))

    def run(
        self,
        *bindings: np.ndarray,
        constants: Sequence[int] = (),
        grid: tuple[int, int, int] = (1, 1, 1),
        export: int = 0,
        executable_constants: Sequence[int] = (),
    ) -> int:
        """Runs every workgroup in order; returns the first status that is not 0."""
        state, group = aligned(State), aligned(Workgroup)
        words = (U32 * max(1, len(constants)))(*[c & 0xFFFFFFFF for c in constants])
        pointers = (PTR * max(1, len(bindings)))(*[b.ctypes.data for b in bindings])
        own = (U32 * max(1, len(executable_constants)))(*executable_constants)
        self.environment.constants = ctypes.addressof(own)
        state.constants, state.bindings = ctypes.addressof(words), ctypes.addressof(pointers)
        state.count_x, state.count_y, state.count_z = grid
        state.size_x, state.size_y, state.size_z = 5, 6, 7
        pages = self.table.attrs[export].pages
        memory = np.full(max(1, pages * 4096) + 64, 0xA5, np.uint8)
        if pages:
            group.memory, group.memory_size = memory.ctypes.data + (-memory.ctypes.data % 64), pages * 4096
        group.processor = 11
        call = DISPATCH(self.table.functions[export])
        for z in range(grid[2]):
            for y in range(grid[1]):
                for x in range(grid[0]):
                    group.x, group.y, group.z = x, y, z
                    status = call(ctypes.byref(self.environment), ctypes.byref(state), ctypes.byref(group))
                    if status:
                        return int(status)
        return 0


def load(source: str, imports: dict[str, Callable[..., int]] | None = None, **options: object) -> Loaded:
    """Compiles and loads in one go."""
    return Loaded(compile_variant(variant(source, **options)), imports)  # type: ignore[arg-type]


def buffer(array: np.ndarray) -> np.ndarray:
    """A copy at a multiple of 64 bytes."""
    room = np.zeros(array.nbytes + 64, np.uint8)
    start = -room.ctypes.data % 64
    made = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    made[...] = array
    return made


def parallel(bounds: Sequence[tuple[str, str, str]], points: Sequence[str], body: str) -> str:
    """Text of an scf.parallel over (lower, upper, step) ranges."""
    operands = ", ".join([*(b[0] for b in bounds), *(b[1] for b in bounds), *(b[2] for b in bounds)])
    arguments = ", ".join(f"{point}: index" for point in points)
    types = ", ".join(["index"] * (3 * len(bounds)))
    head = PARALLEL.format(operands, len(bounds), arguments)
    return f"{head}\n{body}\n{END_PARALLEL.format(types)}"


def elementwise(body: str, inputs: Sequence[str], outputs: Sequence[str], constants: int = 1) -> str:
    """A kernel that maps `body` over buffers: %x0, %x1, ... in, %y0, ... out."""
    lines = ["func.func @kernel() {", "%n = hal.interface.constant.load[0] : i32", "%dim = arith.index_cast %n : i32 to index",
             "%c0 = arith.constant 0 : index", "%c1 = arith.constant 1 : index"]  # fmt: skip
    types = [*inputs, *outputs]
    for number, type_ in enumerate(types):
        lines.append(f"%b{number} = hal.interface.binding.subspan binding({number}) : memref<?x{type_}>{{%dim}}")
    inner = [f"%x{i} = memref.load %b{i}[%i] : memref<?x{t}>" for i, t in enumerate(inputs)] + [body]
    inner += [f"memref.store %y{i}, %b{len(inputs) + i}[%i] : memref<?x{t}>" for i, t in enumerate(outputs)]
    lines.append(parallel([("%c0", "%dim", "%c1")], ["%i"], "\n".join(inner)))
    return "\n".join([*lines, "func.return", "}"])
