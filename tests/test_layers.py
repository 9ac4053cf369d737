"""The layers of docs/architecture.md: imports, cimports and includes are walked; none runs upwards or in a circle."""

from __future__ import annotations

import ast
import functools
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

# What each folder of csrc may include, besides itself and the public headers.
C_FOLDERS = {
    "base": set(),
    "platform": {"base"},
    "elf": {"base", "platform"},
    "artifact": {"base", "platform"},
    "imports": {"base"},
    "executable": {"base"},
    "memory": {"base", "platform"},
    "fatelf": {"base"},
    "plugin": {"base", "platform"},
    "sched": {"base", "platform"},
    "peak": {"platform"},
    "program": {"base", "platform"},
    "process": {"base", "platform"},
    "api": {"base"},
    "target": {"api"},
    "xla": {"api", "target"},
    "torch": {"api", "target"},
    "standalone": {"artifact", "base", "api"},
    "drivers": set(),
}

# What each side of the package may import: the compiler and the runtime never see each other.
SIDES = {
    "pydispatch.errors": {"pydispatch._core"},
    "pydispatch.files": {"pydispatch.errors"},
    "pydispatch.include_folders": {"pydispatch.errors"},
    "pydispatch.garbage": set(),
    "pydispatch.inlining": set(),
    "pydispatch.suggestions": set(),
    "pydispatch.options": {"pydispatch.suggestions"},
    "pydispatch.logs": set(),
    "pydispatch.bytecode": set(),
    "pydispatch.distributions": set(),
    "pydispatch.packages": {"pydispatch.errors"},
    "pydispatch.formats": {
        "pydispatch._core",
        "pydispatch.distributions",
        "pydispatch.errors",
        "pydispatch.files",
        "pydispatch.suggestions",
    },
    "pydispatch.link": {"pydispatch.errors", "pydispatch.formats"},
    "pydispatch.extensions": {"pydispatch.distributions", "pydispatch.errors"},
    "pydispatch.locations": {"pydispatch.errors"},
    "pydispatch.ir": {
        "pydispatch.errors",
        "pydispatch.extensions",
        "pydispatch.files",
        "pydispatch.formats",
        "pydispatch.locations",
        "pydispatch.suggestions",
    },
    "pydispatch.faults": {"pydispatch.errors", "pydispatch.ir"},
    "pydispatch.patterns": {"pydispatch.errors", "pydispatch.files"},
    "pydispatch.kernels": {
        "pydispatch._core",
        "pydispatch.errors",
        "pydispatch.faults",
        "pydispatch.inlining",
        "pydispatch.locations",
        "pydispatch.patterns",
        "pydispatch.suggestions",
    },
    "pydispatch.graph": {
        "pydispatch._core",
        "pydispatch.errors",
        "pydispatch.faults",
        "pydispatch.formats",
        "pydispatch.inlining",
        "pydispatch.ir",
        "pydispatch.kernels",
        "pydispatch.patterns",
    },
    "pydispatch.operations": {
        "pydispatch.graph",
        "pydispatch.ir",
        "pydispatch.kernels",
        "pydispatch.locations",
        "pydispatch.patterns",
    },
    "pydispatch.programs": {
        "pydispatch._core",
        "pydispatch.errors",
        "pydispatch.faults",
        "pydispatch.frontends",
        "pydispatch.graph",
        "pydispatch.ir",
        "pydispatch.kernels",
        "pydispatch.locations",
        "pydispatch.operations",
        "pydispatch.patterns",
    },
    "pydispatch.derivatives": {
        "pydispatch.errors",
        "pydispatch.graph",
        "pydispatch.ir",
        "pydispatch.kernels",
        "pydispatch.operations",
        "pydispatch.patterns",
        "pydispatch.programs",
    },
    "pydispatch.frontends": {
        "pydispatch._core",
        "pydispatch.errors",
        "pydispatch.extensions",
        "pydispatch.faults",
        "pydispatch.files",
        "pydispatch.formats",
        "pydispatch.graph",
        "pydispatch.inlining",
        "pydispatch.ir",
        "pydispatch.kernels",
        "pydispatch.locations",
        "pydispatch.logs",
        "pydispatch.operations",
        "pydispatch.packages",
        "pydispatch.patterns",
        "pydispatch.programs",
        "pydispatch.suggestions",
    },
    "pydispatch.generate": {"pydispatch.errors", "pydispatch.packages"},
    "pydispatch.compiler": {
        "pydispatch._core",
        "pydispatch.distributions",
        "pydispatch.errors",
        "pydispatch.extensions",
        "pydispatch.faults",
        "pydispatch.files",
        "pydispatch.packages",
        "pydispatch.formats",
        "pydispatch.frontends",
        "pydispatch.graph",
        "pydispatch.ir",
        "pydispatch.kernels",
        "pydispatch.link",
        "pydispatch.locations",
        "pydispatch.logs",
        "pydispatch.options",
        "pydispatch.patterns",
        "pydispatch.suggestions",
    },
    "pydispatch.runtime": {
        "pydispatch._core",
        "pydispatch.errors",
        "pydispatch.extensions",
        "pydispatch.files",
        "pydispatch.packages",
        "pydispatch.formats",
        "pydispatch.link",
        "pydispatch.logs",
        "pydispatch.suggestions",
    },
}

# Every folder (or file beside folders) of the package, lowest first: each imports those before it alone.
LAYERS = [
    "errors", "files", "include_folders", "logs", "garbage", "bytecode", "distributions", "inlining", "suggestions",
    "options", "packages", "extensions", "locations", "formats.storage", "formats.arrays",
    "ir.core",
    "ir.dialects", "ir", "faults", "patterns", "kernels", "formats.elf",
    "formats.ptx", "formats.spirv", "formats.wgsl",
    "formats.program", "formats.artifact", "formats.web",
    "link.elf.machines", "link.elf", "link.ptx", "link.spirv", "link.wgsl",
    "graph", "operations", "frontends.source", "programs", "derivatives", "frontends",
    "compiler.kernel_ir", "compiler.worker", "compiler.target", "compiler.toolchain", "compiler.devlib",
    "compiler.emit.exports", "compiler.emit.llvm", "compiler.emit.shaders", "compiler.emit.spirv", "compiler.emit.wgsl",
    "compiler.backends", "compiler.kernels.ops",
    "compiler.tensor_ops", "compiler.analysis", "compiler.tensor_ops.rules", "compiler.kernels.loops",
    "compiler.kernels.matmul", "compiler.kernels", "compiler.normalize", "compiler.fusion", "compiler.flatten",
    "compiler.match", "compiler.outline", "compiler.constants", "compiler.host", "compiler.driver", "runtime.options",
    "runtime.dlpack", "runtime.buffer", "runtime.simulators", "runtime.program", "runtime.interface",
    "runtime.accelerators", "runtime.devices", "runtime.device", "runtime.tracing", "generate", "tuning", "bench",
    "integrations", "compilation", "cli", "__main__",
]  # fmt: skip

PYTHON_FILES = sorted((ROOT / "pydispatch").rglob("*.py"))
C_FILES = sorted(p for p in (ROOT / "csrc").rglob("*.[ch]"))


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in PYTHON_FILES}


@functools.cache
def imports_of(path: Path) -> set[str]:
    """The modules of pydispatch that a file imports anywhere: at the top, in functions, for types alone."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {a.name for a in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names = {f"{node.module}.{a.name}" for a in node.names}
            found |= (names & MODULES.keys()) or {node.module}
    return {name for name in found if name.startswith("pydispatch.")}


def side_of(module: str) -> str:
    return ".".join(module.split(".")[:2])


def layer_of(module: str) -> int | None:
    """The place of a module in LAYERS: that of the longest name that holds it."""
    name = module.removeprefix("pydispatch.")
    holds = [layer for layer in LAYERS if name == layer or name.startswith(f"{layer}.")]
    return LAYERS.index(max(holds, key=len)) if holds else None


def circles(edges: dict[str, set[str]]) -> list[list[str]]:
    """Groups of modules that reach each other, by Tarjan's algorithm."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(module: str) -> None:
        number[module] = low[module] = len(number)
        stack.append(module)
        for other in edges[module]:
            if other not in number:
                visit(other)
                low[module] = min(low[module], low[other])
            elif other in stack:
                low[module] = min(low[module], number[other])
        if low[module] == number[module]:
            group = []
            while not group or group[-1] != module:
                group.append(stack.pop())
            if len(group) > 1:
                found.append(sorted(group))

    for module in edges:
        if module not in number:
            visit(module)
    return found


def test_no_import_circle() -> None:
    edges = {name: (imports_of(path) & MODULES.keys()) - {name} for name, path in MODULES.items()}
    assert circles(edges) == [], "move what modules of a circle share into a file that imports none of them"
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [["a", "b", "c"]]


