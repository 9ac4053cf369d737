"""The readers of pydispatch's own files, of binaries and of texts.

Imports are inside of functions, so that atheris can instrument them.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import struct
import sys
import tempfile
from pathlib import Path

from untrusted.mutations import MAX_BYTES, TEXT
from untrusted.reader import ROOT, Reader, error, text_of

sys.path.append(str(ROOT / "tests"))
import check_files


def read_ptx(data: bytes) -> None:
    from pydispatch.formats.ptx import interface, read
    from pydispatch.link.ptx import library as ptx_library

    module = read.read(data, "x")
    interface.target_problem(module)
    ptx_library.read_parts(module, "x")


def link_ptx(data: bytes) -> None:
    from pydispatch.link.ptx import library as ptx_library
    from pydispatch.link.ptx import link

    kernel, _, library = data.partition(b"\n//----\n")
    libraries = [ptx_library.open_library(library, "lib")] if library else []
    link.imports_of(kernel)
    link.link(kernel, libraries, optional=("absent",))


def read_spirv(data: bytes) -> None:
    from pydispatch.formats.spirv import module as spirv
    from pydispatch.formats.spirv import reflect

    spirv.describe(spirv.read(data, "x"))
    reflect.reflect(data, "x")


def link_spirv(data: bytes) -> None:
    from pydispatch.link.spirv import library as spirv_library
    from pydispatch.link.spirv import link as spirv_link

    size = int.from_bytes(data[:2], "little") * 4
    kernel, library = data[2 : 2 + size], data[2 + size :]
    libraries = [spirv_library.open_library(library, "lib")] if library else []
    spirv_link.link(kernel, libraries, what="x")


def read_manifest(data: bytes) -> None:
    from pydispatch.formats.artifact.manifest import Manifest

    manifest = Manifest.from_bytes(data)
    again = Manifest.from_bytes(manifest.to_bytes())
    assert again.to_bytes() == manifest.to_bytes(), "what is written is not what was read"
    manifest.member_names()


def read_artifact(data: bytes) -> None:
    from pydispatch.formats.artifact.artifact import Artifact

    artifact = Artifact.from_bytes(data)
    artifact.verify()
    for member in artifact.members:
        artifact.read(member)
    _ = artifact.functions, artifact.executables, artifact.parameters, artifact.warnings, repr(artifact)


def read_program(data: bytes) -> None:
    from pydispatch.formats.program import program

    program.disassemble(data)


def read_elf(data: bytes) -> None:
    from pydispatch.formats.elf import cubin, elf, fatelf, library

    library.read_tables(data)
    for call in (cubin.functions, elf.read, fatelf.read, fatelf.dump):
        with contextlib.suppress(error()):
            call(data)


def read_parameters(data: bytes) -> None:
    from pydispatch.formats.arrays.parameters import ParameterFile

    suffix = (".npy", ".npz", ".safetensors")[data[0] % 3] if data else ".npy"
    with tempfile.NamedTemporaryFile(suffix=suffix, dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as file:
        file.write(data[1:])
        file.flush()
        for tensor in ParameterFile(file.name).values():
            str(tensor)
            assert len(tensor.data) * 8 >= tensor.bits * _product(tensor.shape)


def _product(shape: tuple[int, ...]) -> int:
    total = 1
    for size in shape:
        total *= size
    return total


def read_mlir(data: bytes) -> None:
    from pydispatch import ir

    ir.parse(text_of(data))


def read_values(data: bytes) -> None:
    from pydispatch.cli.values import Reader as Values
    from pydispatch.cli.values import parse_type

    for text in text_of(data).splitlines()[:8]:
        if text.lstrip('" ')[:1] in ("@", "+", "*") or "=@" in text or "=+" in text:
            continue  # files
        with contextlib.suppress(ValueError, error()):
            size = parse_type(text.partition("=")[0].strip()).shape
            if _product(size) > 1 << 20:
                continue  # asked for, so given
        with contextlib.suppress(error()):
            Values().read_all([text], [None])


# ---- their seeds


def ptx_files(limit: int) -> list[bytes]:
    files = sorted((ROOT / "tests" / "cuda" / "data").glob("*.ptx"), key=lambda p: p.stat().st_size)
    return [p.read_bytes() for p in files if p.stat().st_size <= limit] + compiled("cuda")


SAMPLE = """
func.func @f(%a: tensor<?x4xf32>, %b: tensor<?x4xf32>) -> (tensor<?x4xf32>, tensor<?xf32>) {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %n = tensor.dim %a, %c0 : tensor<?x4xf32>
  %empty = tensor.empty(%n) : tensor<?x4xf32>
  %sum = linalg.add ins(%a, %b : tensor<?x4xf32>, tensor<?x4xf32>) outs(%empty : tensor<?x4xf32>) -> tensor<?x4xf32>
  %row = tensor.empty(%n) : tensor<?xf32>
  %start = linalg.fill ins(%zero : f32) outs(%row : tensor<?xf32>) -> tensor<?xf32>
  %total = linalg.reduce ins(%sum : tensor<?x4xf32>) outs(%start : tensor<?xf32>) dimensions = [1]
    (%x: f32, %y: f32) {
      %z = arith.addf %x, %y : f32
      linalg.yield %z : f32
    }
  return %sum, %total : tensor<?x4xf32>, tensor<?xf32>
}
"""


def compiled(target: str) -> list[bytes]:
    """The executables of a small program for a target."""
    import pydispatch as pd

    artifact = pd.compile(SAMPLE, targets=target)
    return [bytes(artifact.read(v.member)) for e in artifact.executables for v in e.variants]


def whole_artifacts() -> list[bytes]:
    import pydispatch as pd

    return [pd.compile(SAMPLE, targets="cuda").to_bytes()]


def members(name: str) -> list[bytes]:
    from pydispatch.formats.artifact.artifact import Artifact

    return [bytes(Artifact.from_bytes(data).read(name)) for data in whole_artifacts()]


def spirv_pairs() -> list[bytes]:
    found = compiled("vulkan")
    return [struct.pack("<H", len(a) // 4) + a + b for a in found[:2] for b in (b"", found[0])]


def ptx_pairs() -> list[bytes]:
    files = ptx_files(40_000)
    return [a + b"\n//----\n" + b for a in files[:4] for b in files[:4]]


def parameter_files() -> list[bytes]:
    import numpy as np

    found = []
    for number, save in ((0, np.save), (1, np.savez)):
        stream = io.BytesIO()
        save(stream, np.arange(12, dtype=np.float32).reshape(3, 4))
        found.append(bytes([number]) + stream.getvalue())
    head = json.dumps(
        {"w": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}, "__metadata__": {"a": "b"}}
    ).encode()
    return [*found, b"\2" + struct.pack("<Q", len(head)) + head + bytes(16)]


def mlir_texts() -> list[bytes]:
    found: list[bytes] = []
    for path in [*check_files.files(), *sorted((ROOT / "examples").rglob("*.mlir"))]:
        functions = re.findall(r"^(?:func\.func|util\.func) .*?^}\n", path.read_text(), re.S | re.M)
        found += [f.encode() for f in functions[:6]] or [path.read_bytes()[:MAX_BYTES]]
    return [f for f in found if len(f) < 6000]


def elf_files() -> list[bytes]:
    folders = (ROOT / "tests" / "fuzz" / "corpus" / name for name in ("elf", "fatelf"))
    return [p.read_bytes() for folder in folders for p in sorted(folder.iterdir())]


def value_texts() -> list[bytes]:
    return [b"4x2xf32=1 2 3 4\n2xi32=[1, -2]", b"3xx8=0a0B0c", b"2x3xbf16=1.5e3", b"i1=1", b"4xf8E4M3FN=1 2 3 4",
            b"1xcf64=1,2", b"2xi4=7 -8", b"(null)\n(ignored)", b"&2xui64=18446744073709551615 0x10"]  # fmt: skip


FORMATS: dict[str, Reader] = {
    "artifact": Reader(read_artifact, whole_artifacts),
    "elf": Reader(read_elf, elf_files),
    "manifest": Reader(read_manifest, lambda: members("manifest.json"), TEXT),
    "mlir": Reader(read_mlir, mlir_texts, TEXT),
    "parameters": Reader(read_parameters, parameter_files),
    "program": Reader(read_program, lambda: members("program.bin")),
    "ptx": Reader(read_ptx, lambda: ptx_files(40_000), TEXT),
    "ptx-link": Reader(link_ptx, ptx_pairs, TEXT),
    "spirv": Reader(read_spirv, lambda: compiled("vulkan")),
    "spirv-link": Reader(link_spirv, spirv_pairs),
    "values": Reader(read_values, value_texts, TEXT),
}
