"""Builds the C core (csrc/) and the Cython modules around it (_core/) into one library; pyproject.toml has the rest.

PYDISPATCH_SANITIZE=address|thread|undefined builds the extensions with that sanitizer. A wheel in dist/ of the same
sources, for this Python and machine (`make wheels`), gives the library, so that nothing is compiled; so does another
checkout of the same sources, PYDISPATCH_BUILT, that was built in place.
"""

from __future__ import annotations

import hashlib
import itertools
import multiprocessing
import os
import shutil
import sys
import sysconfig
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent
sys.path.insert(0, str(ROOT / "csrc"))  # a build backend does not look here
from declarations import write as write_declarations  # noqa: E402
from sources import host, sources, with_headers  # noqa: E402

INCLUDE = "csrc/include"
LIBRARY = "pydispatch._core.core"  # what everything is linked into; _core/__init__.py finds the modules in it
# Tells the interpreters and machines apart.
SUFFIX = os.environ.get("SETUPTOOLS_EXT_SUFFIX") or sysconfig.get_config_var("EXT_SUFFIX")

DIGEST = "sources.sha256"
KEPT = ("build", "library")
"""The folder of libraries that builds in place leave."""
QUIET = ("unused-function", "unused-parameter", "missing-field-initializers", "cast-function-type",
         "deprecated-declarations", "sign-compare")  # fmt: skip


WARNINGS = ["-Wall", "-Wextra", "-Werror"]
SANITIZER = os.environ.get("PYDISPATCH_SANITIZE", "")


ONCE = frozenset(("artifact", "capi", "device", "elf", "linking", "peak", "plugin", "program", "public", "sched",
                  "signals", "target", "timing", "timing_procedure", "trace"))  # fmt: skip
"""Modules that no call of a loaded program goes through: small code. They are half of what Cython writes."""


def compile_flags(level: str = "-O3") -> list[str]:
    """What the C core and the code that Cython writes are both compiled with."""
    flags = ["-std=c11", level, "-fvisibility=hidden", "-fno-semantic-interposition", *WARNINGS]
    if SANITIZER:
        return [*flags, f"-fsanitize={SANITIZER}", "-g", "-fno-omit-frame-pointer"]
    return [*flags, "-g1"]  # lines and functions for debuggers and perf; Python's own -g takes a third of the time


def c_sources() -> list[Path]:
    """The .c files of csrc that belong to this system, relative to the root."""
    folders = sorted(p for p in (ROOT / "csrc").iterdir() if p.is_dir())
    return [p.relative_to(ROOT) for folder in folders for p in sources(folder, host())]


def modified(path: Path) -> float:
    return path.stat().st_mtime


def digest() -> str:
    """Return the SHA-256 digest, in hexadecimal, of the sources and build rules of the library."""
    found = hashlib.sha256()
    for path in sorted([*(ROOT / "csrc").rglob("*.[chp]*"), *(ROOT / "_core").glob("*.p*"), ROOT / "setup.py"]):
        if path.suffix in (".c", ".h", ".py", ".pyx", ".pxd"):
            found.update(f"{path.relative_to(ROOT)} {path.stat().st_size}\n".encode() + path.read_bytes())
    return found.hexdigest()


def prebuilt() -> bytes | None:
    """Return the built library of equal sources, from the checkout PYDISPATCH_BUILT or a wheel in dist/; else None."""
    checkout = os.environ.get("PYDISPATCH_BUILT", "")
    kept = Path(checkout, *KEPT, SANITIZER or "plain", f"{LIBRARY.rpartition('.')[2]}{SUFFIX}")
    stamp = kept.with_name(DIGEST)
    if checkout and kept.exists() and stamp.exists() and stamp.read_text() == f"{SUFFIX} {digest()}":
        print(f"takes the library from {checkout}", flush=True)
        return kept.read_bytes()
    folder = LIBRARY.rpartition(".")[0].replace(".", "/")
    for path in sorted((ROOT / "dist").glob("*.whl")) if not SANITIZER else []:
        with zipfile.ZipFile(path) as wheel:
            names = {f"{folder}/{DIGEST}", library := f"{LIBRARY.replace('.', '/')}{SUFFIX}"}
            if names <= set(wheel.namelist()) and wheel.read(f"{folder}/{DIGEST}").decode() == digest():
                print(f"takes the library from {path.relative_to(ROOT)}", flush=True)
                return wheel.read(library)
    return None


class BuildExt(build_ext):
    """Compiles csrc/ and what Cython made of the modules, files side by side, and links all of it into one library.

    Objects stay in build/objects and are compiled again when their source, a header that it includes or this file is
    newer. The library stays in build/library in the same way: pip builds an editable install in a new folder each time.
    """

    def build_extension(self, extension: Extension) -> None:
        """Compile what is out of date, link the library in build/library, and copy it to where setuptools wants it.

        With a prebuilt library of equal sources, only copy that.
        """
        target = Path(self.get_ext_fullpath(extension.name))
        if PREBUILT is not None:
            target.parent.mkdir(parents=True, exist_ok=True)
            replace_by_copy(PREBUILT, target)
            return
        # The library in build/library, and the text of the file beside it: interpreter and digest of the sources.
        cached_library, stamp_text = ROOT.joinpath(*KEPT, SANITIZER or "plain", target.name), f"{SUFFIX} {digest()}"
        folder = ROOT / "build" / "objects" / (SANITIZER or "plain")
        own = folder / SUFFIX.strip(".")  # objects of this interpreter

        # Source file → object file. The objects of csrc do not depend on the interpreter, those of Cython's modules do.
        core = {path: folder / path.with_suffix(self.compiler.obj_extension) for path in c_sources()}
        modules = {p: own / p.with_suffix(self.compiler.obj_extension) for p in map(Path, extension.sources)}
        objects = {**core, **modules}

        def is_stale(path: Path) -> bool:
            """Return whether a source must be compiled: its object is missing, or older than an input of it."""
            target, inputs = objects[path], (*with_headers(ROOT / path), ROOT / "setup.py")
            return bool(self.force) or not target.exists() or target.stat().st_mtime < max(map(modified, inputs))

        def compile_one(path: Path) -> None:
            """Compile one source with the flags of the core or of Cython's modules; threads call this concurrently."""
            progress.next(path)
            is_core = path in core
            self.compiler.compile(
                [str(path)],
                str(folder if is_core else own),
                [("_GNU_SOURCE", "1")] if is_core else extension.define_macros,
                [INCLUDE, "csrc"] if is_core else extension.include_dirs,
                extra_postargs=compile_flags() if is_core else options_of(path.stem, extension),
            )

        stale = sorted(filter(is_stale, objects))
        progress = Progress(len(stale))
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(compile_one, stale))
        if not cached_library.exists() or modified(cached_library) < max(map(modified, objects.values())):
            cached_library.parent.mkdir(parents=True, exist_ok=True)
            self.compiler.link_shared_object(
                [str(p) for p in objects.values()],
                str(cached_library),
                libraries=self.get_libraries(extension),
                library_dirs=extension.library_dirs,
                extra_postargs=extension.extra_link_args,
                build_temp=self.build_temp,
            )
        cached_library.with_name(DIGEST).write_text(stamp_text)
        target.parent.mkdir(parents=True, exist_ok=True)
        replace_by_copy(cached_library, target)

    def copy_extensions_to_source(self) -> None:
        super().copy_extensions_to_source()
        for path in (ROOT / "_core").glob(f"*{SUFFIX}"):  # Python would find a module of its own before the library
            if path.name != f"{LIBRARY.rpartition('.')[2]}{SUFFIX}":
                path.unlink()


def options_of(module: str, extension: Extension) -> list[str]:
    """Of the compiler, for what Cython wrote. On an AMD EPYC (Zen 5), with gcc 12, calls take as long with -O3 as with
    -O2, and 15 % longer with -Os."""
    return [*extension.extra_compile_args, *(["-Os"] if module in ONCE else [])]


