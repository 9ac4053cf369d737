"""Every shader of the check files, and every function of the library of WGSL, through Dawn's compiler."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

TESTS = Path(__file__).resolve().parents[2]
sys.path.append(str(TESTS))

import check_files  # noqa: E402

import pydispatch as pd  # noqa: E402
from pydispatch.compiler.emit.wgsl.library import functions  # noqa: E402

EXAMPLES = TESTS.parent / "examples" / "checks"


def test_tint_accepts_every_shader(tmp_path: Path) -> None:
    shaders = tmp_path / "shaders"
    shaders.mkdir()
    for path in [*check_files.files(), *EXAMPLES.glob("*.mlir")]:
        artifact = tmp_path / "made.pdx"
        pd.compile(path, targets="webgpu").save(artifact)
        with zipfile.ZipFile(artifact) as members:
            for name in members.namelist():
                if name.endswith(".wgsl"):
                    (shaders / f"{path.stem}-{name.replace('/', '-')}").write_bytes(members.read(name))
    (shaders / "library.wgsl").write_text("\n\n".join(text for text, _ in functions().values()))
    assert len(list(shaders.iterdir())) > 800
    command = ["node", str(Path(__file__).with_name("tint.mjs")), os.environ["PYDISPATCH_NODE_MODULES"], str(shaders)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr
