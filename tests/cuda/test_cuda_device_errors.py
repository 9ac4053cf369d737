"""What can go wrong with a CUDA device, and what is said then."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuda_fake import device, fake, install, restart
from cuda_programs import MIXED, MUL, TWO, export, layout, source, target, vectors
from fake_driver import CUresult, FakeDriver
from tools import DATA, compile_cu

import pydispatch as pd
from pydispatch.runtime.devices.cuda import driver
from pydispatch.runtime.devices.cuda.driver import DeviceLostError

__all__ = ["device", "fake"]  # fixtures

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "cuda"
SM_75 = DATA / "kernels_sm_75.ptx"
HEAD = ".version 7.0\n.target sm_75\n.address_size 64\n"


def built(exports: str, functions: str, path: Path = SM_75, **options: Any) -> Any:
    return pd.compile(source({target(): [path]}, exports, functions), targets="cuda", **options)


def given(*sizes: int) -> Any:
    return np.random.default_rng(sum(sizes)).standard_normal(sizes, dtype=np.float32)


# No device


def test_without_a_driver_the_list_loads_nothing_and_is_silent() -> None:
    code = (
        "import sys, pydispatch as pd\n"
        "from pydispatch.runtime.devices import cuda\n"
        "found = cuda.available()\n"
        "print(found, 'cuda.bindings.driver' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found, loaded = done.stdout.rsplit(maxsplit=1)
    assert done.stderr == ""
    if found == "[]":  # no machine with a GPU
        assert loaded == "False"


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    restart(monkeypatch)
    monkeypatch.setitem(sys.modules, driver.MODULE, None)  # as if it were not installed
    with pytest.raises(pd.DeviceUnavailableError, match=r"needs the package cuda: pip install 'pydispatch\[cuda"):
        pd.device("cuda:0")


def test_without_the_driver(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install(monkeypatch, tmp_path).has_library = False
    with pytest.raises(pd.DeviceUnavailableError) as caught:
        pd.device("cuda:0")
    for word in (driver.LIBRARY, "525 or newer", "--gpus all", "ptx-interpreter"):
        assert word in str(caught.value)
    assert not [name for name in pd.devices() if name.startswith("cuda")]


def test_without_the_real_driver() -> None:
    """The real package on a machine without a GPU says the same."""
    code = (
        "import pydispatch as pd\nprint(*pd.devices())\n"
        "try: pd.device('cuda:0')\nexcept pd.DeviceUnavailableError as e: print(e)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "" and ("cuda:0" in done.stdout or "the CUDA driver" in done.stdout), done.stdout


def test_an_old_driver(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install(monkeypatch, tmp_path, version=11080)
    expected = "of version 11.8, pydispatch needs 12.0: update the NVIDIA driver to 525 or newer"
    with pytest.raises(pd.DeviceUnavailableError, match=expected):
        pd.device("cuda:0")


def test_no_such_device(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake = install(monkeypatch, tmp_path, devices=2)
    with pytest.raises(pd.DeviceUnavailableError, match="no device 'cuda:2'; this machine has: cuda:0, cuda:1"):
        pd.device("cuda:2")
    install(monkeypatch, tmp_path, devices=0)
    with pytest.raises(pd.DeviceUnavailableError, match=r"CUDA_ERROR_NO_DEVICE.*the driver has no device"):
        pd.device("cuda:0")
    install(monkeypatch, tmp_path).fail["cuInit"] = [CUresult.CUDA_ERROR_NOT_INITIALIZED]
    with pytest.raises(pd.DeviceUnavailableError, match="a process that was forked after CUDA was used"):
        pd.device("cuda:0")
    assert fake.devices[0].retained == 0
    for name, expected in (
        ("cuda:0?check=2", "check: expected 0 or 1, got '2'"),
        ("cuda:0?speed=1", "has no option 'speed'; it has: check"),
        ("cuda:x", "expected a number after 'cuda:', got 'x'"),
    ):  # fmt: skip
        with pytest.raises(pd.InvalidArgumentError, match=expected):
            pd.device(name)


# Memory


def test_out_of_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install(monkeypatch, tmp_path, memory=1 << 20)
    device: Any = pd.device("cuda:0")
    held = device.empty(1 << 17)
    with pytest.raises(
        pd.OutOfMemoryError, match="no memory for 800256 bytes; 524288 are in use here, the device has 10485"
    ):
        device.empty(200_000)
    f = device.load(built(TWO, MIXED)).mixed_invocation
    a, b = given(2, 100_000)
    with pytest.raises(pd.OutOfMemoryError):
        f(a, b)
    del held  # what is free is given back before the device gives up
    others = [device.empty(1 << 15) for _ in range(4)]
    del others
    assert device.empty(200_000).nbytes == 800_000
    a, b = given(2, 1000)
    np.testing.assert_array_equal(f(a, b), b * (a * b))


# Kernels that go wrong

STRAY = (
    HEAD
    + """
