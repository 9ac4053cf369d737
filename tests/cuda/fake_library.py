"""The fake driver as a shared library: `libcuda.so.1` under the real `cuda.bindings.driver`.

The real package then runs in between, with everything that it does to arguments and results. Its library has one
function of its own, which asks back here for every function of the driver by name.
"""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fake_driver import FakeDriver

SOURCE = r"""
#include <stddef.h>
typedef int (*resolver_t)(const char*, void**);
static resolver_t resolver;
void fake_set_resolver(resolver_t given) { resolver = given; }
int cuGetProcAddress_v2(const char* name, void** out, int version, unsigned long long flags, int* status) {
  int found = resolver && resolver(name, out);
  (void)version, (void)flags;
  if (!found) *out = NULL;
  if (status) *status = found ? 0 : 1;
  return found ? 0 : 500;
}
int cuGetProcAddress(const char* name, void** out, int version, unsigned long long flags) {
  return cuGetProcAddress_v2(name, out, version, flags, NULL);
}
"""

P, Z, U, N = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint, ctypes.c_int


class KernelParams(ctypes.Structure):
    _fields_ = [
        ("func", P), ("gridDimX", U), ("gridDimY", U), ("gridDimZ", U), ("blockDimX", U), ("blockDimY", U),
        ("blockDimZ", U), ("sharedMemBytes", U), ("kernelParams", P), ("extra", P), ("kern", P), ("ctx", P),
    ]  # fmt: skip


class MemsetParams(ctypes.Structure):
    _fields_ = [("dst", P), ("pitch", Z), ("value", U), ("elementSize", U), ("width", Z), ("height", Z)]


def _half(name: str) -> list[tuple[str, Any]]:
    return [
        (f"{name}XInBytes", Z), (f"{name}Y", Z), (f"{name}Z", Z), (f"{name}LOD", Z), (f"{name}MemoryType", N),
        (f"{name}Host", P), (f"{name}Device", P), (f"{name}Array", P), (f"{name}Reserved", P), (f"{name}Pitch", Z),
        (f"{name}Height", Z),
    ]  # fmt: skip


class CopyParams(ctypes.Structure):
    _fields_ = [*_half("src"), *_half("dst"), ("WidthInBytes", Z), ("Height", Z), ("Depth", Z)]


class Location(ctypes.Structure):
    _fields_ = [("type", N), ("id", N)]


class PoolProps(ctypes.Structure):
    _fields_ = [("allocType", N), ("handleTypes", N), ("location", Location), ("win32", P), ("maxSize", Z)]


OUT = {"^p": ctypes.c_uint64, "^z": Z, "^i": N, "^f": ctypes.c_float, "^s": P}
IN: dict[str, Any] = {"p": P, "z": Z, "I": U, "i": N, "b": ctypes.c_ubyte, "h": ctypes.c_ushort, "L": ctypes.c_uint64}
STRUCTURES: dict[str, Any] = {"&kernel": KernelParams, "&memset": MemsetParams, "&copy": CopyParams, "&pool": PoolProps}

SIGNATURES = {
    "cuInit": "I", "cuDriverGetVersion": "^i", "cuDeviceGetCount": "^i", "cuDeviceGet": "^i i",
    "cuDeviceGetName": "name i i", "cuDeviceTotalMem": "^z i", "cuDeviceGetAttribute": "^i i i",
    "cuDevicePrimaryCtxRetain": "^p i", "cuDevicePrimaryCtxRelease": "i", "cuCtxPushCurrent": "p",
    "cuCtxPopCurrent": "^p", "cuCtxGetCurrent": "^p", "cuGetErrorString": "i ^s", "cuStreamCreate": "^p I",
    "cuStreamDestroy": "p", "cuStreamSynchronize": "p",
    "cuStreamQuery": "p", "cuStreamWaitEvent": "p p I", "cuEventCreate": "^p I",
    "cuEventRecord": "p p", "cuEventQuery": "p", "cuEventElapsedTime": "^f p p", "cuEventDestroy": "p",
    "cuMemPoolCreate": "^p &pool", "cuMemPoolSetAttribute": "p i *", "cuMemPoolGetAttribute": "p i ^p",
    "cuMemPoolTrimTo": "p z", "cuMemPoolDestroy": "p", "cuMemAllocFromPoolAsync": "^p z p p", "cuMemFreeAsync": "p p",
    "cuMemcpyHtoDAsync": "p p z p", "cuMemcpyDtoHAsync": "p p z p", "cuMemcpyDtoDAsync": "p p z p",
    "cuMemsetD8Async": "p b z p", "cuMemsetD16Async": "p h z p", "cuMemsetD32Async": "p I z p",
    "cuMemsetD2D8Async": "p z b z z p", "cuMemsetD2D32Async": "p z I z z p", "cuPointerGetAttribute": "^i i p",
    "cuLinkCreate": "options ^p", "cuLinkAddData": "p i data s options", "cuLinkComplete": "p ^p ^z",
    "cuLinkDestroy": "p", "cuModuleLoadDataEx": "^p s options", "cuModuleUnload": "p",
    "cuModuleGetFunction": "^p p s", "cuModuleGetGlobal": "^p ^z p s", "cuFuncSetAttribute": "p i i",
    "cuFuncGetAttribute": "^i i p", "cuLaunchKernel": "p I I I I I I I p p p", "cuGraphCreate": "^p I",
    "cuGraphDestroy": "p", "cuGraphAddKernelNode": "^p p nodes &kernel", "cuGraphAddMemcpyNode": "^p p nodes &copy p",
    "cuGraphAddMemsetNode": "^p p nodes &memset p", "cuGraphAddEmptyNode": "^p p nodes",
    "cuGraphInstantiate": "^p p L", "cuGraphLaunch": "p p", "cuGraphExecKernelNodeSetParams": "p p &kernel",
    "cuGraphExecMemcpyNodeSetParams": "p p &copy p", "cuGraphExecMemsetNodeSetParams": "p p &memset p",
    "cuGraphExecDestroy": "p",
}  # fmt: skip
"""The C parameters of each function: ^ is where a result goes, & a structure; the rest is read by `_taken`."""

ALIASES = {"cuGraphInstantiateWithFlags": "cuGraphInstantiate"}
"""Names that the package asks for → its own."""
GROUPS = {"options": (U, P, P), "nodes": (P, Z), "data": (P, Z), "name": (P,), "s": (P,), "*": (P,)}


def types_of(text: str) -> list[Any]:
    """The C types of a signature."""
    found: list[Any] = []
    for token in text.split():
        found += GROUPS.get(token, (IN.get(token, P),))
    return found


def _options(count: int, options: int | None, values: int | None) -> list[Any]:
    """Options of the compiler: logs as memory that can be written."""
    kinds = [(N * count).from_address(options)[i] for i in range(count)] if count and options else []
    given = [(ctypes.c_size_t * count).from_address(values)[i] for i in range(count)] if count and values else []
    sizes = dict(zip(kinds, given, strict=True))
    made = [
        (ctypes.c_char * sizes[kind + 1]).from_address(value) if kind in (3, 5) else value
        for kind, value in zip(kinds, given, strict=True)
    ]
    return [count, kinds, made]


def _taken(text: str, values: list[Any]) -> tuple[list[Any], list[tuple[str, int]], int]:
    """(arguments as Python has them, where results go, where a name goes)."""
    given: list[Any] = []
    outs: list[tuple[str, int]] = []
    name = 0
    left = list(values)
    for token in text.split():
        mine = [left.pop(0) for _ in GROUPS.get(token, (P,))]
        if token.startswith("^"):
            outs.append((token, mine[0]))
        elif token == "options":
            given += _options(*mine)
        elif token == "nodes":
            count = mine[1]
            given += [list((P * count).from_address(mine[0])) if count else [], count]
        elif token == "data":
            given += [ctypes.string_at(mine[0], mine[1]), mine[1]]
        elif token == "s":
            given.append(ctypes.string_at(mine[0]))
        elif token == "*":
            given.append(ctypes.c_uint64.from_address(mine[0]).value)
        elif token == "name":
            name = mine[0]
        elif token in STRUCTURES:
            given.append(STRUCTURES[token].from_address(mine[0]))
        else:
            given.append(0 if mine[0] is None else mine[0])
    return given, outs, name


class FakeLibrary:
    """Loads itself as libcuda.so.1; the package finds it when it looks for the driver."""

    def __init__(self, driver: FakeDriver, folder: Path) -> None:
        self.driver, self.kept = driver, []  # type: FakeDriver, list[Any]
        source, made = folder / "fake_cuda.c", folder / "libcuda.so.1"
        source.write_text(SOURCE)
        command = ["cc", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", str(source), "-o", str(made)]
        subprocess.run(command, check=True)
        self.library = ctypes.CDLL(str(made), ctypes.RTLD_GLOBAL)
        self.functions = {name: self._function(name, text) for name, text in SIGNATURES.items()}
        resolver = ctypes.CFUNCTYPE(N, ctypes.c_char_p, ctypes.POINTER(P))(self._resolve)
        self.kept.append(resolver)
        self.library.fake_set_resolver(resolver)

    def _resolve(self, name: bytes, out: Any) -> int:
        wanted = name.decode()
        found = self.functions.get(ALIASES.get(wanted, wanted))
        if found is None:
            return 0
        out[0] = ctypes.cast(found, P).value
        return 1

    def _function(self, name: str, text: str) -> Callable[..., int]:
        work = getattr(self.driver, name)

        def function(*values: Any) -> int:
            given, outs, place = _taken(text, list(values))
            status, *results = work(*given)
            if status:
                return int(status)
            if place:
                ctypes.memmove(place, results[0], given[0])
            for (kind, where), value in zip(outs, results, strict=False):
                if kind == "^s":
                    value = ctypes.addressof(self._text(value))
                OUT[kind].from_address(where).value = value if kind == "^f" else int(value)
            return 0

        made = ctypes.CFUNCTYPE(N, *types_of(text))(function)
        self.kept.append(made)
        return made

    def _text(self, value: bytes) -> Any:
        made = ctypes.create_string_buffer(value)
        self.kept.append(made)
        return made