def test_imports_run_down() -> None:
    wrong = []
    for module, path in MODULES.items():
        own = layer_of(module)
        if own is None:  # the head of a folder of folders
            if module != "pydispatch" and imports_of(path):
                wrong.append(f"{module} belongs to no layer: add it to LAYERS")
            continue
        for name in imports_of(path):
            other = layer_of(name)
            if not name.startswith("pydispatch._core") and (other is None or other > own):
                wrong.append(f"{module} imports {name}")
    assert wrong == [], "move what is imported to a layer before that of the importing module (LAYERS)"


def test_folders_say_what_they_are() -> None:
    for folder in sorted(p for p in (ROOT / "pydispatch").rglob("*") if p.is_dir() and list(p.glob("*.py"))):
        head = folder / "__init__.py"
        assert head.exists(), f"{folder.relative_to(ROOT)} has no __init__.py"
        assert ast.get_docstring(ast.parse(head.read_text())), f"{head.relative_to(ROOT)} has no sentence at its head"


def test_prefixes_do_not_stand_for_folders() -> None:
    for folder in {path.parent for path in PYTHON_FILES}:
        names = [p.stem for p in folder.glob("*.py")]
        for prefix in {n.split("_")[0] for n in names if "_" in n.strip("_")}:
            same = [n for n in names if n == prefix or n.startswith(f"{prefix}_")]
            assert len(same) < 5, f"{folder.relative_to(ROOT)}: {sorted(same)} belong into a folder of their own"


OUTSIDE = ("include", "__pycache__")


def test_the_walk_sees_files() -> None:
    assert len(PYTHON_FILES) > 30
    assert len(C_FILES) > 30
    assert set(C_FOLDERS) == {p.name for p in (ROOT / "csrc").iterdir() if p.is_dir() and p.name not in OUTSIDE}


def test_sides_stay_apart() -> None:
    wrong = []
    for module, path in MODULES.items():
        side = side_of(module)
        if side not in SIDES:  # these may use everything
            names = ("", ".__main__", ".bench", ".cli", ".compilation", ".integrations", ".tuning")
            if side not in {f"pydispatch{name}" for name in names}:
                wrong.append(f"{module} belongs to no side: add it to SIDES")
            continue
        allowed = {side, *SIDES[side]}
        wrong += [f"{module} imports {name}" for name in imports_of(path) if side_of(name) not in allowed]
    assert wrong == [], "SIDES has what each side may import: move what is imported to one that both may"


def test_c_includes_follow_the_arrows() -> None:
    assert [error for path in C_FILES for error in include_errors(path)] == []


def include_errors(path: Path) -> list[str]:
    """What is wrong with the includes of a file of csrc."""
    room = path.relative_to(ROOT / "csrc").parts[0]
    wrong = []
    for include in re.findall(r'#\s*include\s+["<]([^">]+)[">]', path.read_text()):
        folder = include.split("/")[0]
        if include == "Python.h":
            wrong.append(f"{path} includes Python.h")
        if "/" not in include or folder in ("pydispatch", "sys", "linux", "asm", room):
            continue
        if room == "include":
            wrong.append(f"the public header {path.name} includes {include}")
        elif folder in C_FOLDERS and folder not in C_FOLDERS[room]:
            wrong.append(f"csrc/{room} includes {include}")
    return wrong


DEFINED = re.compile(r"^(?!static)[A-Za-z_][\w\s*]*?[\s*](pyd_\w+)\([^;{]*\)\s*\{", re.MULTILINE)
NAMED = re.compile(r"\bpyd_\w+")
ORDERED = {
    "api": "internal.h", "elf": "view.h", "program/call": "call.h", "program/plan": "plan.h",
    "program/procedure": "invocation.h", "sched": "internal.h",
}  # fmt: skip
"""Folders of csrc whose files call each other -> the header that states their order."""
STATED = re.compile(r"^//   (\w+\.c) {2,}\S", re.MULTILINE)
AGAINST = re.compile(r"^//   (\w+\.c) -> (\w+\.c) {2,}\S", re.MULTILINE)


def calls_between_files(folder: Path) -> dict[str, set[str]]:
    """The files of a folder of csrc that each file calls: those whose functions it names."""
    texts = {path.name: re.sub(r"//.*", "", path.read_text()) for path in folder.glob("*.c")}
    defined = {name: set(DEFINED.findall(text)) for name, text in texts.items()}
    named = {name: set(NAMED.findall(text)) for name, text in texts.items()}
    return {name: {other for other in texts if other != name and named[name] & defined[other]} for name in texts}