.visible .entry stray(.param .u64 a, .param .u64 b, .param .u32 n) {
  .reg .b64 %rd<6>;
  .reg .b32 %r<4>;
  .reg .f32 %f<2>;
  ld.param.u64 %rd1, [a];
  ld.param.u64 %rd2, [b];
  ld.param.u32 %r1, [n];
  mov.u32 %r2, %tid.x;
  mul.lo.u32 %r3, %r2, %r1;
  mul.wide.u32 %rd3, %r3, 4096;
  add.s64 %rd4, %rd1, %rd3;
  add.s64 %rd5, %rd2, %rd3;
  ld.global.f32 %f1, [%rd4];
  st.global.f32 [%rd5], %f1;
  ret;
}
"""
)
"""Leaves its buffers for n above 1."""


def stray(tmp_path: Path) -> Any:
    text = SM_75.read_text()
    (tmp_path / "stray.ptx").write_text(text + STRAY[STRAY.index(".visible") :])
    exports = TWO + export("stray", 2, layout(1, "in", "out"))
    host = f"""{MIXED}
  {vectors("stray", inputs=1)}
  func.func @chain(%a: tensor<?xf32>) -> tensor<?xf32> {{
    %c0 = arith.constant 0 : index
    %d = tensor.dim %a, %c0 : tensor<?xf32>
    %n = arith.index_cast %d : index to i32
    %0 = flow.dispatch @executable::@simple_mul[%d](%n, %a, %a)
      : (i32, tensor<?xf32>{{%d}}, tensor<?xf32>{{%d}}) -> tensor<?xf32>{{%d}}
    %1 = flow.dispatch @executable::@stray[%d](%n, %0) : (i32, tensor<?xf32>{{%d}}) -> tensor<?xf32>{{%d}}
    return %1 : tensor<?xf32>
  }}"""
    return built(exports, host, tmp_path / "stray.ptx")


def test_an_illegal_address_names_the_dispatch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install(monkeypatch, tmp_path, devices=2)
    device, other = pd.device("cuda:0"), pd.device("cuda:1")
    program, beside = device.load(stray(tmp_path)), other.load(built(TWO, MIXED))
    a = given(64)
    y = program.stray(a)  # it is on its way
    with pytest.raises(pd.KernelError) as caught:
        y.numpy()
    said = str(caught.value)
    assert re.match(r"cuda:0: dispatch @executable::@stray 1x1x1 of @stray: CUDA_ERROR_ILLEGAL_ADDRESS", said), said
    assert "lost for this process" in said and "?check=1" not in said
    assert (caught.value.executable, caught.value.export, caught.value.code) == ("executable", "stray", 700)
    for each in (
        y.numpy, lambda: program.stray(a), lambda: program.mixed_invocation(a, a), device.synchronize,
        lambda: device.upload(a), lambda: pd.device("cuda:0"), lambda: device.load(stray(tmp_path)), device.trim,
    ):  # fmt: skip
        with pytest.raises(DeviceLostError, match=r"cuda:0 is lost for this process: CUDA_ERROR_ILLEGAL.*start a new"):
            each()
    np.testing.assert_array_equal(beside.mixed_invocation(a, a), a * (a * a))  # other devices go on
    device.close()


def test_an_illegal_address_among_many_dispatches(fake: FakeDriver, device: Any, tmp_path: Path) -> None:
    program = device.load(stray(tmp_path))
    a = given(64)
    program.mixed_invocation(a, a)
    call = program.chain.prepare(a)
    call()
    with pytest.raises(pd.KernelError) as caught:
        for _ in range(3):
            call()
            device.synchronize()
    assert re.search(r"one of the dispatches @executable::@simple_mul 1x1x1, .*@executable::@stray", str(caught.value))
    assert "@mixed_invocation, @chain" in str(caught.value) and "cuda:0?check=1" in str(caught.value)
    with pytest.raises(DeviceLostError):
        call()


def test_a_kernel_that_never_ends_hears_the_keyboard(
    fake: FakeDriver, device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    f = device.load(built(TWO, MIXED)).mixed_invocation
    a, b = given(2, 100)
    y = f(a, b)
    fake.never_ends = True
    query, asked = fake.cuStreamQuery, 0

    def interrupted(stream: Any) -> Any:
        nonlocal asked
        asked += 1
        if asked == 5:
            signal.raise_signal(signal.SIGINT)
        return query(stream)

    monkeypatch.setattr(fake, "cuStreamQuery", interrupted)
    with pytest.raises(KeyboardInterrupt):
        y.numpy()
    assert asked == 5
    fake.never_ends = False
    np.testing.assert_array_equal(y, b * (a * b))


def test_the_check_says_which(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for way in ("call", "prepared"):
        install(monkeypatch, tmp_path)
        program = pd.device("cuda:0?check=1").load(stray(tmp_path))
        a = given(64)
        np.testing.assert_array_equal(program.mixed_invocation.prepare(a, a)(), a * (a * a))
        with pytest.raises(pd.KernelError, match=r"cuda:0: dispatch @executable::@stray 1x1x1 of @chain: "):
            program.chain(a) if way == "call" else program.chain.prepare(a)()


# Code


def test_ptx_that_the_driver_refuses(fake: FakeDriver, device: Any, tmp_path: Path) -> None:
    artifact = built(TWO, MIXED)
    fake.fail["cuLinkComplete"] = [CUresult.CUDA_ERROR_UNSUPPORTED_PTX_VERSION]
    with pytest.raises(pd.DeviceUnavailableError) as caught:
        device.load(artifact)
    version = re.search(r"\.version (\S+)", SM_75.read_text())
    assert version is not None
    assert f"the text is PTX {version[1]}, and the driver is of CUDA 13.0: update the driver" in str(caught.value)
    bad = HEAD + ".visible .entry simple_mul(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n) {\n frob;\n}\n"
    device.add_executable("executable", bad.encode())
    with pytest.raises(pd.ArtifactError) as refused:
        device.load(pd.compile(source({}, MUL, vectors("simple_mul")), targets="cuda"))
    said = str(refused.value)
    assert "'@executable', given by" in said and "CUDA_ERROR_INVALID_PTX" in said, said
    assert "\n  ptxas fatal: " in said and "frob" in said, said  # the log of the compiler
    assert fake.links == {}


def test_kernels_that_do_not_fit(device: Any) -> None:
    device.add_executable("executable", SM_75)
    for exports, functions, expected in (
        (export("other", 0, layout(1, "in", "in", "out")), vectors("other"), "there is no entry 'other'"),
        (export("simple_mul", 0, layout(1, "in", "out")), vectors("simple_mul", inputs=1), "entry 'simple_mul'"),
    ):  # fmt: skip
        with pytest.raises(pd.ArtifactError, match=expected):
            device.load(pd.compile(source({}, exports, functions), targets="cuda"))


@pytest.mark.parametrize(("struct", "size"), [("int v[3];", 12), ("long v[2];", 16), ("char v[3];", 3)])
def test_structs_among_the_parameters_of_a_cubin(device: Any, struct: str, size: int) -> None:
    text = f"""struct S {{ {struct} }};
    extern "C" __global__ void add(const float* a, const float* b, float* c, S s) {{
        c[threadIdx.x] = a[threadIdx.x] + b[threadIdx.x] + s.v[0];
    }}"""
    device.add_executable("executable", compile_cu(text, "-cubin", "-arch=sm_80"))
    words = -(-size // 4)
    scalars, types = ", ".join(["%n"] * words), ", ".join(["i32"] * words)
    function = vectors("add").replace("(%n,", f"({scalars},").replace("(i32,", f"({types},")
    exports = export("add", 0, layout(words, "in", "in", "out"))
    program = pd.compile(source({}, exports, function), targets="cuda")
    with pytest.raises(pd.ArtifactError, match=f"its parameter 3 has {size} bytes, expected a scalar of 1, 2, 4 or 8"):
        device.load(program)


def test_functions_that_come_when_loading(device: Any) -> None:
    artifact = pd.compile(EXAMPLE / "functions.mlir")
    with pytest.raises(
        pd.MissingImportError, match=r"(?s)'scale_workgroup', which @scale calls.*add_plugin\('lib.ptx'\)"
    ):
        device.load(artifact)
    device.add_plugin(EXAMPLE / "plugin.ptx")
    program = device.load(artifact)
    a, b = given(2, 1000)
    np.testing.assert_array_equal(program.mixed_invocation(a, b), (a * b) * (a * b + b))
    (imported,) = program.imports
    assert imported.symbol == "scale_workgroup" and imported.provider == str(EXAMPLE / "plugin.ptx")


# The cache of cubins


def test_the_cache_is_used_checked_and_replaced(
    fake: FakeDriver, device: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    artifact, (a, b) = built(TWO, MIXED), given(2, 10)

    def works() -> None:
        np.testing.assert_array_equal(device.load(artifact).mixed_invocation(a, b), b * (a * b))

    works()
    (file,) = (tmp_path / "cuda").iterdir()
    first = file.read_bytes()
    assert fake.calls["cuLinkComplete"] == 1
    works()
    assert fake.calls["cuLinkComplete"] == 1
    for spoilt in (first[:-1], b"", first[:40] + b"x" + first[41:]):  # broken files count as missing
        file.write_bytes(spoilt)
        before = fake.calls["cuLinkComplete"]
        works()
        assert fake.calls["cuLinkComplete"] == before + 1 and file.read_bytes() == first
    before = fake.calls["cuLinkComplete"]
    fake.fail["cuModuleLoadDataEx"] = [CUresult.CUDA_ERROR_INVALID_IMAGE]  # whole, and not what this driver takes
    works()
    assert fake.calls["cuLinkComplete"] == before + 1
    monkeypatch.setattr(device._context, "version", 13010)  # another driver has files of its own
    works()
    assert len(list((tmp_path / "cuda").iterdir())) == 2
    monkeypatch.setenv("PYDISPATCH_CACHE_DIR", "/proc/nowhere")  # no place to write is no failure
    works()


def test_an_open_device_costs_nothing(fake: FakeDriver) -> None:
    device = pd.device("cuda:0")
    before = sum(fake.calls.values())
    assert all(pd.device("cuda:0") is not None for _ in range(100))
    assert sum(fake.calls.values()) == before and fake.devices[0].retained == 1
    del device
