"""What notebooks show of kernels, artifacts, programs and profiles: well-formed, with everything in it escaped."""

from __future__ import annotations

import importlib.util
import os
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest

import pydispatch as pd
from pydispatch.integrations.code_lines import assembler_lines
from pydispatch.integrations.generated_code import texts_of

Vector = Annotated[pd.View, pd.f32["n"]]


@pd.kernel(workgroup=64)
def halved(x: Vector, y: Vector) -> None:
    i = pd.global_id(0)
    if i < x.shape[0] and x[i] > 0:  # <b>bold</b> stays text
        y[i] = x[i] / 2


class Reader(HTMLParser):
    """The texts of cells and of titles; every element is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.texts.setdefault(tag, []).append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.texts[self.open[-1]][-1] += data


def test_a_kernel_shows_its_source_and_its_code() -> None:
    shown = Reader(halved._repr_html_()).texts
    assert shown["b"] == ["Python", "cpu", "LLVM IR", "cuda", "webgpu", "vulkan"]
    source, assembler, llvm, ptx, wgsl, spirv = shown["pre"]
    assert source.startswith("@pd.kernel(workgroup=64)\ndef halved(") and "# <b>bold</b> stays text" in source
    assert (
        "define" in llvm and "ret" in assembler and ".entry" in ptx and "@compute" in wgsl and "OpEntryPoint" in spirv
    )


@pd.kernel(workgroup=64)
def counted(x: Vector, y: Vector, bins: Annotated[pd.View, pd.i32[4]]) -> None:
    i = pd.global_id(0)
    total = 0.0
    for j in range(x.shape[0]):
        total += x[j]
    y[i] = total
    pd.barrier()
    for _ in range(3):
        pd.atomic_add(bins, i % 4, 1)


def test_what_became_vectors_and_why_not() -> None:
    shown = Reader(counted._repr_html_()).texts
    assert shown["b"][:3] == ["Python", "cpu", "vectors"]
    first, second = shown["pre"][2].splitlines()
    line = counted.__wrapped__.__code__.co_firstlineno
    assert first.startswith(f"test_notebooks.py:{line + 2}:") and "lanes of vectors, 16 at a time" in first
    assert second.startswith(f"test_notebooks.py:{line + 9}:")
    assert second.endswith("no lanes of vectors: the innermost loop has atomic operations")


def test_a_kernel_that_is_none_says_why() -> None:
    @pd.kernel
    def wrong(x: Vector) -> None:
        x[pd.global_id(0)] = "text"  # type: ignore[assignment]

    assert 'x[pd.global_id(0)] = "text"' in Reader(wrong._repr_html_()).texts["pre"][1]


@pytest.mark.parametrize(("target", "part"), [("cpu", "ret"), ("cuda", ".entry"), ("webgpu", "@compute")])
def test_code(target: str, part: str) -> None:
    assert part in halved.code(target)


def test_code_by_source_line() -> None:
    listing = halved.show("cpu", "cuda", "webgpu", "vulkan")
    line = next(number for number, text in listing.source.items() if text.strip() == "y[i] = x[i] / 2")
    for form, store in (
        ("assembler", ""), ("LLVM IR", "store "), ("PTX", "st.global"), ("WGSL", "] = "), ("SPIR-V", "OpStore")
    ):  # fmt: skip
        lines_with_stores = [number for number, texts in listing.code[form].items() if any(store in t for t in texts)]
        assert line in lines_with_stores and (not store or lines_with_stores == [line]), form
    plain = {" ".join(row.partition("#")[0].split()) for row in halved.code("cpu", cpu="native").splitlines()}
    assert {text for texts in listing.code["assembler"].values() for text in texts} <= plain
    text, page = repr(listing), Reader(listing._repr_html_()).texts
    assert f"{line:5}          y[i] = x[i] / 2\n" in text and "SPIR-V | " in text
    assert page["th"] == ["", "Python", "assembler", "LLVM IR", "PTX", "WGSL", "SPIR-V"]
    assert "# <b>bold</b> stays text" in page["span"] and "if" in page["span"]


@pytest.mark.parametrize("name", ['with"quote.py', "größe.py", "back\\slash.py", "no\udcffunicode.py"])
def test_code_of_kernels_in_files_with_any_name(name: str, tmp_path: Path) -> None:
    file = tmp_path / name
    file.write_text(
        "from typing import Annotated\nimport pydispatch as pd\n\n@pd.kernel(workgroup=64)\n"
        "def doubled(x: Annotated[pd.View, pd.f32['n']]) -> None:\n    x[pd.global_id(0)] *= 2\n"
    )
    specification = importlib.util.spec_from_file_location("kernels_of_a_file", file)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    listing = module.doubled.show("cpu", "cuda")
    assert any("fadd" in text or "fmul" in text for text in listing.code["LLVM IR"][6])
    assert any("st.global" in text for text in listing.code["PTX"][6])
    marked = module.doubled.lowered().program("doubled", marks_lines=True)
    (text,) = texts_of(marked, "cpu", [".optimized.ll"])
    escaped = re.search(r'filename: "(.*?)"', text)
    assert escaped is not None
    filename = escaped[1].encode().replace(rb"\\", rb"\5C")
    assert re.sub(rb"\\(..)", lambda code: bytes([int(code[1], 16)]), filename) == os.fsencode(name)


def test_notes_about_vectors_by_source_line() -> None:
    first = counted.__wrapped__.__code__.co_firstlineno
    assert counted.show().notes == {
        first + 2: "the invocations from here on are lanes of vectors, 16 at a time, also in loops",
        first + 9: "invocations are no lanes of vectors: the innermost loop has atomic operations",
    }


def test_a_target_that_is_none() -> None:
    with pytest.raises(
        pd.InvalidArgumentError, match="show: target: expected some of cpu, cuda, webgpu, vulkan, got 'm"
    ):
        halved.show("cpu", "metal")
    with pytest.raises(pd.InvalidArgumentError, match="code: target: expected one of cpu, cuda, webgpu, vulkan, got"):
        halved.code("metal")


def test_artifacts_programs_and_profiles() -> None:
    artifact = pd.compile(halved, targets=["cpu", "webgpu"])
    shown = Reader(artifact._repr_html_()).texts
    signature = "(tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>"
    assert shown["td"][:2] == ["halved", signature]
    assert [text for text in shown["td"] if text.startswith(("embedded-elf", "webgpu"))] == shown["td"][4::4]
    program: Any = pd.device("cpu").load(artifact)
    assert Reader(program._repr_html_()).texts["td"] == ["halved", signature]
    profile = program.halved.profile(np.ones(64, np.float32), np.ones(64, np.float32))
    assert "workgroups" in Reader(profile._repr_html_()).texts["th"]


@pytest.mark.parametrize(("row", "instruction"), [
    ("\tadd x0, x1, #16 // 16-byte Folded Spill", "add x0, x1, #16"),
    ("\tadd.s64 %rd3, %rd1, 16; // the next element", "add.s64 %rd3, %rd1, 16;"),
    ("\tvmovups (%rdi), %ymm0 # 32-byte Reload", "vmovups (%rdi), %ymm0"), ("\tvzeroupper ## spills", "vzeroupper"),
])  # fmt: skip
def test_instructions_are_shown_without_comments(row: str, instruction: str) -> None:
    assert assembler_lines(f"\t.loc 1 7 3\n{row}\n") == {7: [instruction]}
