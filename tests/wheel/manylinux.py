"""Writes the sdist and wheels for any Linux with glibc 2.28 into dist/, and uses each of them: make wheels.

    python tests/wheel/manylinux.py [x86_64] [aarch64]

The compiler is the clang of the package ziglang, which links against any version of glibc. Both wheels are made from
the sdist, checked by auditwheel, installed beside NumPy alone, and run: that of another machine by qemu-user, with a
Python of Debian's packages.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import time
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "suites"), str(ROOT / "tests" / "wheel")]
from archive import Archive, call  # noqa: E402
from check import RUN  # noqa: E402

from pydispatch.compiler.toolchain.programs import zig_environment  # noqa: E402

WORK, DIST = ROOT / "build" / "wheels", ROOT / "dist"
GLIBC = "2.28"
MOST_BYTES = 4_000_000
MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
"""Debian's names for them."""

PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
SUITES = {"3.11": "bookworm", "3.13": "trixie", "3.14": "unstable"}
"""The suite of Debian that has this Python."""

LIBRARIES = ("libc6", "libexpat1", "zlib1g", "libffi8", "libgcc-s1", "libstdc++6")
QUIET = ["-m", "pip", "--disable-pip-version-check", "-q"]


def sdist() -> Path:
    """dist/pydispatch-*.tar.gz."""
    call(sys.executable, "-m", "build", "--no-isolation", "--sdist", "--outdir", DIST, cwd=ROOT)
    (found,) = DIST.glob("*.tar.gz")
    return found


def debian(machine: str) -> Path:
    """The root of an unpacked Debian with this version of Python, for another machine."""
    root = WORK / f"debian-{machine}-{PYTHON}"
    if not root.exists():
        names = [f"python{PYTHON}-minimal", f"libpython{PYTHON}-minimal", f"libpython{PYTHON}-stdlib",
                 f"libpython{PYTHON}-dev", *LIBRARIES]  # fmt: skip
        archive = Archive(WORK / f"apt-{machine}", SUITES[PYTHON], MACHINES[machine])
        try:
            archive.unpack(names, root)
        except BaseException:
            shutil.rmtree(root, ignore_errors=True)
            raise
        if not (root / "lib").exists():  # where the loader of older suites is
            (root / "lib").symlink_to("usr/lib")
    return root


def environment(machine: str, compiler: Path) -> dict[str, str]:
    """Return the environment for setup.py that compiles for a machine; zig has a cache that can be written."""
    flags = ["-g0", "-fno-sanitize=undefined"]
    suffix = str(sysconfig.get_config_var("EXT_SUFFIX")).replace(os.uname().machine, machine)
    if machine != os.uname().machine:
        headers = debian(machine) / "usr" / "include"
        # Before those of the Python that runs this: its pyconfig.h is another machine's.
        flags += [f"-I{headers / f'python{PYTHON}'}", f"-I{headers}"]
    return {
        **zig_environment(), "CC": str(compiler), "LDSHARED": f"{compiler} -shared -s", "CFLAGS": " ".join(flags),
        "SETUPTOOLS_EXT_SUFFIX": suffix,
        "_PYTHON_HOST_PLATFORM": f"linux-{machine}",
    }  # fmt: skip


def build(source: Path, machine: str) -> Path:
    """dist/pydispatch-*-manylinux_2_28_<machine>.whl from the sdist."""
    folder = WORK / machine
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with tarfile.open(source) as archive:
        archive.extractall(folder, filter="data")
    (tree,) = folder.iterdir()
    compiler = folder / "cc"
    compiler.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ziglang cc -target {machine}-linux-gnu.{GLIBC} "$@"\n')
    compiler.chmod(0o755)
    platform = f"manylinux_{GLIBC.replace('.', '_')}_{machine}"
    words = [sys.executable, "setup.py", "-q", "bdist_wheel", "--plat-name", platform, "--dist-dir", str(DIST)]
    done = subprocess.run(words, cwd=tree, env=environment(machine, compiler), capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}\n{done.stdout[-4000:]}{done.stderr[-8000:]}")
    (wheel,) = DIST.glob(f"*-{platform}.whl")
    return wheel


