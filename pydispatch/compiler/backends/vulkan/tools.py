"""Optional external compilers of GLSL for the Vulkan target."""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path

from pydispatch import files
from pydispatch.compiler.kernel_ir.kernel import ObjectFile
from pydispatch.compiler.toolchain.programs import run_within
from pydispatch.errors import CompileError

ENVIRONMENT = "vulkan1.1"  # target: SPIR-V 1.3, which every supported device accepts
SECONDS = 60
"""Time limit of a compiler."""
INCLUDES = b"GL_GOOGLE_include_directive"
"""The extension for `#include`: always enabled in glslc, but in glslangValidator only where a shader requests it."""


_INSTALL = "apt-get install glslang-tools, or compile it elsewhere"
"""Beginning of the notes of errors without a compiler: how to get one."""


def compile_glsl(file: ObjectFile) -> bytes:
    """Compile a GLSL compute shader to SPIR-V. Raises CompileError with the compiler's diagnostics, or if there is no
    compiler.
    """
    if (glslc := shutil.which("glslc")) is not None:
        # `_compiled` adds the path of the dependency file after the last option.
        return _compiled(file, [glslc, "-fshader-stage=comp", f"--target-env={ENVIRONMENT}", "-O", "-MD", "-MF"])
    if (validator := shutil.which("glslangValidator")) is not None:
        return _compiled(file, [*_validator(validator), "--depfile"])  # its path is added, too
    raise CompileError(
        f"compiling '{file.name}' needs glslangValidator or glslc, and neither is there", file.location,
        f"{_INSTALL} and give the .spv",
    )  # fmt: skip


def compile_functions(file: ObjectFile) -> bytes:
    """Compile a library of GLSL functions to SPIR-V, with their names, including those that `main` does not call.
    Raises CompileError with the compiler's diagnostics, or if there is no compiler.
    """
    validator = shutil.which("glslangValidator")
    if validator is None:
        raise CompileError(
            f"compiling the functions of '{file.name}' needs glslangValidator, which is not there", file.location,
            f"{_INSTALL} with -V -g --keep-uncalled",
        )  # fmt: skip
    # `_compiled` adds the path of the dependency file after the last option.
    return _compiled(file, [*_validator(validator), "--keep-uncalled", "--depfile"])


def _validator(path: str) -> list[str]:
    """Return the command of the glslangValidator at `path` for compute shaders, without files."""
    return [path, "-V", "-S", "comp", "--target-env", ENVIRONMENT]


def _compiled(file: ObjectFile, command: list[str]) -> bytes:
    """Compile a source by a command, return the SPIR-V, and record the files that the source includes.

    command: ends with the option for the dependency file, whose path is appended here.
    """
    with tempfile.TemporaryDirectory(prefix="pydispatch-glsl-") as folder:
        source, output, depends = (Path(folder) / name for name in ("shader.comp", "shader.spv", "depends"))
        source.write_bytes(_with_includes(file.data))
        command = [*command, str(depends), *(f"-D{entry}" for entry in file.defines)]
        command += [*(f"-I{entry}" for entry in file.include_path), "-o", str(output), str(source)]
        done = run_within(SECONDS, f"compiling {file.name}", file.location, command, text=True, errors="replace")
        if done.returncode or not output.is_file():
            said = (done.stdout + done.stderr).replace(str(source), file.name).strip()
            raise CompileError(f"{file.name} does not compile:\n{said}", file.location)
        # The dependency file is a rule of make: "shader.spv: shader.comp a.h \" and further lines. Another process has
        # read these files, so that they are recorded here, for the cache of artifacts.
        if depends.is_file():
            listed = depends.read_text(errors="replace").partition(":")[2].replace("\\\n", " ").split()
            files.record_accesses(entry for entry in listed if entry != str(source))
        return output.read_bytes()


def _with_includes(data: bytes) -> bytes:
    """Return GLSL with the extension for `#include` enabled if the source uses it; line numbers stay the same."""
    if re.search(rb"^[ \t]*#[ \t]*include\b", data, re.MULTILINE) is None or INCLUDES in data:
        return data
    version = re.search(rb"^[ \t]*#[ \t]*version\b[^\n]*\n", data, re.MULTILINE)
    begin = version.end() if version is not None else 0  # #version must be the first directive
    line = data.count(b"\n", 0, begin) + 1  # of the user's text after the two inserted lines
    return data[:begin] + b"#extension %s : enable\n#line %d\n" % (INCLUDES, line) + data[begin:]
