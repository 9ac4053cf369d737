"""Every reader of bytes that is written in Python, on bytes that nobody wrote: only pydispatch.Error may come of them.

Each reader runs in a process of its own, guided by coverage: by atheris where that is installed, else by the lines that
`sys.settrace` sees. An input that raises anything else, takes more than STEPS lines (own engine), 20 seconds of the
processor or 4 GiB of memory is a finding; it is written to build/fuzz/python/<reader>/.

    python tests/reliability/readers.py [--seconds 60] [--engine own|atheris] [READER...]
    python tests/reliability/readers.py READER --input FILE      one input again

The last line is one JSON object, as run.py reads it.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import json
import os
import random
import re
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests"))
import check_files  # noqa: E402

BUILD = ROOT / "build" / "fuzz" / "python"
STEPS = 3_000_000
MAX_BYTES = 1 << 16
PACKAGE = str(ROOT / "pydispatch") + os.sep


class TooLong(BaseException):
    """The input took more lines, or more time, than any of its size should."""


class Reader(NamedTuple):
    """What is called with the bytes, where inputs come from, and whether they are text."""

    call: Callable[[bytes], object]
    seeds: Callable[[], list[bytes]]
    is_text: bool = False


# ---- the readers. Imports are inside, so that atheris can instrument them.


def text_of(data: bytes) -> str:
    return data.decode("utf-8", "replace")


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

    _, tables = spirv.read(data, "x")
    spirv.describe(tables)
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


def error() -> type[Exception]:
    import pydispatch

    return pydispatch.Error


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


READERS: dict[str, Reader] = {
    "artifact": Reader(read_artifact, whole_artifacts),
    "elf": Reader(read_elf, elf_files),
    "manifest": Reader(read_manifest, lambda: members("manifest.json"), is_text=True),
    "mlir": Reader(read_mlir, mlir_texts, is_text=True),
    "parameters": Reader(read_parameters, parameter_files),
    "program": Reader(read_program, lambda: members("program.bin")),
    "ptx": Reader(read_ptx, lambda: ptx_files(40_000), is_text=True),
    "ptx-link": Reader(link_ptx, ptx_pairs, is_text=True),
    "spirv": Reader(read_spirv, lambda: compiled("vulkan")),
    "spirv-link": Reader(link_spirv, spirv_pairs),
    "values": Reader(read_values, value_texts, is_text=True),
}


# ---- mutation

TOKEN = re.compile(rb"\w+|\s+|[^\w\s]")
EDGES = (0, 1, 2, 3, 4, 7, 8, 255, 256, 65535, 65536, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1)
WORDS = (
    b"0",
    b"-1",
    b"4294967296",
    b"18446744073709551616",
    b"1e999",
    b"\x00",
    b"\xff",
    b'"',
    b"\\",
    b"(" * 200,
    b"[" * 2000,
    b"{" * 200,
)


def mutate_tokens(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """One change of the tokens of a text: another word, left out, repeated, swapped, a number."""
    tokens = TOKEN.findall(data)
    if not tokens:
        return data
    place, choice = rng.randrange(len(tokens)), rng.randrange(6)
    if choice == 0:
        tokens[place] = rng.choice(WORDS)
    elif choice == 1:
        tokens[place] = rng.choice(TOKEN.findall(other) or [b" "])
    elif choice == 2:
        tokens[place : place + rng.randrange(1, 6)] = []
    elif choice == 3:
        tokens[place:place] = tokens[place : place + rng.randrange(1, 12)]
    elif choice == 4:
        second = rng.randrange(len(tokens))
        tokens[place], tokens[second] = tokens[second], tokens[place]
    else:
        tokens[place] = str(rng.choice(EDGES)).encode()
    return b"".join(tokens)


def mutate_bytes(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """One change of bytes or little-endian words, or a piece of another input."""
    changed, kind = bytearray(data), rng.randrange(7)
    at = rng.randrange(len(changed) + 1)
    if kind == 0 and changed:
        changed[at % len(changed)] ^= 1 << rng.randrange(8)
    elif kind == 1 and changed:
        changed[at % len(changed)] = rng.randrange(256)
    elif kind == 2:
        del changed[at : at + rng.choice((1, 2, 4, 16, 200))]
    elif kind == 3:
        where = rng.randrange(len(changed) + 1)
        changed[where:where] = changed[at : at + rng.choice((1, 4, 16, 64, 300))]
    elif kind == 4:
        begin = rng.randrange(len(other) + 1)
        changed[at : at + rng.choice((0, 4, 40))] = other[begin : begin + rng.choice((1, 4, 32, 400))]
    else:
        width = rng.choice((1, 2, 4, 4, 8))
        at = at // width * width if rng.random() < 0.7 else at
        number = rng.choice(EDGES) + rng.randrange(-1, 2)
        changed[at : at + width] = number.to_bytes(12, "little", signed=True)[:width]
    return bytes(changed)


def mutate(rng: random.Random, data: bytes, others: list[bytes], is_text: bool) -> bytes:
    """One to four changes."""
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 4))):
        change = mutate_tokens if is_text and rng.random() < 0.6 else mutate_bytes
        data = change(rng, data, rng.choice(others))[:MAX_BYTES]
    return data


# ---- running one input


def guard() -> None:
    """No input may take more than this."""
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))

    def late(number: int, frame: FrameType | None) -> None:
        raise TooLong("more than 20 seconds of the processor")

    signal.signal(signal.SIGVTALRM, late)


def attempt(reader: Reader, data: bytes) -> str:
    """Empty, or what went wrong."""
    import traceback

    signal.setitimer(signal.ITIMER_VIRTUAL, 20)
    try:
        reader.call(data)
    except error():
        return ""
    except (Exception, TooLong):
        return traceback.format_exc()
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return ""


@contextlib.contextmanager
def tracing(seen: set[tuple[str, int, int]]) -> Iterator[None]:
    """Adds pairs of lines of pydispatch that ran one after the other; ends what takes more than STEPS of them."""
    left = STEPS

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        name, previous = frame.f_code.co_filename, 0

        def line(frame: FrameType, event: str, argument: Any) -> Any:
            nonlocal previous, left
            if event == "line":
                seen.add((name, previous, frame.f_lineno))
                previous = frame.f_lineno
                left -= 1
                if left < 0:
                    raise TooLong(f"more than {STEPS} lines")
            return line

        return line

    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(None)


def keep(name: str, data: bytes, why: str) -> str:
    """Writes a finding down; returns its line. One per place in the code."""
    places = re.findall(r'File "[^"]*?(\w+)\.pyx?", line (\d+)', why)
    place = "-".join(places[-1]) if places else "unknown"
    folder = BUILD / name
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"finding-{place}"
    if not path.exists():
        path.write_bytes(data)
        path.with_suffix(".txt").write_text(why)
        print(f"FINDING {name}: {path}\n{chr(10).join(why.splitlines()[-9:])}", file=sys.stderr, flush=True)
    return place


def explore(name: str, seconds: float, seed: int) -> dict[str, Any]:
    """The engine of our own."""
    reader, rng, end = READERS[name], random.Random(seed), time.monotonic() + seconds
    corpus, seen, found, count = list(reader.seeds()), set[tuple[str, int, int]](), set[str](), 0
    guard()
    for data in corpus:
        with tracing(seen):
            why = attempt(reader, data)
        if why:
            found.add(keep(name, data, why))
    at_start = len(seen)
    while time.monotonic() < end:
        data = mutate(rng, rng.choice(corpus[-40:] if rng.random() < 0.4 else corpus), corpus, reader.is_text)
        before = len(seen)
        # Most inputs run without the trace, which costs ten times the reader.
        if rng.random() < 0.3:
            with tracing(seen):
                why = attempt(reader, data)
        else:
            why = attempt(reader, data)
        count += 1
        if why:
            found.add(keep(name, data, why))
        elif len(seen) > before and len(corpus) < 5000:
            corpus.append(data)
    return {"name": f"python {name}", "executions": count, "findings": len(found), "new": len(seen) - at_start,
            "coverage": f"{len(seen)} line pairs"}  # fmt: skip


def explore_with_atheris(name: str, seconds: float) -> None:
    """Ends the process."""
    import atheris  # type: ignore[import-not-found,unused-ignore]

    folder = BUILD / name / "corpus"
    folder.mkdir(parents=True, exist_ok=True)
    with atheris.instrument_imports(include=["pydispatch"]):
        for seed in READERS[name].seeds():
            (folder / f"seed-{hash(seed) & 0xFFFFFFFF:08x}").write_bytes(seed)
            with contextlib.suppress(error()):
                READERS[name].call(seed)
    guard()

    def once(data: bytes) -> None:
        why = attempt(READERS[name], data)
        if why:
            keep(name, data, why)

    rng = random.Random(1)
    others = [p.read_bytes() for p in folder.iterdir()]

    def mutator(data: bytes, size: int, seed: int) -> bytes:
        rng.seed(seed)
        own = mutate(rng, data, others, READERS[name].is_text) if seed % 2 else atheris.Mutate(data, size)
        return bytes(own)[:size]

    atheris.Setup(
        [sys.argv[0], f"-max_total_time={int(seconds)}", f"-max_len={MAX_BYTES}", "-print_final_stats=1", str(folder)],
        once, custom_mutator=mutator,
    )  # fmt: skip
    atheris.Fuzz()


# ---- all readers


def run_child(name: str, engine: str, seconds: float) -> dict[str, Any]:
    command = [sys.executable, str(Path(__file__)), name, "--child", "--engine", engine, "--seconds", str(seconds)]
    known = set((BUILD / name).glob("finding-*.txt"))
    ran = subprocess.run(command, capture_output=True, text=True)
    sys.stderr.write("".join(re.findall(r"^FINDING (?:.*\n)+", ran.stderr, re.M)))
    last = ran.stdout.splitlines()[-1] if ran.stdout.strip() else ""
    if last.startswith("{"):
        row: dict[str, Any] = json.loads(last)
    else:
        stats = dict(re.findall(r"stat::(\w+):\s*(\d+)", ran.stderr))
        edges = [int(n) for n in re.findall(r" cov: (\d+)", ran.stderr)]
        count = int(stats.get("number_of_executed_units", 0))
        new = set((BUILD / name).glob("finding-*.txt")) - known
        row = {
            "name": f"python {name}", "executions": count, "findings": len(new),
            "new": edges[-1] - edges[0] if edges else 0, "coverage": f"{edges[-1]} edges" if edges else "",
        }  # fmt: skip
    if ran.returncode:
        row["findings"] = max(1, int(row["findings"]))
        print(f"{name}: exit {ran.returncode}\n{ran.stderr[-3000:]}", file=sys.stderr)
    print(f"{'FAIL' if row['findings'] else 'ok  '} {row['name']}: {row['executions']} inputs", flush=True)
    return row


def main() -> int:
    has_atheris = importlib.util.find_spec("atheris") is not None
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("readers", nargs="*", choices=[[], *READERS], metavar="READER", help=", ".join(READERS))
    parser.add_argument("--seconds", type=float, default=60, help="for each reader")
    parser.add_argument("--engine", choices=("own", "atheris"), default="atheris" if has_atheris else "own")
    parser.add_argument("--input", type=Path, help="runs one input")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.input:
        guard()
        why = attempt(READERS[args.readers[0]], args.input.read_bytes())
        print(why or "ok")
        return bool(why)
    if args.child:
        if args.engine == "atheris":
            explore_with_atheris(args.readers[0], args.seconds)
        print(json.dumps(explore(args.readers[0], args.seconds, time.time_ns())))
        return 0
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 2) as workers:
        rows = list(workers.map(lambda n: run_child(n, args.engine, args.seconds), args.readers or READERS))
    print(json.dumps({"engine": args.engine, "rows": rows}))
    return 1 if any(row["findings"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
