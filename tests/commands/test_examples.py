"""examples/commands on every device, from Python and from C; wrong commands on devices that run plans by themselves."""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
import threading
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pydispatch as pd

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "commands"
sys.path += [str(EXAMPLE), str(ROOT / "tests" / "cuda")]

import commands  # noqa: E402
from cuda_fake import install  # noqa: E402

DEVICES = {"cpu?workers=3": "cpu", "local-sync": "cpu", "ptx-interpreter": "cuda", "cuda:0": "cuda",
           "vulkan:0": "vulkan", "vulkan:0?staging=1": "vulkan", "webgpu:0": "webgpu"}  # fmt: skip
GPUS = [name for name, target in DEVICES.items() if target != "cpu"]
ONE = """
flow.func private @command(%x: tensor<?xf32>, i32) -> %x
func.func @f(%x: tensor<?xf32>, %n: i32) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %d = tensor.dim %x, %c0 : tensor<?xf32>
  %a = arith.addf %x, %x : tensor<?xf32>
  %b = flow.call @command(%a, %n) : (tensor<?xf32>{%d}, i32) -> %a{%d}
  %c = arith.addf %b, %b : tensor<?xf32>
  return %c : tensor<?xf32>
}
flow.func private @reader(tensor<4xf32>)
func.func @untouched(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = arith.addf %x, %x : tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func @reads(%x: tensor<4xf32>) {
  flow.call @reader(%x) : (tensor<4xf32>) -> ()
  return
}
"""