def order_errors(calls: dict[str, set[str]], header: str) -> list[str]:
    """What contradicts the order of files that a header states, with the calls against it that it permits."""
    order, permitted = STATED.findall(header), set(AGAINST.findall(header))
    if sorted(order) != sorted(calls):
        return [f"the order lists {order}, the folder has {sorted(calls)}"]
    upwards = {(name, other) for name in order for other in calls[name] if order.index(other) > order.index(name)}
    return [
        *(f"{name} calls {other}, which comes after it" for name, other in sorted(upwards - permitted)),
        *(
            f"{name} -> {other} is stated as a call against the order, and is none"
            for name, other in permitted - upwards
        ),
    ]


def test_c_files_of_a_folder_call_in_the_stated_order() -> None:
    for folder, header in ORDERED.items():
        calls = calls_between_files(ROOT / "csrc" / folder)
        assert order_errors(calls, (ROOT / "csrc" / folder / header).read_text()) == [], f"csrc/{folder}/{header}"
    stated = "//   a.c  first\n//   b.c  second\n//   a.c -> b.c  a reason\n"
    assert order_errors({"a.c": {"b.c"}, "b.c": {"a.c"}}, stated) == []
    assert order_errors({"a.c": set(), "b.c": {"a.c"}}, stated) == [
        "a.c -> b.c is stated as a call against the order, and is none"
    ]
    assert order_errors({"a.c": {"b.c"}, "b.c": set()}, stated[:40]) == ["a.c calls b.c, which comes after it"]


def test_only_folders_with_a_stated_order_have_circles_of_c_files() -> None:
    """Files of platform/ define the same functions, one for each system."""
    for folder in {path.parent for path in C_FILES} - {ROOT / "csrc" / "platform"}:
        if folder.relative_to(ROOT / "csrc").as_posix() not in ORDERED:
            assert circles(calls_between_files(folder)) == [], folder


DISTINCT = ("extensions", "generate", "integrations", "kernels", "patterns", "programs", "runtime", "tuning")
"""Folders of the package in which the name of a class says what it is, without its module."""

INTERFACES = frozenset(("Block", "Context", "Executor", "Fixed"))
"""Classes of runtime/accelerators that each device implements under the same name."""

WITHIN_A_DEVICE = frozenset(("Arena", "DeviceLostError", "LogicalDevice"))
"""Classes that Vulkan, WebGPU and CUDA each have around an object of their driver."""


def test_classes_have_names_of_their_own() -> None:
    """`Trace` is public twice: the record of a program in Python, and `pydispatch.trace`'s of a process."""
    files: dict[str, set[str]] = {}
    for folder in DISTINCT:
        for path in (ROOT / "pydispatch" / folder).rglob("*.py"):
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.ClassDef):
                    files.setdefault(node.name, set()).add(path.relative_to(ROOT).as_posix())
    permitted = INTERFACES | WITHIN_A_DEVICE | {"Trace"}
    several = {name: sorted(paths) for name, paths in files.items() if len(paths) > 1}
    assert several.keys() == permitted, {name: several[name] for name in several.keys() - permitted}


def test_core_imports_nothing_above_it() -> None:
    for path in (ROOT / "_core").glob("*.p[yx][xd]"):
        for name in re.findall(r"^\s*(?:from|cimport|import)\s+(pydispatch[\w.]*)", path.read_text(), re.M):
            assert name.startswith("pydispatch._core"), f"{path.name} imports {name}"


def test_importing_the_package_loads_neither_compiler_nor_gpu() -> None:
    code = (
        "import sys, pydispatch\n"
        "heavy = {'xdsl', 'llvmlite', 'elftools', 'vulkan', 'cuda', 'wgpu', 'pydispatch.compiler', 'pydispatch.ir'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"


def test_compiling_a_program_of_floats_imports_no_numpy(tmp_path: Path) -> None:
    """It would take a tenth of the time. Neither do entities of HTML, of tables in notebooks, which `run` has, too."""
    (tmp_path / "program.mlir").write_text("""func.func @twice(%x: tensor<4xf32>) -> tensor<4xf32> {
      %y = arith.addf %x, %x : tensor<4xf32>
      return %y : tensor<4xf32>
    }""")
    code = (
        "import sys\n"
        "from pydispatch.cli.__main__ import main\n"
        "assert main(['compile', 'program.mlir', '-o', 'program.pdx']) == 0\n"
        "print(sorted({'numpy', 'html', 'xdsl.dialects.affine', 'xdsl.dialects.gpu'} & set(sys.modules)))"
    )
    without_cache = {**os.environ, "PYDISPATCH_CACHE_SIZE": "0"}
    command = [sys.executable, "-c", code]
    out = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path, env=without_cache).stdout
    assert out.strip() == "[]"
