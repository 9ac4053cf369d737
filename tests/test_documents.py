"""The README and docs/plugins.md are run as a reader types them: every command, every line, every promised output."""

from __future__ import annotations

import json
import os
import re
import runpy
import shlex
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import fork_server
import notebooks
import numpy as np
import pytest
import timelines
from documents import ARCHITECTURE, FOLDER_READMES, PAGES, ROOT, blocks, code_lines, commands

import pydispatch as pd

EIGHT = "EXEC @{name}\nresult[0]: hal.buffer_view\n8xf32={values}\n"


def execute(words: list[str], folder: Path) -> str:
    assert words[0] == sys.executable
    done = fork_server.run(words[1:], folder)
    assert done.returncode == 0, f"{shlex.join(words)}\n{done.stdout}{done.stderr}"
    return done.stdout


def execute_command(words: list[str], folder: Path) -> str:
    assert words[0] == "pydispatch"
    return execute([sys.executable, "-m", "pydispatch.cli", *words[1:]], folder)


def printed(block: str) -> list[str]:
    """What the comments behind `print` promise."""
    return [line.partition("# ")[2].strip() for line in block.splitlines() if line.startswith("print(")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder to work in that has the examples and nothing else."""
    (tmp_path / "examples").symlink_to(ROOT / "examples", target_is_directory=True)
    return tmp_path


def test_readme_python(folder: Path) -> None:
    kernel, block, *models = blocks("README.md", "python")
    (folder / "kernel.py").write_text(kernel)  # kernels are read from a file
    assert execute([sys.executable, "kernel.py"], folder).splitlines() == printed(kernel)
    first, second = execute([sys.executable, "-c", block], folder).splitlines()
    assert first == second == printed(block)[0] == "[96. 96. 96. 96. 96. 96. 96. 96.]"
    assert printed(block)[1].startswith("the same")
    assert (folder / "mixed.pdx").is_file()
    imports = block.splitlines()[0]
    assert len(models) == 2
    for model in models:
        assert execute([sys.executable, "-c", f"{imports}\n{model}"], folder).splitlines() == printed(model)


def test_readme_commands(folder: Path) -> None:
    lines = commands("README.md")
    assert [words[1] for words in lines] == ["compile", "inspect", "run", "check", "devices"]
    compiled, inspected, ran, checked, devices = [execute_command(words, folder) for words in lines]
    assert "mixed.pdx" in compiled or compiled == ""
    manifest = json.loads(execute_command([*lines[1], "--json"], folder))
    assert "@mixed_invocation  (a: f32[d0], b: f32[d0]) -> f32[d0]" in inspected
    for arch in ("x86_64", "arm_64", "riscv_64"):
        assert f"embedded-elf-{arch}" in inspected
    assert "avx2" in inspected, "--cpu=x86-64-v3 was asked for"
    assert "mixed_invocation" in json.dumps(manifest)
    assert ran == EIGHT.format(name="mixed_invocation", values="96 96 96 96 96 96 96 96")
    assert ran.splitlines()[-1] in (ROOT / "README.md").read_text()
    assert checked.splitlines()[-1] == "2 passed, 0 failed"
    assert devices.startswith("cpu\n") and "workers: " in devices


def headings(document: Path) -> set[str]:
    """The anchors of a document's headings."""
    text = re.sub(r"^```.*?^```$", "", document.read_text(), flags=re.DOTALL | re.MULTILINE)
    plain = (re.sub(r"[^\w\s-]", "", title).strip().lower() for title in re.findall(r"^#+ (.*)$", text, re.MULTILINE))
    return {re.sub(r"[-\s]+", "-", title) for title in plain}


def test_links() -> None:
    for document in [*PAGES, *FOLDER_READMES]:
        for target, anchor in re.findall(r"\]\(([^)#:\s]*)(?:#([^)\s]+))?\)", document.read_text()):
            path = document.parent / target if target else document
            assert path.exists(), f"{document.name} points at {target}"
            assert not anchor or anchor in headings(path), f"{document.name} points at {target}#{anchor}"


def test_links_say_what_they_lead_to() -> None:
    for document in [*PAGES, *FOLDER_READMES]:
        named = re.findall(r"\[`?[\w/-]+\.md`?\]\([^)]*\)", document.read_text())
        assert named == [], f"{document.name}: a title in place of the name of a file"


GENERATED = [
    "reference/python.md", "reference/cli.md", "reference/c.md",
    *(f"notebooks/{path.stem}.md" for path in notebooks.NOTEBOOKS),
]  # fmt: skip
"""Pages that the site makes itself, besides the first."""


def test_every_document_is_in_the_navigation_of_the_site_once() -> None:
    listed = re.findall(r"[-:] ([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    written = [path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")]
    assert sorted(listed) == sorted([*written, "index.md", *GENERATED])  # index.md is the README


