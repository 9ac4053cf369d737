"""Builds the C core as libpydispatch and installs it for programs in C and C++ that have no Python.

    python csrc/install.py PREFIX

PREFIX gets include/, lib/libpydispatch.so and .a, and the files by which pkg-config and CMake find them. CC and CFLAGS
are the compiler and its options; DESTDIR is put before every path that is written. The library exports
`pyd_standalone_fill_sized`, and `pyd_standalone_fill` for programs that were built before it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

from sources import host, sources

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("base", "platform", "elf", "fatelf", "artifact", "imports", "executable", "memory", "plugin", "sched",
           "process", "program", "api", "standalone")  # fmt: skip
"""Folders of csrc with the sources of the library: all that its entry point `pyd_standalone_fill_sized` calls."""

WARNINGS = ("-Wall", "-Wextra", "-Werror")
SYSTEM_LIBRARIES = ("-pthread", "-ldl", "-lm")
PKG_CONFIG = """prefix={prefix}
libdir=${{prefix}}/lib
includedir=${{prefix}}/include

Name: pydispatch
Description: Loads and runs pydispatch artifacts
Version: {version}
Libs: -L${{libdir}} -lpydispatch
Libs.private: {libraries}
Cflags: -I${{includedir}}
"""
CMAKE = """get_filename_component(PYDISPATCH_PREFIX "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
include(CMakeFindDependencyMacro)
find_dependency(Threads)
if(NOT TARGET pydispatch::pydispatch)
  add_library(pydispatch::pydispatch SHARED IMPORTED)
  set_target_properties(pydispatch::pydispatch PROPERTIES
    IMPORTED_LOCATION "${PYDISPATCH_PREFIX}/lib/libpydispatch.so"
    INTERFACE_INCLUDE_DIRECTORIES "${PYDISPATCH_PREFIX}/include")
  add_library(pydispatch::static STATIC IMPORTED)
  set_target_properties(pydispatch::static PROPERTIES
    IMPORTED_LOCATION "${PYDISPATCH_PREFIX}/lib/libpydispatch.a"
    INTERFACE_INCLUDE_DIRECTORIES "${PYDISPATCH_PREFIX}/include"
    INTERFACE_LINK_LIBRARIES "Threads::Threads;${CMAKE_DL_LIBS};m")
endif()
"""
"""Text of pydispatch-config.cmake, which gives `find_package` the shared and the static library as targets."""
CMAKE_VERSION = """set(PACKAGE_VERSION "{version}")
if(PACKAGE_FIND_VERSION VERSION_GREATER PACKAGE_VERSION)
  set(PACKAGE_VERSION_COMPATIBLE FALSE)
else()
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
endif()
"""
"""Template of pydispatch-config-version.cmake, by which CMake's `find_package` refuses requests of a newer version."""


def version() -> str:
    """Return the version of the package."""
    found = re.search(r'^version = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert found
    return found.group(1)


def call(*command: object) -> None:
    """Run a command in the root of the repository, and exit with its output if it fails."""
    done = subprocess.run([str(c) for c in command], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")


def build(folder: Path) -> tuple[Path, Path]:
    """Build libpydispatch.so and libpydispatch.a in `folder`, and return their paths."""
    files = [path for name in FOLDERS for path in sources(ROOT / "csrc" / name, host())]
    compiler = os.environ.get("CC", "cc").split()
    options = ["-std=c11", "-O2", "-fPIC", "-fvisibility=hidden", "-D_GNU_SOURCE=1", "-DPYD_BUILD_LIBRARY=1",
               "-Icsrc/include", "-Icsrc", *WARNINGS, *os.environ.get("CFLAGS", "").split()]  # fmt: skip
    objects = [folder / f"{number}.o" for number in range(len(files))]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        compile_one = [*compiler, *options, "-c"]
        jobs = [pool.submit(call, *compile_one, *pair) for pair in zip(files, (f"-o{o}" for o in objects), strict=True)]
        for number, (job, file) in enumerate(zip(jobs, files, strict=True), 1):
            job.result()
            print(f"compiles {number} of {len(files)}: {file.relative_to(ROOT)}", flush=True)
    shared, static = folder / "libpydispatch.so", folder / "libpydispatch.a"
    call(*compiler, "-shared", f"-Wl,-soname,libpydispatch.so.{version().split('.')[0]}", "-o", shared, *objects,
         *os.environ.get("LDFLAGS", "").split(), *SYSTEM_LIBRARIES)  # fmt: skip
    call(os.environ.get("AR", "ar"), "rcs", static, *objects)
    return shared, static


def install(prefix: Path) -> None:
    """Install the libraries, headers, and the files for pkg-config and CMake below `prefix`."""
    target = Path(os.environ.get("DESTDIR", "") + str(prefix))
    library = target / "lib"
    cmake = library / "cmake" / "pydispatch"
    for folder in (cmake, library / "pkgconfig"):
        folder.mkdir(parents=True, exist_ok=True)
    headers = target / "include" / "pydispatch"
    shutil.rmtree(headers, ignore_errors=True)  # an older version may have had other headers
    shutil.copytree(ROOT / "csrc" / "include" / "pydispatch", headers)
    with tempfile.TemporaryDirectory() as folder:
        shared, static = build(Path(folder))
        # The link for the linker, the link that programs load (the soname), and the file.
        names = ("libpydispatch.so", f"libpydispatch.so.{version().split('.')[0]}", f"libpydispatch.so.{version()}")
        shutil.copy(static, library)
        shutil.copy(shared, library / names[2])
    for link, name in pairwise(names):
        (library / link).unlink(missing_ok=True)
        (library / link).symlink_to(name)
    libraries = " ".join(SYSTEM_LIBRARIES)
    text = PKG_CONFIG.format(prefix=prefix, version=version(), libraries=libraries)
    (library / "pkgconfig" / "pydispatch.pc").write_text(text)
    (cmake / "pydispatch-config.cmake").write_text(CMAKE)
    (cmake / "pydispatch-config-version.cmake").write_text(CMAKE_VERSION.format(version=version()))


def main(words: list[str]) -> int:
    """Install below the one path of the command line, and return the exit status."""
    if len(words) != 1 or words[0].startswith("-") or not Path(words[0]).is_absolute():
        print("expected one absolute path, as in: python csrc/install.py /usr/local")
        return 2
    if host() != "linux":
        print("libpydispatch is built for Linux alone; elsewhere compile csrc/ into the program, docs/embedding.md")
        return 2
    install(Path(words[0]))
    print(f"installed in {words[0]}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
