"""The frontends: files and texts of models → programs, which must verify. Imports are inside, as in formats.py."""

from __future__ import annotations

import re
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

from untrusted.archives import ARCHIVE
from untrusted.messages import MODEL
from untrusted.mutations import MAX_BYTES, TEXT
from untrusted.reader import ROOT, Reader, error, text_of

FRONTENDS = ROOT / "tests" / "frontends"
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None


def read_source(source: Any) -> None:
    """What `pydispatch.compile` does with a source before it compiles a program."""
    from pydispatch import ir
    from pydispatch.compiler.driver.sources import load_source

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module, _ = load_source(source)
    try:
        ir.verify(module)
    except error() as fault:
        raise AssertionError(f"the program is wrong: {fault.args[0].partition('error: ')[2]}") from None


def read_onnx(data: bytes) -> None:
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        Path(folder, "w.bin").write_bytes(bytes(64))
        path = Path(folder, "model.onnx")
        path.write_bytes(data)
        read_source(path)


def read_pt2(data: bytes) -> None:
    with tempfile.NamedTemporaryFile(suffix=".pt2", dir=MEMORY) as file:
        file.write(data)
        file.flush()
        read_source(Path(file.name))


def read_text(data: bytes) -> None:
    read_source(text_of(data) + "\n")


def onnx_models() -> list[bytes]:
    import numpy as np

    folder = FRONTENDS / "onnx"
    sys.path.append(str(folder))
    import wire

    cases = np.load(folder / "cases.npz")
    beside = wire.tensor("w", [2], 1, *wire.external(location="w.bin", offset="4", length="8"))
    add = wire.node("Add", ["x", "w"], ["y"], name="layer1.add")
    outside = wire.model([add], [wire.value("x", 2)], [wire.value("y", 2)], [beside])
    return [outside, *(cases[name].tobytes() for name in cases if name.endswith("/model"))]


def pt2_files() -> list[bytes]:
    """Those of the tests, smallest first."""
    files = sorted((FRONTENDS / "torch" / "models").glob("*.pt2"), key=lambda p: p.stat().st_size)
    return [p.read_bytes() for p in files if p.stat().st_size < MAX_BYTES]


def stablehlo_texts() -> list[bytes]:
    files = [p.read_bytes() for p in sorted((FRONTENDS / "stablehlo" / "jax").glob("*.mlir"))]
    return [*(f for f in files if len(f) < 9000), *functions_of("stablehlo", "stablehlo_quantized", "chlo")]


def tosa_texts() -> list[bytes]:
    return functions_of("tosa")


def functions_of(*names: str) -> list[bytes]:
    """The functions of the parser's samples, each with what is declared outside of them."""
    found = []
    for name in names:
        text = (ROOT / "tests" / "ir" / "samples" / f"{name}.mlir").read_text()
        function = re.compile(r"^func\.func (?:private )?@(\w+).*?^}\n", re.S | re.M)
        functions = list(function.finditer(text))
        declared = function.sub("", text)
        found += [(declared + f[0]).encode() for f in functions]
    return found


MODELS: dict[str, Reader] = {
    "onnx": Reader(read_onnx, onnx_models, MODEL),
    "pt2": Reader(read_pt2, pt2_files, ARCHIVE),
    "stablehlo": Reader(read_text, stablehlo_texts, TEXT),
    "tosa": Reader(read_text, tosa_texts, TEXT),
}
