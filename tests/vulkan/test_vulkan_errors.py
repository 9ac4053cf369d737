"""What is refused, in which words, and that everything else lives on."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from vulkan_programs import MUL, PUSH, binary, buffers, export, source

import pydispatch as pd
from pydispatch.errors import SystemError_
from pydispatch.runtime.devices.vulkan import api

GOOD = export("mul", 0, 1, ("in", "in", "out"))


def compiled(spv: Path | str, exports: str = GOOD, functions: str = "") -> Any:
    return pd.compile(source([str(spv)], exports, functions or binary("mul")), targets="vulkan")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (buffers("-a", "-b", "x", "c") + PUSH + MUL, r"'B3' \(set 0, binding 3\) is beyond the 3 bindings"),
        (buffers("-a", "-b", "c") + PUSH.replace("uint n;", "uint n; uint m;") + MUL.replace("< n", "< n + m"),
         "its push constants reach 8 bytes, the layout has 1 constants"),
        (buffers("a", "-b", "c") + PUSH + MUL + "\n#define X", None),
        (buffers("a", "-b", "c") + PUSH + "void main() { a[0] = b[0] + c[n]; }",
         r"'B0' \(set 0, binding 0\) is written, and the layout says ReadOnly"),
        (buffers("-a", "-b", "c").replace("set=0, binding=1", "set=1, binding=1") + PUSH + MUL,
         "is in another descriptor set than 0"),
        ("layout(set=0, binding=0) uniform U { float u[4]; };" + buffers("-a", "-b", "c").partition("\n")[2] + PUSH
         + "void main() { c[n] = u[1] + b[0]; }", "is a uniform buffer"),
    ],
)  # fmt: skip
def test_a_shader_that_does_not_fit_its_layout(glsl: Any, text: str, message: str | None) -> None:
    spv = glsl("mul", text)
    if message is None:
        compiled(spv)
        return
    with pytest.raises(pd.CompileError, match=message) as error:
        compiled(spv)
    assert "export '@mul' does not fit entry point 'main'" in str(error.value) and "note: change the layout" in str(
        error.value
    )


@pytest.mark.parametrize("cut", [0, 3, 19, 20, 40, 101, 400])
def test_corrupt_objects(glsl: Any, tmp_path: Path, cut: int) -> None:
    data = glsl("mul", buffers("-a", "-b", "c") + PUSH + MUL).read_bytes()
    (tmp_path / "mul.spv").write_bytes(data[:cut])
    with pytest.raises(pd.CompileError, match=r"mul.spv"):
        compiled(tmp_path / "mul.spv")


def test_invalid_code_is_found_by_the_validator(glsl: Any, tmp_path: Path) -> None:
    """What our own check does not look at: a capability that is used and not declared."""
    body = buffers("a", type="double") + "void main() { a[0] = a[1] * a[2]; }"
    words = np.frombuffer(glsl("mul", body).read_bytes(), np.uint32).copy()
    at = int(np.flatnonzero((words[:-1] == 2 << 16 | 17) & (words[1:] == 10))[0])  # OpCapability Float64
    words[at + 1] = 22  # Int16
    (tmp_path / "mul.spv").write_bytes(words.tobytes())
    with pytest.raises(pd.CompileError, match="is not valid SPIR-V:\nerror:"):
        compiled(tmp_path / "mul.spv")


def test_workgroups_over_the_limits(device: Any, glsl: Any) -> None:
    artifact = compiled(glsl("mul", buffers("-a", "-b", "c") + PUSH + MUL, "local_size_x = 64, local_size_y = 64"))
    assert "maxComputeWorkGroupInvocations>=4096" in artifact.executables[0].variants[0].requires
    with pytest.raises(
        pd.DeviceUnavailableError,
        match=r"needs maxComputeWorkGroupInvocations>=4096 \(it has \d+\), which the machine lacks$",
    ):
        device.load(artifact)
    shared = glsl(
        "mul",
        "shared float s[100000];"
        + buffers("-a", "-b", "c")
        + PUSH
        + "void main() { s[n] = a[0]; barrier(); c[0] = s[n + 1] + b[0]; }",
    )
    with pytest.raises(pd.DeviceUnavailableError, match="maxComputeSharedMemorySize>=400000"):
        device.load(compiled(shared))


def test_a_grid_over_the_limits(device: Any, glsl: Any) -> None:
    spv = glsl("mul", buffers("-a", "-b", "c") + PUSH + MUL)
    text = """func.func @mul(%a: tensor<4xf32>, %b: tensor<4xf32>, %w: index) -> tensor<4xf32> {
    %n = arith.constant 4 : i32
    %r = flow.dispatch @executable::@mul[%w](%n, %a, %b) : (i32, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    return %r : tensor<4xf32>
  }"""
    f = device.load(compiled(spv, GOOD, text)).mul
    a = np.ones(4, np.float32)
    for _ in range(2):
        with pytest.raises(
            pd.InvalidArgumentError,
            match=r"@executable::@mul: a grid of 100000 x 1 x 1 workgroups, vulkan:0 starts at most 65535 x",
        ):
            f(a, a, 6_400_000)
    np.testing.assert_array_equal(f(a, a + 2, 64), a + 2)


def test_features_that_are_missing_are_named(device: Any, glsl: Any) -> None:
    head = "#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require"
    body = "void main() { float16_t x = float16_t(a[0]); c[n] = float(x * x) + b[0]; }"
    artifact = compiled(glsl("mul", buffers("-a", "-b", "c") + PUSH + body, "local_size_x = 64", head))
    names = device._context.features.names
    from pydispatch.runtime.devices.vulkan.features import Names

    poor = Names(names - {"Float16"})
    poor.limits = names.limits
    device._context.features.names = poor
    try:
        with pytest.raises(pd.DeviceUnavailableError, match="variant 'vulkan' needs Float16, which the machine lacks"):
            device.load(artifact)
    finally:
        device._context.features.names = names
    device.load(artifact)


def test_one_subgroup_is_warned_about(device: Any, glsl: Any) -> None:
    head = "#extension GL_KHR_shader_subgroup_arithmetic : require"
    body = "void main() { uint i = gl_LocalInvocationID.x; float s = subgroupAdd(a[i]); if (i == 0) c[n] = s + b[0]; }"
    size = device._context.features.subgroup_size
    wide = compiled(glsl("mul", buffers("-a", "-b", "c") + PUSH + body, f"local_size_x = {2 * size}", head))
    with pytest.warns(RuntimeWarning, match=f"whose subgroups are of {size}") as caught:
        device.load(wide)
    assert [warning.filename for warning in caught] == [__file__]
    narrow = compiled(glsl("mul", buffers("-a", "-b", "c") + PUSH + body, f"local_size_x = {size}", head))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        device.load(narrow)


def test_out_of_device_memory(device: Any) -> None:
    with pytest.raises(
        pd.OutOfMemoryError, match=r"vulkan:0: \d+ bytes in one buffer, the device has at most|no memory for"
    ):
        device.empty(1 << 50, np.uint8)
    pool = device._context.pool
    real, pool.calls = pool.calls, _Failing(pool.calls)
    try:
        with pytest.raises(
            pd.OutOfMemoryError, match=r"no memory for 41943040 bytes; \d+ are in use .*VK_ERROR_OUT_OF_DEVICE_MEMORY"
        ):
            device.empty(40 << 20, np.uint8)
    finally:
        pool.calls = real
    assert (device.upload(np.arange(5)).download() == np.arange(5)).all()
    real, pool.total = pool.total, 100 << 20  # lavapipe itself would never refuse
    try:
        held = []
        with pytest.raises(pd.OutOfMemoryError, match=r"no memory for 20971520 bytes; \d+ are in use \(the device has"):
            for _ in range(10):
                held.append(device.empty(20 << 20, np.uint8))
        assert held
        del held[:]
        device.empty(20 << 20, np.uint8)
    finally:
        pool.total = real


def test_files_that_cannot_be_read(device: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for made in (device, pd.device("cpu")):
        with pytest.raises(SystemError_, match=r"add_executable 'e': cannot read 'k.spv': No such file .*; g"):
            made.add_executable("e", "k.spv")
        with pytest.raises(SystemError_, match=r"add_executable 'e': cannot read '/.*': it is a folder, not a file; g"):
            made.add_executable("e", tmp_path)
        with pytest.raises(pd.InvalidArgumentError, match=r"add_executable 'e': expected the path or .*, got NoneType"):
            made.add_executable("e", None)
        with pytest.raises(pd.InvalidArgumentError, match=r"add_plugin: expected the path or .*, got int"):
            made.add_plugin(5)
        with pytest.raises(SystemError_, match=r"'k\.so'.*No such file or directory"):
            made.add_plugin("k.so")
    (tmp_path / "k.comp").write_text("#version 450\nvoid main() {}\n")
    with pytest.raises(pd.ArtifactError, match=r"k.comp is no SPIR-V module: glslangValidator -V"):
        device.add_executable("e", tmp_path / "k.comp")


class _Failing:
    """The calls of a device whose memory is full."""

    def __init__(self, calls: Any) -> None:
        self._calls = calls

    def __getattr__(self, name: str) -> Any:
        return (lambda *a: api.OUT_OF_DEVICE_MEMORY) if name == "vkAllocateMemory" else getattr(self._calls, name)


def test_a_lost_device_is_opened_again(glsl: Any) -> None:
    device = pd.device("vulkan:0?staging=1")
    artifact = compiled(glsl("mul", buffers("-a", "-b", "c") + PUSH + MUL))
    program, a = device.load(artifact), np.ones(8, np.float32)
    program.mul(a, a)
    context = device._context
    losing = context.ffi.callback("PFN_vkQueueSubmit", lambda *a: api.DEVICE_LOST)
    context.addresses = int(context.ffi.cast("uintptr_t", losing)), *context.addresses[1:]
    for _ in range(2):
        with pytest.raises(pd.DeviceUnavailableError, match="lost"):
            program.mul(a, a)
    with pytest.raises(pd.DeviceUnavailableError, match="lost"):
        device.load(artifact)
    fresh = pd.device("vulkan:0?staging=1")
    assert fresh._context is not context
    np.testing.assert_array_equal(fresh.load(artifact).mul(a, a + 1), a + 1)
    np.testing.assert_array_equal(pd.device("vulkan:0").load(artifact).mul(a, a + 1), a + 1)


def test_closed_programs_and_devices(glsl: Any) -> None:
    device = pd.device("vulkan:0?staging=1")
    program, a = device.load(compiled(glsl("mul", buffers("-a", "-b", "c") + PUSH + MUL))), np.ones(8, np.float32)
    y = program.mul(a, a)
    program.close()
    with pytest.raises(pd.Error, match="@mul: its program was closed"):
        program.mul(a, a)
    device.close()
    with pytest.raises(pd.DeviceUnavailableError, match="vulkan:0 was closed"):
        device.empty(4)
    del y
    other = pd.device("vulkan:0?staging=1")
    used = other.load(compiled(glsl("mul", buffers("-a", "-b", "c") + PUSH + MUL)))
    used.mul(a, a)
    other.close()  # with nothing in use all its memory goes
    for _ in range(2):
        with pytest.raises(pd.DeviceUnavailableError, match=r"vulkan:0( staging)? was closed"):
            used.mul(a, a)
    np.testing.assert_array_equal(pd.device("vulkan:0?staging=1").upload(a).download(), a)


def test_names_of_devices() -> None:
    with pytest.raises(pd.DeviceUnavailableError, match=r"there is no device 'vulkan:99'; this machine has: vulkan:0"):
        pd.device("vulkan:99")
    with pytest.raises(pd.InvalidArgumentError, match="expected a number after 'vulkan:', got 'x'"):
        pd.device("vulkan:x")
    with pytest.raises(pd.InvalidArgumentError, match="has no option 'workers'; it has: staging"):
        pd.device("vulkan?workers=2")


def run(script: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env={**os.environ, **environment}, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_no_driver_and_no_loader_and_no_package() -> None:
    script = """
import sys
import pydispatch as pd
{}
try:
    pd.device("vulkan:0")
except pd.DeviceUnavailableError as error:
    print(error)
print([name for name in pd.devices() if not name.startswith("webgpu")], pd.device("cpu").name)
"""
    found = run(script.format(""), VK_ICD_FILENAMES="/nonexistent.json", VK_DRIVER_FILES="/nonexistent.json")
    assert "['cpu'] cpu" in found
    assert (
        "no Vulkan driver where VK_DRIVER_FILES=/nonexistent.json and VK_ICD_FILENAMES=/nonexistent.json says" in found
    )
    hidden = "sys.modules['vulkan'] = None"
    assert "Vulkan needs the package vulkan" in run(script.format(hidden))
    broken = """
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "vulkan._vulkan":
            raise OSError("libvulkan.so.1: cannot open shared object file")
sys.meta_path.insert(0, Finder())"""
    found = run(script.format(broken))
    assert "the Vulkan loader (libvulkan.so.1) cannot be used" in found and "['cpu'] cpu" in found


def test_a_broken_pipeline_cache_is_nothing(tmp_path: Path) -> None:
    script = "import os, pydispatch as pd; d = pd.device('vulkan:0'); "
    script += "print(os.path.join(os.environ['PYDISPATCH_CACHE_DIR'], *d._context.cache.entry)); d.close()"
    path = Path(run(script, PYDISPATCH_CACHE_DIR=str(tmp_path)).strip())
    assert path.is_relative_to(tmp_path)
    path.parent.mkdir(parents=True, exist_ok=True)
    for content in (b"", b"x" * 10, b"x" * 1000, bytes(40)):
        path.write_bytes(content)
        run(script, PYDISPATCH_CACHE_DIR=str(tmp_path))


def test_imports_load_no_vulkan() -> None:
    assert run("import sys, pydispatch as pd; pd.device('cpu'); print('vulkan' in sys.modules)").strip() == "False"


def test_an_artifact_for_another_device(device: Any) -> None:
    text = "func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {\n%r = arith.addf %a, %a : tensor<4xf32>\n"
    text += "return %r : tensor<4xf32> }"
    with pytest.raises(pd.DeviceUnavailableError, match=r"has the format embedded-elf(.|\n)*targets=\('vulkan', ...\)"):
        device.load(pd.compile(text, targets="cpu"))


@pytest.mark.parametrize("call", ["vkCreateShaderModule", "vkCreateComputePipelines"])
def test_a_driver_that_refuses_a_shader(call: str, glsl: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    device = pd.device("vulkan:0")
    artifact = compiled(glsl("mul", buffers("-a", "-b", "c") + PUSH + MUL))
    monkeypatch.setattr(device._context.calls, call, lambda *a: -13)
    for said, hint in (("", "`spirv-val kernels.spv` says which"), ("error: line 3: no such type", "no such type")):
        monkeypatch.setattr("pydispatch.runtime.devices.vulkan.pipelines.validate", lambda code, said=said: said)
        with pytest.raises(pd.ArtifactError, match=f"refuses a shader .*{call}: VK_ERROR_UNKNOWN: .*{hint}"):
            device.load(artifact)
    monkeypatch.undo()
    x = np.ones(8, np.float32)
    np.testing.assert_array_equal(np.asarray(device.load(artifact).mul(x, x)), x)
