"""Builds the C core (csrc/) and its Cython face (_core/). Everything else is declared in pyproject.toml.

PYDISPATCH_SANITIZE=address|thread|undefined builds the extensions with that sanitizer.
"""

from __future__ import annotations

import itertools
import os
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent
sys.path.insert(0, str(ROOT / "csrc"))  # a build backend does not look here
from sources import host, sources  # noqa: E402

INCLUDE = "csrc/include"

# module of _core -> the folders of csrc that are linked into it. A folder holds no mutable state, so linking one into
# several modules is safe; process/ is the exception and belongs to its own module alone.
EXTENSIONS = {
    "status": ["base"],
    "elf": ["base", "platform", "elf"],
    "sched": ["base", "platform", "sched"],
    "artifact": ["base", "platform", "artifact"],
    "process": ["base", "platform", "process"],
    "memory": ["base", "platform", "memory"],
    "plugin": ["base", "platform", "elf", "fatelf", "imports", "plugin"],
    "dlpack": [],
    "arrays": [],
    "binding": [],
    "program": ["base", "platform", "elf", "imports", "executable", "sched", "memory", "program"],
    "function": [],
    "bound": [],
    "prepared": [],
    "device": ["base", "platform", "elf", "imports", "executable", "sched", "memory", "program"],
    "procedure": ["base", "platform", "elf", "imports", "executable", "sched", "memory", "program"],
    "capi": ["base", "platform", "elf", "imports", "executable", "sched", "memory", "program", "api"],
}


QUIET = ("unused-function", "unused-parameter", "missing-field-initializers", "cast-function-type",
         "deprecated-declarations", "sign-compare")  # fmt: skip


WARNINGS = ["-Wall", "-Wextra", "-Werror"]
SANITIZER = os.environ.get("PYDISPATCH_SANITIZE", "")


def compile_flags() -> list[str]:
    """What the C core and the code that Cython writes are both compiled with."""
    flags = ["-std=c11", "-O3", "-fvisibility=hidden", "-fno-semantic-interposition", *WARNINGS]
    return [*flags, f"-fsanitize={SANITIZER}", "-g", "-fno-omit-frame-pointer"] if SANITIZER else flags


def c_sources(folder: str) -> list[Path]:
    """The .c files of one folder of csrc that belong to this system, relative to the root."""
    return [p.relative_to(ROOT) for p in sources(ROOT / "csrc" / folder, host())]


def headers() -> list[str]:
    return sorted(str(p.relative_to(ROOT)) for p in (ROOT / "csrc").rglob("*.h"))


class BuildExt(build_ext):
    """Compiles each file of csrc/ once, whatever number of modules it is linked into, and says how far it is.

    Modules are built side by side, so that two of them must never write the same object file. Objects stay in
    build/csrc and are compiled again when their source, a header or this file is newer. Finished modules stay in
    build/modules in the same way: pip builds an editable install in a new folder each time.
    """

    def build_extensions(self) -> None:
        folder = ROOT / "build" / "csrc" / (SANITIZER or "plain")
        newest = max(Path(p).stat().st_mtime for p in [*headers(), "setup.py"])
        used = {name for folders in EXTENSIONS.values() for name in folders}
        objects = {path: folder / path.with_suffix(".o") for name in used for path in c_sources(name)}

        def is_stale(path: Path) -> bool:
            target = objects[path]
            return self.force or not target.exists() or target.stat().st_mtime < max(newest, path.stat().st_mtime)

        stale = sorted(filter(is_stale, objects))
        says = Progress("C core", len(stale))

        def compile_one(path: Path) -> None:
            says.next(path)
            self.compiler.compile(
                [str(path)], str(folder), [("_GNU_SOURCE", "1")], [INCLUDE, "csrc"], extra_postargs=compile_flags()
            )

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(compile_one, stale))
        for extension in self.extensions:
            folders = EXTENSIONS[extension.name.rpartition(".")[2]]
            extension.extra_objects = [str(objects[path]) for name in folders for path in c_sources(name)]
            extension.depends = [*extension.depends, *extension.extra_objects]
        self.modules = Progress("module", sum(self.is_stale(extension) for extension in self.extensions))
        super().build_extensions()

    def kept(self, extension: Extension) -> Path:
        """Where a finished module stays; its name tells the interpreters apart."""
        return ROOT / "build" / "modules" / (SANITIZER or "plain") / Path(self.get_ext_filename(extension.name)).name

    def is_stale(self, extension: Extension) -> bool:
        kept = self.kept(extension)
        newest = max(Path(p).stat().st_mtime for p in [*extension.sources, *extension.depends, "setup.py"])
        return self.force or not kept.exists() or kept.stat().st_mtime < newest

    def build_extension(self, extension: Extension) -> None:
        target, kept = Path(self.get_ext_fullpath(extension.name)), self.kept(extension)
        if self.is_stale(extension):
            self.modules.next(extension.name)
            target.unlink(missing_ok=True)  # it may be one of another sanitizer, and newer than its sources
            super().build_extension(extension)
            kept.parent.mkdir(parents=True, exist_ok=True)
            replace_by_copy(target, kept)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            replace_by_copy(kept, target)


class Progress:
    """Prints "C core, 3 of 41: csrc/elf/parse.c" for one thing after the other, from any thread."""

    def __init__(self, what: str, count: int) -> None:
        self.what, self.count, self.numbers = what, count, itertools.count(1)

    def next(self, name: object) -> None:
        print(f"{self.what}, {next(self.numbers)} of {self.count}: {name}", flush=True)


def replace_by_copy(source: Path, target: Path) -> None:
    """Never writes into a file that a process may have mapped."""
    fresh = target.with_name(f"{target.name}.{os.getpid()}")
    shutil.copy(source, fresh)
    fresh.replace(target)


def cython_view() -> str:
    """A tree in which pydispatch._core is where Cython looks for it (the sources live in the top-level _core/)."""
    view = ROOT / "build" / "cyview" / "pydispatch"
    view.mkdir(parents=True, exist_ok=True)
    (view / "__init__.pxd").touch()
    link = view / "_core"
    if not link.is_symlink():
        link.symlink_to(Path("../../../_core"), target_is_directory=True)
    return str(view.parent)


def extensions() -> list[Extension]:
    import numpy
    from Cython.Build import cythonize
    from Cython.Compiler import Options

    Options.warning_errors = True
    # what the C that Cython writes would trip over
    compile_args = [*compile_flags(), *(f"-Wno-{name}" for name in QUIET)]
    link_args = ["-pthread", "-lm", *(["-ldl"] if host() == "linux" else [])]
    if SANITIZER:
        link_args.append(f"-fsanitize={SANITIZER}")
    modules = []
    for name in EXTENSIONS:
        modules.append(
            Extension(
                f"pydispatch._core.{name}",
                [f"_core/{name}.pyx"],
                include_dirs=[INCLUDE, "csrc", numpy.get_include()],
                depends=headers(),
                extra_compile_args=compile_args,
                extra_link_args=link_args,
                define_macros=[("NPY_NO_DEPRECATED_API", "NPY_2_0_API_VERSION"), ("_GNU_SOURCE", "1")],
            )
        )
    return cythonize(
        modules,
        include_path=[cython_view()],
        build_dir="build/cython",
        annotate=bool(os.environ.get("PYDISPATCH_ANNOTATE")),
        compiler_directives={
            "language_level": 3,
            "boundscheck": False,
            "wraparound": False,
            "cdivision": True,
            "embedsignature": True,
            "initializedcheck": False,
            "freethreading_compatible": False,
        },
    )


class BuildPy(build_py):
    """Ships the public C headers inside the package, where pydispatch.get_include() points."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            target = Path(self.build_lib) / "pydispatch" / "include"
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(ROOT / INCLUDE, target)


needs_build = not {"--version", "--name", "egg_info", "clean"} & set(sys.argv[1:2])
setup(
    packages=[*find_packages(include=["pydispatch", "pydispatch.*"]), "pydispatch._core"],
    package_dir={"pydispatch._core": "_core"},
    ext_modules=extensions() if needs_build else [],
    cmdclass={"build_ext": BuildExt, "build_py": BuildPy},
    options={"build_ext": {"parallel": os.cpu_count()}},
)