def opened(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    if name.startswith("cuda"):
        monkeypatch.setitem(sys.modules, "cuda.bindings", type(sys)("cuda.bindings"))
        sys.modules["cuda.bindings"].driver = install(monkeypatch, tmp_path)  # type: ignore[attr-defined]
    return pd.device(name)


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    return opened(request.param, monkeypatch, tmp_path)


@pytest.fixture(params=GPUS)
def gpu(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    return opened(request.param, monkeypatch, tmp_path)


def target(device: Any) -> str:
    kind = device.name.partition(":")[0].partition("?")[0]
    return "cuda" if kind == "ptx-interpreter" else kind


@pytest.fixture(scope="module")
def artifacts() -> dict[str, Any]:
    return {name: pd.compile(EXAMPLE / "program.mlir", targets=name) for name in ("cpu", "cuda", "vulkan", "webgpu")}


@pytest.fixture(scope="module")
def singles() -> dict[str, Any]:
    return {target: pd.compile(ONE, targets=target) for target in ("cuda", "vulkan", "webgpu")}


def check(program: Any) -> None:
    call = None
    for n in (7, 7, 1000, 7):
        for x in (np.arange(n, dtype=np.float32), np.ones(n, np.float32)):
            wanted = x * x - (x * x).mean()
            if call is None or n != 7:
                sums, packed, length = program.main(x)
            else:
                sums, packed, length = call(x)
            np.testing.assert_allclose(np.asarray(sums), wanted + 1, rtol=1e-5, atol=1e-4)
            data = np.asarray(packed)[: int(np.asarray(length))].tobytes()
            np.testing.assert_allclose(np.frombuffer(zlib.decompress(data), np.float32), wanted, rtol=1e-5, atol=1e-4)
        if n == 7:
            call = program.main.prepare(x)
    assert any("host command 'center'" in line for line in program.main.plan_of(x))


def test_from_python(device: Any, artifacts: dict[str, Any]) -> None:
    commands.register(device)
    program = device.load(artifacts[target(device)])
    check(program)
    if target(device) != "cpu":
        assert any("host command" in t.command for t in program.main.profile(np.ones(5, np.float32)))


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("commands") / "commands.so"
    flags = ["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{pd.get_include()}"]
    subprocess.run(["gcc", *flags, str(EXAMPLE / "commands.c"), "-o", str(out), "-lz"], check=True)
    return out


def filler(device: Any) -> Any:
    """What `ones` of C calls: a function of the driver."""
    if target(device) == "vulkan":
        from vulkan._vulkan import ffi, lib

        return int(ffi.cast("uintptr_t", ffi.addressof(lib, "vkCmdFillBuffer")))
    if device.name.startswith("cuda"):
        driver: Any = sys.modules["cuda.bindings"].driver  # type: ignore[attr-defined]
        kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint64, ctypes.c_uint32, ctypes.c_size_t, ctypes.c_uint64)
        return kind(lambda address, word, n, stream: int(driver.cuMemsetD32Async(address, word, n, stream)[0]))
    return None


def test_from_c(device: Any, artifacts: dict[str, Any], library: Path) -> None:
    code = ctypes.CDLL(str(library))
    is_stream = target(device) == "vulkan" or device.name.startswith("cuda")
    device.add_command("ones", code.ones, filler(device), synchronous=not is_stream)
    for name in ("center", "pack"):
        device.add_command(name, getattr(code, name), synchronous=True)
    check(device.load(artifacts[target(device)]))


def test_the_interpreter_always_gives_c_commands_process_memory(artifacts: dict[str, Any], library: Path) -> None:
    device, code = pd.device("ptx-interpreter"), ctypes.CDLL(str(library))
    for name in ("ones", "center", "pack"):
        device.add_command(name, getattr(code, name), synchronous=name == "pack")
    check(device.load(artifacts[target(device)]))


def test_from_a_plugin(artifacts: dict[str, Any], library: Path) -> None:
    device = pd.device("cpu?workers=2")
    device.add_plugin(library)
    check(device.load(artifacts["cpu"]))


def test_the_next_dispatch_runs_meanwhile(artifacts: dict[str, Any]) -> None:
    device = pd.device("cpu?workers=3")
    commands.register(device)
    lines = device.load(artifacts["cpu"]).main.plan_of(np.ones(100000, np.float32))
    (pack,) = [line for line in lines if "'pack'" in line]
    (add,) = [line for line in lines if "addf" in line]
    assert pack.split(":")[0] == add.split(":")[0], "one region: they run side by side"


# -- what is wrong


def single(gpu: Any, singles: dict[str, Any], command: Any, reader: Any = lambda context, x: None, **how: Any) -> Any:
    gpu.add_command("command", command, **{"synchronous": True, **how})
    gpu.add_command("reader", reader, synchronous=True)
    return gpu.load(singles[target(gpu)])


X = np.arange(4, dtype=np.float32)


def test_errors_name_the_command(gpu: Any, singles: dict[str, Any]) -> None:
    def command(context: Any, x: Any, n: int) -> None:
        if n == 3:
            raise ValueError("three")
        x.upload(x.numpy() + n)

    def reader(context: Any, x: Any) -> None:
        with pytest.raises(ValueError, match="read-only"):
            x.numpy()[0] = 1
        x.upload(X)

    program = single(gpu, singles, command, reader)
    np.testing.assert_array_equal(program.f(X, -2).numpy(), (2 * X - 2) * 2)
    held = []
    for _ in range(12):
        with pytest.raises(pd.CommandError, match="function 'f', host command 'command': ValueError: three") as caught:
            program.f(X, 3)
        assert caught.value.command == "command" and isinstance(caught.value.__cause__, ValueError)
        with pytest.raises(pd.CommandError, match=r"host command 'reader'.*to be read only"):
            program.reads(X)
        del caught  # its traceback has frames with buffers
        gc.collect()
        held.append(gpu.memory()["live_blocks"])
    assert held[-1] == held[3]  # a device may keep a few recordings
    np.testing.assert_array_equal(program.f(X, 1).numpy(), (2 * X + 1) * 2)  # the device goes on


def test_calling_back(gpu: Any, singles: dict[str, Any]) -> None:
    programs: list[Any] = []
    other = gpu.upload(X)
    program = single(gpu, singles, lambda context, x, n: programs[0].untouched(other))
    programs.append(program)
    with pytest.raises(pd.CommandError, match="called by a host command of its own"):
        program.f(X, 1)
    np.testing.assert_array_equal(program.untouched(X).numpy(), X + X)


def test_buffers_that_are_kept(gpu: Any, singles: dict[str, Any]) -> None:
    kept: list[Any] = []
    program = single(gpu, singles, lambda context, x, n: kept.append(x))
    program.f(X, 1)
    with pytest.raises(pd.InvalidArgumentError, match="has returned"):
        kept[0].numpy()


def test_values_that_are_returned(gpu: Any, singles: dict[str, Any]) -> None:
    program = single(gpu, singles, lambda context, x, n: x.numpy() + n)
    with pytest.raises(pd.CommandError, match=r"has returned an object of class ndarray.*y\.upload\(value\)"):
        program.f(X, 1)
    np.testing.assert_array_equal(program.untouched(X).numpy(), X + X)


def test_only_the_operand_is_copied(gpu: Any) -> None:
    """The operand is the second of two transients, which share a block on most devices."""
    artifact = pd.compile("""
flow.func private @command(%x: tensor<1000xf32>) -> %x
func.func @f(%x: tensor<1000xf32>) -> tensor<1000xf32> {
  %a = arith.mulf %x, %x : tensor<1000xf32>
  %b = arith.addf %x, %x : tensor<1000xf32>
  %c = flow.call @command(%b) : (tensor<1000xf32>) -> %b
  %d = flow.call @command(%a) : (tensor<1000xf32>) -> %a
  %e = arith.subf %c, %d : tensor<1000xf32>
  return %e : tensor<1000xf32>
}""", targets=target(gpu))  # fmt: skip
    copied: list[tuple[int, int]] = []

    def command(context: Any, x: Any) -> None:
        before = gpu.transfers()
        x.upload(x.download() + 1)
        after = gpu.transfers()
        copied.append((after["from_device_bytes"] - before["from_device_bytes"],
                       after["to_device_bytes"] - before["to_device_bytes"]))  # fmt: skip

    gpu.add_command("command", command, synchronous=True)
    x = np.linspace(-2, 2, 1000, dtype=np.float32)
    np.testing.assert_allclose(gpu.load(artifact).f(x), (x + x + 1) - (x * x + 1), rtol=1e-6)
    assert copied == [(0, 0) if gpu.empty(1).is_mapped else (4000, 4000)] * 2


def test_interrupts_pass(gpu: Any, singles: dict[str, Any]) -> None:
    def command(context: Any, x: Any, n: int) -> None:
        raise KeyboardInterrupt

    program = single(gpu, singles, command)
    with pytest.raises(KeyboardInterrupt):
        program.f(X, 1)
    np.testing.assert_array_equal(program.untouched(X).numpy(), X + X)


def test_missing_and_other_operands(gpu: Any, singles: dict[str, Any]) -> None:
    with pytest.raises(pd.MissingImportError, match="'command', with the operands"):
        gpu.load(singles[target(gpu)])
    with pytest.raises(pd.InvalidArgumentError, match="host command 'command'"):
        single(gpu, singles, lambda context: None)


def test_a_recording_is_made_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, singles: dict[str, Any]) -> None:
    calls: list[int] = []
    program = single(pd.device("vulkan:0"), singles, lambda context, x, n: calls.append(n), synchronous=False)
    call = program.f.prepare(X, 5)
    for _ in range(4):
        np.testing.assert_array_equal(call().numpy(), 4 * X)
    assert calls == [5]
    call(X, 6)  # a scalar that the command reads is another
    assert calls == [5, 6]