def examine(wheel: Path, machine: str) -> None:
    """Its size, what auditwheel says of the symbols that it needs, and that it has one library for one machine."""
    size = wheel.stat().st_size
    assert size <= MOST_BYTES, f"{wheel.name} has {size:,} bytes, more than {MOST_BYTES:,}"
    libraries = [name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(".so")]
    assert len(libraries) == 1 and f"-{machine}-" in libraries[0], libraries
    tools = WORK / "tools"
    if not tools.exists():
        venv.create(tools, with_pip=True)
        call(tools / "bin" / "python", *QUIET, "install", "auditwheel", cwd=WORK)
    text = " ".join(call(tools / "bin" / "python", "-m", "auditwheel", "show", wheel, cwd=WORK).split())
    wanted = f"manylinux_{GLIBC.replace('.', '_')}_{machine}"
    assert f'consistent with the following platform tag: "{wanted}"' in text or is_older(text, machine), text
    print(f"{wheel.name}: {size / 1e6:.2f} MB, auditwheel: {text.partition('platform tag: ')[2].split('.')[0]}")


def is_older(text: str, machine: str) -> bool:
    """Whether auditwheel finds it fit for a glibc that is older than the one that the name promises."""
    tag = text.partition('platform tag: "manylinux_')[2].partition('"')[0]
    numbers = tag.removesuffix(f"_{machine}").split("_")
    return tag.endswith(machine) and [int(n) for n in numbers] <= [int(n) for n in GLIBC.split(".")]


def use(wheel: Path, machine: str, artifact: Path) -> str:
    """Runs an artifact with the wheel and NumPy alone; what it prints."""
    place = WORK / f"use-{machine}"
    shutil.rmtree(place, ignore_errors=True)
    if machine == os.uname().machine:
        venv.create(place, with_pip=True)
        call(place / "bin" / "python", *QUIET, "install", wheel, cwd=WORK)
        return call(place / "bin" / "python", "-c", RUN, artifact, cwd=WORK)
    options = ["--platform", f"manylinux_{GLIBC.replace('.', '_')}_{machine}", "--platform", f"manylinux2014_{machine}",
               "--platform", f"manylinux_2_27_{machine}", "--python-version", PYTHON]  # fmt: skip
    call(sys.executable, *QUIET, "install", "--only-binary", ":all:", "--target", place, *options, wheel, cwd=WORK)
    root = debian(machine)
    words = ["env", f"PYTHONHOME={root / 'usr'}", f"PYTHONPATH={place}", f"qemu-{machine}-static", "-L", root,
             root / "usr" / "bin" / f"python{PYTHON}", "-c", RUN, artifact]  # fmt: skip
    return call(*words, cwd=WORK)


def main(machines: list[str]) -> int:
    unknown = [name for name in machines if name not in MACHINES]
    if unknown:
        print(f"expected some of {', '.join(MACHINES)}, got {', '.join(unknown)}")
        return 2
    shutil.rmtree(DIST, ignore_errors=True)
    WORK.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    source = sdist()
    print(f"{source.name}: {source.stat().st_size / 1e6:.2f} MB", flush=True)
    artifact = WORK / "mixed.pdx"
    call(sys.executable, "-m", "pydispatch.cli", "compile", ROOT / "examples" / "mixed" / "program.mlir", "-o",
         artifact, cwd=ROOT)  # fmt: skip
    left: dict[str, str] = {}
    for machine in machines or MACHINES:
        foreign = machine != os.uname().machine
        if foreign and PYTHON not in SUITES:
            left[machine] = f"no suite of Debian has a Python {PYTHON} for it"
        elif foreign and not shutil.which(f"qemu-{machine}-static"):
            left[machine] = f"no qemu-{machine}-static (apt-get install qemu-user-static)"
        else:
            wheel = build(source, machine)
            examine(wheel, machine)
            print(f"{machine}: {use(wheel, machine, artifact).strip()}", flush=True)
    for machine, why in left.items():
        print(f"no wheel for {machine}: {why}")
    print(f"{time.monotonic() - begin:.0f} s")
    return 3 if left else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
