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
from pydispatch.formats.wgsl.grid import with_grid  # noqa: E402
from pydispatch.formats.wgsl.merge import least_buffer_count, with_merged_buffers  # noqa: E402
from pydispatch.formats.wgsl.read import read  # noqa: E402

EXAMPLES = TESTS.parent / "examples" / "checks"


def test_tint_accepts_every_shader(tmp_path: Path) -> None:
    shaders = tmp_path / "shaders"
    shaders.mkdir()
    sources = [*check_files.files(), *EXAMPLES.glob("*.mlir")]
    halves = [path for path in sources if "f16" in path.read_text()]
    for path, wanted in [*((path, "webgpu") for path in sources), *((path, "webgpu-f16") for path in halves)]:
        artifact = tmp_path / "made.pdx"
        pd.compile(path, targets=wanted).save(artifact)
        with zipfile.ZipFile(artifact) as members:
            for name in members.namelist():
                if name.endswith(".wgsl"):
                    target = shaders / f"{wanted}-{path.stem}-{name.replace('/', '-')}"
                    target.write_bytes(members.read(name))
                    _write_changed(target)
    library = ["enable f16;", *(text for text, _ in functions().values())]
    (shaders / "library.wgsl").write_text("\n\n".join(library))
    assert len(list(shaders.glob("*.changed.wgsl"))) > 800
    command = ["node", str(Path(__file__).with_name("tint.mjs")), os.environ["PYDISPATCH_NODE_MODULES"], str(shaders)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr


def _write_changed(path: Path) -> None:
    """The shader's first entry point over as few buffers as it can have, and over another grid."""
    module = read(path.read_bytes(), path.name)
    entry = module.entry_points[0]
    found = with_merged_buffers(module, entry, least_buffer_count(module, entry))
    assert found is not None
    module = read(found.text.encode(), path.name)
    path.with_suffix(".changed.wgsl").write_text(with_grid(module, module.entry_points[0]))
