"""The device "ptx-interpreter": calls, memory, choices and errors around the engine, against NumPy."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuda_programs import MIXED, MUL, TWO, export, layout, objects, size, source, target, vectors
from tools import DATA
from work import count_calls

import pydispatch as pd

SM_75, SM_80, SM_90 = (DATA / f"kernels_sm_{n}.ptx" for n in (75, 80, 90))
HEAD = ".version 7.0\n.target sm_75\n.address_size 64\n"

STRAY = (
    HEAD
    + """
.visible .entry stray(.param .u64 a, .param .u64 b, .param .u32 n) {
  .reg .b64 %rd<6>;
  .reg .b32 %r<4>;
  .reg .f32 %f<2>;
  .reg .pred %p<2>;
  ld.param.u64 %rd1, [a];
  ld.param.u64 %rd2, [b];
  ld.param.u32 %r1, [n];
  mov.u32 %r2, %tid.x;
  mul.wide.u32 %rd3, %r2, 4;
  add.s64 %rd4, %rd1, %rd3;
  add.s64 %rd5, %rd2, %rd3;
  ld.global.f32 %f1, [%rd4];
  st.global.f32 [%rd5], %f1;
  ret;
}
"""
)
"""One block of 64 threads that copies an element each, whether there are as many or not."""
STRAY_LINE = 1 + STRAY[: STRAY.index("ld.global.f32")].count("\n")


def built(keyed: Any, exports: str, functions: str, more: str = "", **options: Any) -> Any:
    return pd.compile(source(keyed, exports, functions, more), targets="cuda", **options)


def mixed(file: Path = SM_75) -> Any:
    return built({target(): [file]}, TWO, MIXED)


@pytest.fixture
def device() -> Any:
    return pd.device("ptx-interpreter")


def given(*sizes: int) -> Any:
    return np.random.default_rng(sum(sizes)).standard_normal(sizes, dtype=np.float32)


def test_prepared_calls_and_profiles(device: Any) -> None:
    f = device.load(mixed()).mixed_invocation
    a, b = given(2, 100)
    call = f.prepare(a, b)
    first = call()
    np.testing.assert_array_equal(first, b * (a * b))
    a[:] = 1
    np.testing.assert_array_equal(call(), b * b)
    assert call(b, device.upload(b)) is first
    np.testing.assert_array_equal(first, b * (b * b))
    with pytest.raises(pd.InvalidArgumentError, match="prepared for arguments of other shapes"):
        call(b[:7], b[:7])
    out = np.empty_like(a)
    assert f.prepare(a, b, out=out)() is out
    times = f.profile(a, b)
    assert [t.command for t in times if "@" in t.command] == [
        "@executable::@simple_mul 2x1x1", "@executable::@simple_mul_inplace 2x1x1",
    ]  # fmt: skip
    assert all(t.seconds > 0 for t in times)


def test_memory_goes_back(device: Any) -> None:
    f = device.load(mixed()).mixed_invocation
    a, b = given(2, 100)
    y = f(a, b)
    assert device.memory()["live_blocks"] == 1 and device.memory()["live_bytes"] == 400
    view = y.numpy()
    del y
    assert device.memory()["live_blocks"] == 1
    del view
    assert device.memory()["live_blocks"] == 0


def test_dynamic_shared_memory_that_is_too_small(device: Any) -> None:
    block = size(128, more=", workgroup_local_memory = 512 : index")
    host = """func.func @reverse(%a: tensor<512xf32>) -> tensor<512xf32> {
    %d = arith.constant 512 : index
    %r = flow.dispatch @executable::@reverse[%d](%a) : (tensor<512xf32>) -> tensor<512xf32>
    return %r : tensor<512xf32>
  }"""
    artifact = built({target(): [SM_75]}, export("reverse", 0, layout(0, "in", "out"), block, 128), host)
    a = given(512)
    np.testing.assert_array_equal(device.load(artifact).reverse(a), a.reshape(4, 128)[:, ::-1].ravel())
    # The kernel asks for more than the export has.
    short = export("reverse", 0, layout(0, "in", "out"), block.replace("= 512", "= 256"), 128)
    with pytest.raises(pd.KernelError, match=r"@executable::@reverse: .*shared"):
        device.load(built({target(): [SM_75]}, short, host)).reverse(a)
    large = export("reverse", 0, layout(0, "in", "out"), block.replace("= 512", "= 200000"), 128)
    artifact = built({target(): [SM_75]}, large, host)
    with pytest.raises(
        pd.DeviceUnavailableError, match="200000 dynamic ones, a block of this device has at most 65536"
    ):
        pd.device("ptx-interpreter?capability=7.5").load(artifact)
    np.testing.assert_array_equal(device.load(artifact).reverse(a), a.reshape(4, 128)[:, ::-1].ravel())


def tiled(file: Path = DATA / "tiled_sm_75.ptx") -> Any:
    grid = export("tiled", 0, layout(1, "in", "in", "out"), size(16, 16), 16)
    grid = grid.replace("hal.return %x, %c1, %c1", "hal.return %x, %x, %c1")
    host = """func.func @tiled(%a: tensor<64x64xf32>, %b: tensor<64x64xf32>) -> tensor<64x64xf32> {
    %d = arith.constant 64 : index
    %n = arith.constant 64 : i32
    %r = flow.dispatch @executable::@tiled[%d](%n, %a, %b)
      : (i32, tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    return %r : tensor<64x64xf32>
  }"""
    return built({target(): [file]}, grid, host)


@pytest.mark.parametrize("races", [0, 1])
def test_a_tiled_product(races: int) -> None:
    f = pd.device(f"ptx-interpreter?races={races}").load(tiled()).tiled
    a, b = given(2, 64, 64)
    expected = np.zeros((64, 64))
    for k in range(64):  # with one rounding for each step, as the kernel has: exact in double but for ties
        expected = (a[:, k, None].astype(np.float64) * b[k] + expected).astype(np.float32).astype(np.float64)
    np.testing.assert_array_equal(f(a, b), expected.astype(np.float32))
    # An instruction is one step for all threads of a block; one for each of 4,096 threads would be far more.
    assert count_calls(lambda: f(a, b)) < 50_000


def test_a_missing_barrier_is_a_race(tmp_path: Path) -> None:
    text = (DATA / "tiled_sm_75.ptx").read_text()
    assert text.count("bar.sync") == 2
    at = text.index("bar.sync")
    (tmp_path / "k.ptx").write_text(text[:at] + "// " + text[at:])
    artifact = tiled(tmp_path / "k.ptx")
    with pytest.raises(pd.KernelError, match=r"@executable::@tiled: .*race"):
        pd.device("ptx-interpreter?races=1").load(artifact).tiled(*given(2, 64, 64))


def test_a_call_of_the_example_takes_little(device: Any) -> None:
    """What a call does is the same each time, and grows with nothing that was called before."""
    f = device.load(mixed()).mixed_invocation
    a, b = given(2, 8)
    f(a, b)
    first = count_calls(lambda: f(a, b))
    for _ in range(20):
        f(a, b)
    assert count_calls(lambda: f(a, b)) <= first < 10_000


def test_variables_are_released_with_their_programs(device: Any) -> None:
    constants = """hal.executable.constant.block() -> (i32, i32) as ("offset", "factor") {
      %o = arith.constant 11 : i32
      %f = arith.constant -5 : i32
      hal.return %o, %f : i32, i32
    }"""
    affine = export("affine", 0, layout(1, "in", "out"))
    artifact = built({target(): [SM_75]}, affine, vectors("affine", "i32", inputs=1), constants)
    a = np.arange(100, dtype=np.int32)
    first, second = device.load(artifact), device.load(artifact)  # each has its own
    np.testing.assert_array_equal(first.affine(a), a * -5 + 11)
    np.testing.assert_array_equal(second.affine(a), a * -5 + 11)
    used = device._context.memory._used  # their variables go with the programs
    del first, second
    gc.collect()
    device.trim()
    assert device._context.memory._used < used


def test_required_block_sizes(device: Any) -> None:
    host = """func.func @fixed() -> tensor<128xf32> {
    %d = arith.constant 128 : index
    %r = flow.dispatch @executable::@fixed[%d]() : () -> tensor<128xf32>
    return %r : tensor<128xf32>
  }"""
    artifact = built({target("sm_90"): [DATA / "fixed_sm_90.ptx"]}, export("fixed", 0, layout(0, "out"), ""), host)
    row = np.arange(32)
    np.testing.assert_array_equal(device.load(artifact).fixed(), np.tile(np.concatenate([row, 100 + row]), 2))


# Which variant, and whose code


def test_the_highest_architecture_that_it_has(tmp_path: Path) -> None:
    """Each architecture computes something else here."""
    keyed = {}
    for number in (75, 90, 80):
        text = (DATA / f"kernels_sm_{number}.ptx").read_text()
        start = text.index("simple_mul_inplace(")
        changed = text[:start].replace(
            "mul.f32", "add.f32" if number == 80 else "sub.f32" if number == 90 else "mul.f32"
        )
        (tmp_path / f"k{number}.ptx").write_text(changed + text[start:])
        keyed[target(f"sm_{number}")] = [f"k{number}.ptx"]
    artifact = built(keyed, MUL, vectors("simple_mul"), object_search_path=tmp_path)
    a, b = given(2, 10)
    for capability, expected in (("7.5", a * b), ("8.0", a + b), ("8.9", a + b), ("9.0", a - b), ("12.0", a - b)):
        program = pd.device(f"ptx-interpreter?capability={capability}").load(artifact)
        np.testing.assert_array_equal(np.abs(program.simple_mul(a, b)), np.abs(expected))
    with pytest.raises(
        pd.DeviceUnavailableError, match=r"is PTX for sm_75, which this device of compute capability 7\.0"
    ):
        pd.device("ptx-interpreter?capability=7.0").load(artifact)


def test_machine_code_says_what_to_do(tmp_path: Path, device: Any) -> None:
    from tools import compile_cu

    code = compile_cu((DATA / "kernels.cu").read_text(), "-cubin", "-arch=sm_90")
    (tmp_path / "k.cubin").write_bytes(code)
    key = target("sm_90")
    artifact = built({key: ["k.cubin"]}, TWO, MIXED, object_search_path=tmp_path)
    with pytest.raises(
        pd.DeviceUnavailableError, match=r"(?s)machine code for sm_90.*nvcc -ptx -arch=sm_80 kernels.cu"
    ):
        device.load(artifact)
    with pytest.raises(pd.ArtifactError, match=r"add_executable 'x': 8\d+ bytes|add_executable 'x': .*nvcc -ptx"):
        device.add_executable("x", code)
    both = built({key: ["k.cubin"], target("sm_75"): [SM_75]}, TWO, MIXED, object_search_path=tmp_path)
    a, b = given(2, 10)
    np.testing.assert_array_equal(device.load(both).mixed_invocation(a, b), b * (a * b))


def test_declared_executables_that_do_not_run(device: Any, tmp_path: Path) -> None:
    artifact = pd.compile(source({}, TWO, MIXED), targets="cuda")
    with pytest.raises(pd.ArtifactError, match=r"add_executable 'executable': .*lib.txt"):
        (tmp_path / "lib.txt").write_text("hello")
        device.add_executable("executable", tmp_path / "lib.txt")
    device.add_executable("executable", SM_75.read_text().replace("simple_mul_inplace", "other").encode())
    with pytest.raises(pd.ArtifactError, match="there is no entry 'simple_mul_inplace'"):
        device.load(artifact)
    old = pd.device("ptx-interpreter?capability=8.0")
    old.add_executable("executable", SM_90)
    with pytest.raises(pd.DeviceUnavailableError, match=r"PTX for sm_90, .* 8.0; .*-arch=sm_80"):
        old.load(artifact)
    device.add_executable("executable", SM_75.read_text().replace("mul.f32", "frobnicate.f32").encode())
    with pytest.raises(pd.ArtifactError, match="frobnicate"):
        device.load(artifact)


# Kernels that go wrong


def stray(tmp_path: Path) -> Any:
    (tmp_path / "stray.ptx").write_text(STRAY)
    exports = export("stray", 0, layout(1, "in", "out"))
    host = (
        vectors("stray", inputs=1)
        + """
  func.func @between(%a: tensor<?xf32>) -> tensor<?xf32> {
    %c0 = arith.constant 0 : index
    %d = tensor.dim %a, %c0 : tensor<?xf32>
    %n = arith.index_cast %d : index to i32
    %t = flow.dispatch @executable::@stray[%d](%n, %a) : (i32, tensor<?xf32>{%d}) -> tensor<?xf32>{%d}
    %r = flow.dispatch @executable::@stray[%d](%n, %t) : (i32, tensor<?xf32>{%d}) -> tensor<?xf32>{%d}
    return %r : tensor<?xf32>
  }
  func.func @looped(%a: tensor<?xf32>, %times: index) -> tensor<?xf32> {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %d = tensor.dim %a, %c0 : tensor<?xf32>
    %n = arith.index_cast %d : index to i32
    %r = scf.for %i = %c0 to %times step %c1 iter_args(%x = %a) -> tensor<?xf32> {
      %t = flow.dispatch @executable::@stray[%d](%n, %x) : (i32, tensor<?xf32>{%d}) -> tensor<?xf32>{%d}
      scf.yield %t : tensor<?xf32>
    }
    return %r : tensor<?xf32>
  }"""
    )
    return built({target(): ["stray.ptx"]}, exports, host, object_search_path=tmp_path)


def test_an_access_outside_names_everything_and_the_device_lives_on(device: Any, tmp_path: Path) -> None:
    program = device.load(stray(tmp_path))
    a = given(64)
    np.testing.assert_array_equal(program.stray(a), a)
    with pytest.raises(pd.KernelError) as caught:
        program.stray(a[:60])
    said = str(caught.value)
    assert said.startswith("@executable::@stray: ") and f"executable.ptx:{STRAY_LINE}: " in said, said
    assert "60" in said and "240 bytes" in said, said  # thread 60, and the allocation that it left
    assert caught.value.executable == "executable" and caught.value.export == "stray"
    assert caught.value.workgroup == (0, 0, 0)
    np.testing.assert_array_equal(program.stray(a), a)
    del caught  # whose traceback has the frames of the call
    assert device.memory()["live_blocks"] == 0


def test_steps_on_the_host_report_the_same(device: Any, tmp_path: Path) -> None:
    program = device.load(stray(tmp_path))
    a = given(64)
    np.testing.assert_array_equal(program.looped(a, 3), a)
    with pytest.raises(pd.KernelError, match=r"@executable::@stray: ") as caught:
        program.looped(a[:60], 1)
    assert caught.value.executable == "executable" and caught.value.export == "stray"
    np.testing.assert_array_equal(program.looped(a, 1), a)


def test_transients_have_bounds_of_their_own(device: Any, tmp_path: Path) -> None:
    program = device.load(stray(tmp_path))
    a = given(64)
    np.testing.assert_array_equal(program.between(a), a)
    with pytest.raises(pd.KernelError):
        program.between(a[:63])


def test_arguments_are_not_written(device: Any, tmp_path: Path) -> None:
    (tmp_path / "k.ptx").write_text(STRAY.replace("[%rd5], %f1", "[%rd4], %f1"))
    artifact = built(
        {target(): ["k.ptx"]}, export("stray", 0, layout(1, "in", "out")), vectors("stray", inputs=1),
        object_search_path=tmp_path,
    )  # fmt: skip
    with pytest.raises(pd.KernelError, match=r"@executable::@stray: .*read"):
        device.load(artifact).stray(given(64))


def test_races_are_reported_when_asked_for(tmp_path: Path) -> None:
    (tmp_path / "k.ptx").write_text(STRAY.replace("[%rd5], %f1", "[%rd2], %f1"))  # all threads store to the first
    artifact = built(
        {target(): ["k.ptx"]}, export("stray", 0, layout(1, "in", "out")), vectors("stray", inputs=1),
        object_search_path=tmp_path,
    )  # fmt: skip
    a = given(64)
    pd.device("ptx-interpreter").load(artifact).stray(a)
    with pytest.raises(pd.KernelError, match=r"@executable::@stray: .*race"):
        pd.device("ptx-interpreter?races=1").load(artifact).stray(a)
    fine = pd.device("ptx-interpreter?races=1").load(mixed())
    np.testing.assert_array_equal(fine.mixed_invocation(a, a), a * (a * a))


# The device


def test_options() -> None:
    for name, expected in (
        ("ptx-interpreter?races=2", "races: expected 0 or 1, got '2'"),
        ("ptx-interpreter?capability=8.1", "capability: expected one of 5.0, .*got '8.1'"),
        ("ptx-interpreter?speed=1", "has no option 'speed'; it has: capability, races"),
    ):
        with pytest.raises(pd.InvalidArgumentError, match=expected):
            pd.device(name)
    with pytest.raises(pd.DeviceUnavailableError, match="there is one interpreter"):
        pd.device("ptx-interpreter:1")


def test_it_is_never_chosen_by_itself() -> None:
    assert not any("ptx" in name for name in pd.devices())
    facts = pd.device("ptx-interpreter?capability=8.6&races=1").describe()
    assert facts["capability"] == "8.6" and facts["races"] == "reported"


def test_libraries_are_read_when_they_are_added(device: Any, tmp_path: Path) -> None:
    for data, expected in ((b"\x7fELF" + bytes(60), "it is machine code: nvcc -ptx"), (b"hello", "is no PTX")):
        (tmp_path / "lib").write_bytes(data)
        with pytest.raises(pd.ArtifactError, match=expected):
            device.add_plugin(tmp_path / "lib")
    provider = device.add_plugin(DATA / "functions_sm_75.ptx")
    assert provider.kind == "ptx"
    device.remove_plugin(provider)
    with pytest.raises(pd.InvalidArgumentError, match="expected what add_plugin of this device returned, once"):
        device.remove_plugin(provider)


def test_variants_of_objects_in_place(device: Any) -> None:
    text = f"""module {{ hal.executable private @executable {{
      hal.executable.variant public @cuda target({target("sm_80")}) objects([{objects([SM_80])}]) {{ {MUL} }} }}
      {vectors("simple_mul")} }}"""
    program = device.load(pd.compile(text, targets="cuda"))
    a, b = given(2, 10)
    np.testing.assert_array_equal(program.simple_mul(a, b), a * b)