def test_work_that_is_not_valid(tmp_path: Path) -> None:
    code = f"""
import numpy as np, pydispatch as pd
device = pd.device("vulkan:0")
def command(context, x, n):
    from vulkan._vulkan import ffi, lib
    buffer = ffi.cast("VkBuffer", x.memory.handle)
    recorded = ffi.cast("VkCommandBuffer", context.command_buffer)
    lib.vkCmdFillBuffer(recorded, buffer, x.memory.offset, 4 if n else 3, 0)
device.add_command("command", command)
device.add_command("reader", lambda context, x: None)
program = device.load(pd.compile({ONE!r}, targets="vulkan"))
x = np.ones(4, np.float32)
try:
    program.f(x, 0)
except pd.CommandError as error:
    print("refused", "host command 'command' recorded work that is not valid" in str(error))
print(program.f(x, 1).numpy())
"""
    environment = {**os.environ, "PYDISPATCH_VULKAN_VALIDATION": "1"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)
    assert done.stdout == "refused True\n[0. 4. 4. 4.]\n", done.stdout + done.stderr


def test_threads(gpu: Any, singles: dict[str, Any]) -> None:
    program = single(gpu, singles, lambda context, x, n: x.upload(x.numpy() + n))
    wrong: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            for i in range(5):
                np.testing.assert_array_equal(program.f(X + seed, i).numpy(), (2 * (X + seed) + i) * 2)
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(t,)) for t in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong
