"""Runs mutants of a compiled program, as a process that test_hostile_programs.py starts and that a fault would end.

    python hostile_programs.py ARTIFACT FUNCTION SHAPES FIRST COUNT

Prints the number of each mutant before it is loaded, then how many were refused at load, refused when called, and ran.
Each argument ends where memory ends, so that a read or write behind it is a fault.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import random
import resource
import struct
import sys
from collections.abc import Iterator

import numpy as np

import pydispatch as pd
from pydispatch.formats.artifact.artifact import PROGRAM, Artifact

INTERESTING = (0, 1, 2, 3, 4, 7, 16, 63, 64, 255, 4096, 1 << 16, 1 << 31, (1 << 31) - 1, (1 << 32) - 1, (1 << 32) - 4)
_kept: list[mmap.mmap] = []


def guarded(array: np.ndarray) -> np.ndarray:
    """A copy whose last byte is the last one before a page that nobody may touch; it cannot be written itself."""
    page = mmap.PAGESIZE
    pages = -(-array.nbytes // page)
    memory = mmap.mmap(-1, (pages + 2) * page)
    _kept.append(memory)
    start = (pages + 1) * page - array.nbytes
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    copy = np.frombuffer(memory, array.dtype, array.size, start).reshape(array.shape)
    copy[...] = array
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    protect.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    for at, size, access in ((base, page, 0), (base + page, pages * page, 1), (base + (pages + 1) * page, page, 0)):
        assert protect(at, size, access) == 0
    return copy


def mutants(program: bytes, first: int, count: int) -> Iterator[bytes]:
    """Programs with one to three changed words behind the header; each follows from its number alone."""
    words = len(program) // 4
    for number in range(first, first + count):
        chance = random.Random(number)
        mutant = bytearray(program)
        for _ in range(chance.choice((1, 1, 1, 2, 3))):
            at = 4 * chance.randrange(32, words)
            (old,) = struct.unpack_from("<I", mutant, at)
            new = chance.choice((
                chance.choice(INTERESTING), old + 1, old - 1, 2 * old, old ^ 1 << chance.randrange(32),
                chance.getrandbits(32),
                struct.unpack_from("<I", program, 4 * chance.randrange(32, words))[0],
            ))  # fmt: skip
            struct.pack_into("<I", mutant, at, new & 0xFFFFFFFF)
        yield bytes(mutant)


def main(path: str, function: str, shapes: str, first: int, count: int) -> None:
    artifact = Artifact.from_file(path)
    members = {name: artifact.read(name) for name in artifact.members}
    device = pd.device("cpu?workers=1")
    arguments = [
        guarded(np.ones(shape, dtype)) if shape is not None else value
        for dtype, shape, value in json.loads(shapes)
    ]  # fmt: skip
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, resource.RLIM_INFINITY))
    outcomes = {"load": 0, "call": 0, "ran": 0}
    for number, program in enumerate(mutants(bytes(members[PROGRAM]), first, count), first):
        print(number, flush=True)
        edited = Artifact(artifact.manifest, {**members, PROGRAM: memoryview(program)})
        try:
            loaded = device.load(edited)
        except (pd.Error, UnicodeError):
            outcomes["load"] += 1
            continue
        try:
            loaded[function](*arguments)
            loaded[function](*arguments)
            outcomes["ran"] += 1
        except (pd.Error, TypeError, ValueError, OverflowError, MemoryError):
            outcomes["call"] += 1
        except KeyError:
            outcomes["load"] += 1
    print(json.dumps(outcomes))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
