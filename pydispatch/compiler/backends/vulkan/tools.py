"""Tools beside the interpreter that the Vulkan target uses when they are there."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from pydispatch.compiler.kernel_ir.kernel import ObjectFile
from pydispatch.errors import CompileError

ENVIRONMENT = "vulkan1.1"  # target: SPIR-V 1.3, which every supported device accepts
SECONDS = 60


def compile_glsl(file: ObjectFile) -> bytes:
    """A compute shader in GLSL as SPIR-V. CompileError with the compiler's diagnostics, or when there is none."""
    with tempfile.TemporaryDirectory(prefix="pydispatch-glsl-") as folder:
        source, made = Path(folder) / "shader.comp", Path(folder) / "shader.spv"
        source.write_bytes(file.data)
        include = Path(file.name).parent
        if glslc := shutil.which("glslc"):
            command = [
                glslc,
                "-fshader-stage=comp",
                f"--target-env={ENVIRONMENT}",
                "-O",
                f"-I{include}",
                "-o",
                str(made),
            ]
        elif validator := shutil.which("glslangValidator"):
            command = [validator, "-V", "-S", "comp", "--target-env", ENVIRONMENT, f"-I{include}", "-o", str(made)]
        else:
            raise CompileError(
                f"compiling '{file.name}' needs glslangValidator or glslc, and neither is there",
                file.location,
                "apt-get install glslang-tools, or compile it elsewhere and give the .spv",
            )
        done = _run([*command, str(source)])
        if done.returncode or not made.is_file():
            said = (done.stdout + done.stderr).replace(str(source), file.name).strip()
            raise CompileError(f"{file.name} does not compile:\n{said}", file.location)
        return made.read_bytes()


def compile_functions(file: ObjectFile) -> bytes:
    """A library of functions in GLSL as SPIR-V, with their names, whether `main` calls them or not.

    CompileError with the compiler's diagnostics, or when there is none.
    """
    validator = shutil.which("glslangValidator")
    if validator is None:
        raise CompileError(
            f"compiling the functions of '{file.name}' needs glslangValidator, which is not there",
            file.location,
            "apt-get install glslang-tools, or compile it elsewhere with -V -g --keep-uncalled",
        )
    with tempfile.TemporaryDirectory(prefix="pydispatch-glsl-") as folder:
        source, made = Path(folder) / "functions.comp", Path(folder) / "functions.spv"
        source.write_bytes(file.data)
        command = [validator, "-V", "--keep-uncalled", "-S", "comp", "--target-env", ENVIRONMENT]
        command += [f"-I{Path(file.name).parent}", "-o", str(made), str(source)]
        done = _run(command)
        if done.returncode or not made.is_file():
            said = (done.stdout + done.stderr).replace(str(source), file.name).strip()
            raise CompileError(f"{file.name} does not compile:\n{said}", file.location)
        return made.read_bytes()


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=SECONDS)