class Progress:
    """Prints "compiles 3 of 41: csrc/elf/parse.c" for one file after the other, from any thread."""

    def __init__(self, count: int) -> None:
        self.count, self.numbers = count, itertools.count(1)

    def next(self, name: object) -> None:
        print(f"compiles {next(self.numbers)} of {self.count}: {name}", flush=True)


def replace_by_copy(source: Path | bytes, target: Path) -> None:
    """Replace `target` by a copy of a file, or by bytes, in one step.

    The old file is not written to, because a process may have mapped it.
    """
    fresh = target.with_name(f"{target.name}.{os.getpid()}")
    if isinstance(source, Path):
        shutil.copy(source, fresh)
    else:
        fresh.write_bytes(source)
    fresh.replace(target)


def cython_view() -> str:
    """Return the path of a folder in which Cython finds pydispatch/_core, a link to the top-level _core/; create it."""
    view = ROOT / "build" / "cyview" / "pydispatch"
    view.mkdir(parents=True, exist_ok=True)
    (view / "__init__.pxd").touch()
    link = view / "_core"
    if not link.is_symlink():
        link.symlink_to(Path("../../../_core"), target_is_directory=True)
    return str(view.parent)


def extensions() -> list[Extension]:
    """Translate the Cython modules to C, and return one extension with all of it, which is linked into one library."""
    import numpy
    from Cython.Build import cythonize
    from Cython.Compiler import Options

    Options.warning_errors = True
    # The C that Cython writes has these warnings, which are errors for the core.
    compile_args = [*compile_flags("-O2"), *(f"-Wno-{name}" for name in QUIET)]
    link_args = ["-pthread", "-lm", *(["-ldl"] if host() == "linux" else [])]
    if SANITIZER:
        link_args.append(f"-fsanitize={SANITIZER}")
    settings = {
        "include_dirs": [INCLUDE, "csrc", numpy.get_include()],
        "extra_compile_args": compile_args,
        "extra_link_args": link_args,
        "define_macros": [("NPY_NO_DEPRECATED_API", "NPY_2_0_API_VERSION"), ("_GNU_SOURCE", "1")],
    }
    if host() == "linux":  # elsewhere, and by default from Python 3.14 on, processes would run this file again
        multiprocessing.set_start_method("fork", force=True)
    # One extension for each module, whose `sources` is then the C file.
    written = cythonize(
        [Extension(f"pydispatch._core.{p.stem}", [f"_core/{p.name}"]) for p in sorted((ROOT / "_core").glob("*.pyx"))],
        include_path=[cython_view()],
        build_dir=f"build/cython/{numpy.__version__}",  # numpy.pxd decides what is written
        nthreads=(os.cpu_count() or 1) if host() == "linux" else 0,
        annotate=bool(os.environ.get("PYDISPATCH_ANNOTATE")),
        compiler_directives={
            "language_level": 3,
            "boundscheck": False,
            "wraparound": False,
            "cdivision": True,
            "embedsignature": True,
            "initializedcheck": False,
            "freethreading_compatible": True,
        },
    )
    return [Extension(LIBRARY, [path for module in written for path in module.sources], **settings)]


class BuildPy(build_py):
    """Ships the public C headers inside the package, where pydispatch.get_include() points, and what says of which
    sources the library is."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            target = Path(self.build_lib) / "pydispatch" / "include"
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(ROOT / INCLUDE, target)
            (Path(self.build_lib) / "pydispatch" / "_core" / DIGEST).write_text(digest())


needs_build = not {"--version", "--name", "egg_info", "clean"} & set(sys.argv[1:2])
if needs_build:
    write_declarations(ROOT / "_core")
PREBUILT = prebuilt() if needs_build else None
setup(
    packages=[*find_packages(include=["pydispatch", "pydispatch.*"]), "pydispatch._core"],
    package_dir={"pydispatch._core": "_core"},
    ext_modules=[Extension(LIBRARY, [])] if PREBUILT is not None else extensions() if needs_build else [],
    cmdclass={"build_ext": BuildExt, "build_py": BuildPy},
)