def test_every_page_of_a_section_is_in_its_overview() -> None:
    text = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    sections = re.split(r"^  - .*:\n", text, flags=re.MULTILINE)[1:]
    overviews = [section for section in sections if "/index.md" in section]
    assert len(overviews) == 5
    for section in overviews:
        index, *pages = re.findall(r"[-:] ([\w/-]+\.md)$", section, re.MULTILINE)
        text = (ROOT / "docs" / index).read_text()
        linked = [
            (Path(index).parent / target)
            for target in re.findall(r"^\| \[[^]]*\]\(([\w./-]+\.md)\)", text, re.MULTILINE)
        ]
        assert [os.path.normpath(path) for path in linked] == [page for page in pages if page not in GENERATED], index


ADDED = """
func.func @f(%a: tensor<?xf32>) -> tensor<?xf32> {
  %b = arith.addf %a, %a : tensor<?xf32>
  return %b : tensor<?xf32>
}
"""
WITHOUT = "import sys; sys.modules['{}'] = None\nimport pydispatch as pd; pd.compile({!r})"


def provoked_errors(folder: Path) -> Iterator[str]:
    """Yield the messages of the mistakes that docs/faq.md is about, in its order."""

    def message(call: Callable[[], object]) -> str:
        with pytest.raises(pd.Error) as caught:
            call()
        return str(caught.value)

    cpu = pd.device("cpu")
    add = cpu.load(pd.compile(ADDED)).f
    yield message(lambda: add(np.ones(3)))
    fixed = cpu.load(pd.compile(ADDED.replace("?", "4"))).f
    yield message(lambda: fixed(np.ones(3, np.float32)))
    yield message(lambda: cpu.load(pd.compile(ADDED, targets="vulkan")))
    yield message(lambda: pd.device("gpu"))
    yield message(lambda: cpu.load(pd.compile(ROOT / "examples" / "plugin" / "program.mlir")))
    yield message(lambda: pd.compile((ROOT / "examples" / "mixed" / "program.mlir").read_text()))
    yield message(lambda: pd.compile(ROOT / "examples" / "models" / "small" / "bert.onnx"))
    yield message(lambda: cpu.load("examples/mixed/program.mlir"))
    limited = pd.device("cpu?memory=1MiB").load(pd.compile(ADDED)).f
    yield message(lambda: limited(np.ones(1 << 20, np.float32)))
    environment = {**os.environ, "PATH": str(folder), "PYDISPATCH_CACHE_DIR": str(folder / "cache")}
    for package, source in (("ziglang", str(ROOT / "examples" / "mixed" / "program.mlir")), ("xdsl", "module {}")):
        words = [sys.executable, "-c", WITHOUT.format(package, source)]
        yield subprocess.run(words, capture_output=True, text=True, env=environment, check=False).stderr


def test_errors_of_the_questions_page_have_these_texts(tmp_path: Path) -> None:
    headings = re.findall(r"^### `(.*)`$", (ROOT / "docs" / "faq.md").read_text(), re.MULTILINE)
    for heading, message in zip(headings, provoked_errors(tmp_path), strict=True):
        assert heading in message


def test_tutorial(folder: Path) -> None:
    text = "\n".join(blocks("docs/tutorial.md", "python"))
    parts = re.split(r"^# (\w+\.py)$", text, flags=re.MULTILINE)[1:]
    files = dict(zip(parts[::2], parts[1::2], strict=True))
    assert list(files) == ["classify.py", "server.py", "ask.py"]
    for name, code in files.items():
        (folder / name).write_text(code)
    assert execute([sys.executable, "classify.py"], folder).splitlines() == printed(files["classify.py"])
    inspected, ran = [execute_command(words, folder) for words in commands("docs/tutorial.md")]
    assert all(f"embedded-elf-{arch}" in inspected for arch in ("x86_64", "arm_64"))
    assert ran.startswith("EXEC @classify\n") and "2x3xf32=" in ran
    with subprocess.Popen([sys.executable, "server.py", "0"], cwd=folder, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            port = server.stdout.readline().split()[-1]
            assert execute([sys.executable, "ask.py", port], folder).splitlines() == printed(files["ask.py"])
        finally:
            server.kill()


def test_every_way_to_dispatch_has_a_test_on_every_device() -> None:
    table = (ROOT / "docs" / "dispatch-modes.md").read_text().partition("\n## Tests\n")[2]
    rows = re.findall(r"^\| \*\*.*$", table, re.MULTILINE)
    assert len(rows) == 5
    for row in rows:
        cells = re.findall(r"\[(\w+)\]\(\.\./(tests/\S+\.py)\)", row)
        assert len(cells) == 4, row
        for name, path in cells:
            assert f"def {name}(" in (ROOT / path).read_text(), f"{path} has no {name}"


COLUMNS = 86
"""Columns of code that the site shows without scrolling in a window of 1280 pixels."""


def condensed(text: str) -> str:
    return re.sub(r"\s", "", text)


def missing_part(shortened: str, whole: str) -> str | None:
    """The first part of a text with `…` for what is left out that the whole text lacks after the parts before it."""
    at, whole = 0, condensed(whole)
    for part in filter(None, condensed(shortened).split("…")):
        found = whole.find(part, at)
        if found < 0:
            return part
        at = found + len(part)
    return None


def test_code_fits_into_a_page_of_the_site() -> None:
    """A wider line is cut, and a reader misses the result in the comment at its end."""
    for document in PAGES:
        for number, line in code_lines(document):
            place = f"{document.relative_to(ROOT)}:{number}"
            assert len(line) <= COLUMNS, f"{place}: {len(line)} columns of code; the site shows {COLUMNS}"


def test_the_architecture_shows_what_the_compiler_dumps(tmp_path: Path) -> None:
    assert missing_part("a b … d", "a b\nc d") is None
    assert missing_part("a d … b", "a b c d") == "ad"
    shown = re.findall(r'^```\w+ title="([^"\n]+)"\n(.*?)^```$', ARCHITECTURE.read_text(), re.DOTALL | re.MULTILINE)
    (source, program), *phases = shown
    (tmp_path / source).write_text(program)
    (command,) = re.findall(r"`pydispatch (compile .*?)`", ARCHITECTURE.read_text())
    words = [word.replace("DIR", str(tmp_path)) for word in shlex.split(command)]
    execute_command(["pydispatch", *words, "-o", "layer.pdx"], tmp_path)
    for name, text in phases:
        dumped = (tmp_path / name).read_text()
        part = missing_part(text, dumped)
        assert part is None, f"docs/architecture.md shows for {name}: {part}\nnow it is:\n{dumped}"
    assert len(phases) == 6
    with zipfile.ZipFile(tmp_path / "layer.pdx") as artifact:
        members = {name.replace("\\", "/") for name in artifact.namelist()}
    (packed,) = re.findall(r"packs (.*?) and the ELF", ARCHITECTURE.read_text(), re.DOTALL)
    assert members == {*re.findall(r"`([^`]+)`", packed), *(m for m in members if m.endswith(".so"))}


def test_the_map_of_the_architecture_is_current() -> None:
    map_ = runpy.run_path(str(ROOT / "docs" / "site" / "map.py"))
    assert map_["TARGET"].read_text() == map_["picture"](), "python docs/site/map.py writes it"
    assert all((ROOT / folder).is_dir() for box in map_["BOXES"] for folder in box.folders)


@pytest.mark.parametrize("notebook", notebooks.NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run_and_have_the_outputs_that_they_store(notebook: Path) -> None:
    made = notebooks.run(notebook)
    sources = ["".join(cell["source"]) for cell in notebooks.code_cells(notebook)]
    assert max(len(line) for source in sources for line in source.splitlines()) <= COLUMNS
    for cell, outputs in zip(notebooks.code_cells(notebook), made, strict=True):
        has_figures = "timing" in cell["metadata"].get("tags", ())
        stored = notebooks.comparable(cell["outputs"], has_figures)
        message = f"{notebook.name}: python tests/notebooks.py --write stores the outputs of:\n{cell['source']}"
        assert notebooks.comparable(outputs, has_figures) == stored, message


def test_links_of_notebooks() -> None:
    for notebook in notebooks.NOTEBOOKS:
        for target in re.findall(r"\]\(([^)#:\s]+)\)", notebook.read_text(encoding="utf-8")):
            assert (notebook.parent / target).exists(), f"{notebook.name} points at {target}"


def test_tracing(folder: Path) -> None:
    (block,) = blocks("docs/tracing.md", "python")
    assert execute([sys.executable, "-c", block], folder).splitlines() == printed(block) == ["0", "1"]
    for words in commands("docs/tracing.md"):
        (folder / "out.json").unlink()
        execute_command(words, folder)
        assert timelines.spans(timelines.read(folder / "out.json"), "call")


def test_plugins(folder: Path) -> None:
    (source,) = blocks("docs/plugins.md", "c")
    name = re.match(r"// (\S+\.c)\n", source)
    assert name is not None
    (folder / name[1]).write_text(source)
    lines = commands("docs/plugins.md")
    assert [words[1] for words in lines] == ["compile", "plugin", "run"]
    *_, built, ran = [execute_command(words, folder) for words in lines]
    assert "standalone plugin for x86_64, aarch64, riscv64" in built
    assert ran == EIGHT.format(name="multiply", values="8 8 8 8 8 8 8 8")
    assert f"prints `{ran.splitlines()[-1]}`" in (ROOT / "docs/plugins.md").read_text()
    prefixed = [word.replace("--plugin=", "--plugin=embedded:") for word in lines[2]]
    assert execute_command(prefixed, folder) == ran
    with pytest.raises(AssertionError, match="is not an ELF file"):
        execute_command([word.replace("embedded:", "system:") for word in prefixed], folder)
    (block,) = blocks("docs/plugins.md", "python")
    assert execute([sys.executable, "-c", block], folder).splitlines() == printed(block) == ["[6. 6. 6. 6.]"]
    (declared,) = blocks("docs/plugins.md", "mlir")
    program = (ROOT / "examples/plugin/program.mlir").read_text()
    assert condensed(declared) in condensed(program)


@pytest.mark.parametrize("name", ["kernels", "programs"])
def test_kernels_and_programs_in_python(name: str, folder: Path) -> None:
    text = "\n".join(blocks(f"docs/python-{name}.md", "python"))
    (folder / "document.py").write_text(text)
    assert execute([sys.executable, "document.py"], folder).splitlines() == printed(text)


ON_A_DEVICE = """
import sys
import numpy as np, pydispatch as pd
from pydispatch.integrations.called_kernels import Kernel

def on_device(kernel, *args, call=Kernel.__call__):
    device = pd.device(sys.argv[1])
    own = [device.upload(each) if isinstance(each, np.ndarray) else each for each in args]
    call(kernel, *own)
    for array, buffer in zip(args, own):
        if isinstance(array, np.ndarray):
            array[...] = np.asarray(buffer)
    calls.append(kernel.name)

calls = []
Kernel.__call__ = on_device
exec(compile(open("document.py").read(), "document.py", "exec"))
assert len(calls) >= 4, calls
"""


@pytest.mark.parametrize("device", ["vulkan", "webgpu", "ptx-interpreter"])
def test_kernels_in_python_on_devices(device: str, folder: Path) -> None:
    """What docs/python-kernels.md calls with arrays of NumPy gives the same with buffers of each device."""
    text = "\n".join(blocks("docs/python-kernels.md", "python"))
    (folder / "document.py").write_text(text)
    (folder / "on_a_device.py").write_text(ON_A_DEVICE)
    assert execute([sys.executable, "on_a_device.py", device], folder).splitlines() == printed(text)


def test_the_reference_has_every_public_name() -> None:
    code = "import sys; sys.path.append('docs/site'); import reference; print(reference.python()[:8])"
    assert execute([sys.executable, "-c", code], ROOT).startswith("# Python")


@pytest.mark.parametrize(
    "name",
    [
        "asynchronous",
        "batch-inference",
        "derivatives",
        "host-commands",
        "language",
        "llm",
        "match-and-replace",
        "tuning",
    ],
)
def test_pages_run_as_they_stand(name: str, folder: Path) -> None:
    """All blocks of a page but those of other packages, in order, in a fresh folder."""
    found = [block for block in blocks(f"docs/{name}.md", "python") if "integrations.ray" not in block]
    code = "\n".join(found)
    (folder / "page.py").write_text(code)
    told = execute([sys.executable, "page.py"], folder).splitlines()
    promised = [line.partition("# ")[2].strip() for line in code.splitlines() if re.match(r" *print\(", line)]
    assert len(told) == len(promised)
    for line, promise in zip(told, promised, strict=True):
        assert promise.startswith(line), (line, promise)


def test_threads(folder: Path) -> None:
    """docs/threads.md: workers of a device and of a call."""
    code = "".join(blocks("docs/threads.md", "python"))
    assert execute([sys.executable, "-c", code], folder).splitlines() == printed(code) == ["2", "96.0"]


def test_deployment(folder: Path) -> None:
    """docs/deployment.md: a file for several architectures and CPUs, and the commands of both machines."""
    (code,) = blocks("docs/deployment.md", "python")
    (line,) = execute([sys.executable, "-c", code], folder).splitlines()
    assert code.rstrip().endswith(f"# {line}") and line == "[2. 2.]"
    compile, inspect, devices, run = commands("docs/deployment.md")
    execute_command(compile, folder)
    assert "neoverse_n1" in execute_command(inspect, folder)
    assert "level" in execute_command(devices, folder)
    assert "96 96" in execute_command(run, folder)


def test_running(folder: Path) -> None:
    """docs/running.md: results, memory, other processes, and types."""
    code = "".join(blocks("docs/running.md", "python"))
    peak, replaced, again = execute([sys.executable, "-c", code], folder).splitlines()
    assert int(peak) >= 0 and [replaced, again] == printed(code)[-2:] == ["96.0", "96.0"]
    (stubgen,) = commands("docs/running.md")
    execute_command(stubgen, folder)
    use = "import mixed_types; print(mixed_types.load('mixed.pdx').mixed_invocation.inputs)"
    assert execute([sys.executable, "-c", use], folder).startswith("(a: float32[d0]")
