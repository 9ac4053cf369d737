"""Packages of Debian's archive, unpacked beside those of the system, which stay as they are. Needs apt."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"


def call(*command: object, cwd: Path) -> str:
    """What a command prints; RuntimeError with all of it where the command fails."""
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


@dataclass(frozen=True)
class Archive:
    """work: a folder for all that apt keeps. suite: bookworm. architecture: arm64, or "" for this machine's."""

    work: Path
    suite: str
    architecture: str = ""

    @cached_property
    def options(self) -> list[str]:
        """Options for apt that keep all its files in our folder, with an index of the suite."""
        for folder in ("state/lists/partial", "cache/archives/partial"):
            (self.work / folder).mkdir(parents=True, exist_ok=True)
        (self.work / "status").touch()
        lines = [f"{kind} [signed-by={KEYS}] {mirror()} {self.suite} main\n" for kind in ("deb", "deb-src")]
        (self.work / "sources.list").write_text("".join(lines))
        options = {
            "Dir::State": self.work / "state", "Dir::State::status": self.work / "status",
            "Dir::Cache": self.work / "cache", "Dir::Etc::sourcelist": self.work / "sources.list",
            "Dir::Etc::sourceparts": "/dev/null", "APT::Sandbox::User": "root",
            **({"APT::Architecture": self.architecture} if self.architecture else {}),
        }  # fmt: skip
        found = [f"-o{name}={value}" for name, value in options.items()]
        call("apt-get", *found, "-q", "update", cwd=self.work)
        return found

    def unpack(self, names: Sequence[str], root: Path) -> None:
        """Unpacks packages of these names under `root`, without what they depend on."""
        packages = self.work / "packages"
        shutil.rmtree(packages, ignore_errors=True)
        packages.mkdir(parents=True)
        call("apt-get", *self.options, "-q", "download", *names, cwd=packages)
        root.mkdir(parents=True, exist_ok=True)
        for package in sorted(packages.glob("*.deb")):
            call("dpkg", "-x", package, root, cwd=packages)
