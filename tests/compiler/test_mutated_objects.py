"""Users' objects with other bytes in them: compiled, or a CompileError that names what is wrong with which object.

All in one child process, which must live: LLVM's own process and the linker's may end.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = r"""
import collections, random, sys
sys.path[:0] = sys.argv[3:]
from kernels import HOST_FORMAT, elementwise, variant
from pydispatch.compiler.toolchain import tools
from pydispatch.compiler.kernel_ir.kernel import ObjectFile
from pydispatch.compiler.backends.cpu.backend import compile_variant
from pydispatch.errors import CompileError

kind, count = sys.argv[1], int(sys.argv[2])
kernel = elementwise("%y0 = func.call @user(%x0) : (f32) -> f32", ["f32"], ["f32"])
source = "func.func private @user(f32) -> f32 attributes {hal.import.static}\n" + kernel
text = b"static const float t[4] = {1, 2, 3, 4};\nfloat user(float x) { return x * t[(int)x & 3]; }\n"


def archive(data):
    head = b"%-16s%-12d%-6d%-6d%-8s%-10d`\n" % (b"user.o/", 0, 0, 0, b"644", len(data))
    return b"!<arch>\n" + head + data + b"\n" * (len(data) & 1)


def build(data):
    compile_variant(variant(source, constants=1, bindings=2, format=HOST_FORMAT, cpu="generic",
                            objects=[ObjectFile("user" + kind, data)]))


valid = tools.find().compile_c(text, arch="x86_64", emit="bc" if kind == ".bc" else "obj")
if kind == ".a":
    valid = archive(valid)
build(valid)
rng, seen = random.Random(17), collections.Counter()
for _ in range(count):
    data = bytearray(valid)
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        at, how = rng.randrange(len(data)), rng.randrange(4)
        if how == 0:
            data[at] ^= 1 << rng.randrange(8)
        elif how == 1:
            data[at] = rng.choice((0, 255, 127, 128))
        elif how == 2:
            del data[at : at + rng.randrange(1, 16)]
        else:
            data[at:at] = rng.randbytes(rng.randrange(1, 9))
    try:
        build(bytes(data))
        seen["compiled"] += 1
    except CompileError as error:
        said = str(error)
        # The name of the function that is called may be what has changed.
        assert "user" + kind in said or "undefined: " in said or "refers to 'user'" in said, said
        seen["refused"] += 1
print(*sorted(seen))
"""


@pytest.mark.parametrize(("kind", "count"), [(".o", 60), (".a", 40), (".bc", 12)])
def test_mutated_objects(kind: str, count: int) -> None:
    folders = [str(ROOT / "tests"), str(ROOT / "tests" / "emit")]
    words = [sys.executable, "-c", SCRIPT, kind, str(count), *folders]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "refused" in done.stdout.split()
