"""Calls on a CUDA device: results against NumPy, and what they ask of the driver."""

from __future__ import annotations

import gc
import threading
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuda_device_programs import REVERSE, SCALE, STEPS, WIDE
from cuda_fake import device, fake, install, unfilled
from cuda_programs import MIXED, MUL, TWO, export, layout, size, source, target, vectors
from fake_driver import CUresult, FakeDriver
from pydispatch._core.commands import Copy, Fill, Slot
from tools import DATA

import pydispatch as pd
from pydispatch.runtime.devices.cuda import steps
from pydispatch.runtime.devices.cuda.graph import Graph

__all__ = ["device", "fake", "unfilled"]  # fixtures

SM_75, SM_80, SM_90 = (DATA / f"kernels_sm_{n}.ptx" for n in (75, 80, 90))
WAITS = ("cuStreamSynchronize", "cuStreamQuery", "cuMemcpyDtoHAsync")
BUILDS = ("cuGraphCreate", "cuGraphInstantiate", "cuMemAllocFromPoolAsync", *WAITS)


def built(keyed: Any, exports: str, functions: str, more: str = "", **options: Any) -> Any:
    return pd.compile(source(keyed, exports, functions, more), targets="cuda", **options)


def mixed() -> Any:
    return built({target(): [SM_75]}, TWO, MIXED)


def given(*sizes: int) -> Any:
    return np.random.default_rng(sum(sizes)).standard_normal(sizes, dtype=np.float32)


def used(fake: FakeDriver, *names: str) -> int:
    return sum(fake.calls[name] for name in names)


def test_a_call_returns_before_the_device_has_begun(fake: FakeDriver, device: Any) -> None:
    f = device.load(mixed()).mixed_invocation
    a, b = given(2, 1000)
    fake.calls.clear()
    y = f(a, b)
    expected = b * (a * b)
    a[:], b[:] = 0, 0  # arrays may change when the call has returned
    z = f(y, y)
    assert fake.launches == [] and used(fake, *WAITS) == 0
    np.testing.assert_array_equal(z, expected * (expected * expected))
    assert [name for name, _ in fake.launches] == ["simple_mul", "simple_mul_inplace"] * 2
    device.synchronize()


def test_pinned_arrays_may_change_too(fake: FakeDriver, device: Any) -> None:
    f = device.load(mixed()).mixed_invocation
    a, b = given(2, 100)
    fake.pinned |= {x.__array_interface__["data"][0] for x in (a, b)}  # read when the copy runs, not before
    y, expected = f(a, b), b * (a * b)
    a[:], b[:] = 0, 0
    np.testing.assert_array_equal(y, expected)


def test_a_prepared_call_is_one_launch(fake: FakeDriver, device: Any) -> None:
    f = device.load(mixed()).mixed_invocation
    a, b = given(2, 1000)
    x, z = device.upload(a), device.upload(b)
    call = f.prepare(x, z)
    y = call()
    fake.calls.clear()
    for _ in range(3):
        assert call() is y
    assert dict(fake.calls) == {"cuGraphLaunch": 3}
    np.testing.assert_array_equal(y, b * (a * b))
    fake.calls.clear()
    call(z, x)  # the nodes that see another address are told: no new graph
    assert used(fake, *BUILDS) == 0 and fake.calls["cuGraphLaunch"] == 1
    assert fake.calls["cuGraphExecKernelNodeSetParams"] == 1 and fake.calls["cuGraphExecMemcpyNodeSetParams"] == 1
    np.testing.assert_array_equal(y, a * (b * a))
    fake.calls.clear()
    call(z, x)
    assert dict(fake.calls) == {"cuGraphLaunch": 1}
    out = device.empty(1000)
    assert f.prepare(a, b, out=out)() is out
    np.testing.assert_array_equal(out, b * (a * b))


def test_a_prepared_call_reads_arrays_again(fake: FakeDriver, device: Any) -> None:
    a, b = given(2, 100)
    call = device.load(mixed()).mixed_invocation.prepare(a, b)
    np.testing.assert_array_equal(call(), b * (a * b))
    a[:] = 1
    fake.calls.clear()
    call()
    assert used(fake, *BUILDS) == 0
    np.testing.assert_array_equal(call(), b * b)
    with pytest.raises(pd.InvalidArgumentError, match="prepared for arguments of other shapes"):
        call(b[:7], b[:7])


def test_a_change_that_a_graph_does_not_take_makes_a_new_one(fake: FakeDriver, device: Any) -> None:
    f = device.load(mixed()).mixed_invocation
    a, b = given(2, 100)
    x, z = device.upload(a), device.upload(b)
    call = f.prepare(x, z)
    fake.fail["cuGraphExecMemcpyNodeSetParams"] = [CUresult.CUDA_ERROR_INVALID_VALUE]
    fake.calls.clear()
    np.testing.assert_array_equal(call(z, x), a * (b * a))
    assert fake.calls["cuGraphInstantiate"] == 1
    f(x, z)
    assert fake.calls["cuGraphExecDestroy"] == 1  # the one before it


def test_a_graph_whose_rebuild_failed_is_rebuilt_by_the_next_call(fake: FakeDriver, device: Any) -> None:
    f = device.load(mixed()).mixed_invocation
    a, b = given(2, 100)
    x, z = device.upload(a), device.upload(b)
    call = f.prepare(x, z)
    call()
    fake.fail["cuGraphExecMemcpyNodeSetParams"] = [CUresult.CUDA_ERROR_INVALID_VALUE]
    fake.fail["cuGraphInstantiate"] = [CUresult.CUDA_ERROR_OUT_OF_MEMORY]
    with pytest.raises(MemoryError, match="the graph of @mixed_invocation"):
        call(z, x)
    np.testing.assert_array_equal(call(), a * (b * a))
    np.testing.assert_array_equal(call(x, z), b * (a * b))


def test_a_loop_of_calls_settles(unfilled: None, fake: FakeDriver, device: Any) -> None:
    f = device.load(mixed()).mixed_invocation
    a, b = given(2, 1000)
    x, z = device.upload(a), device.upload(b)
    for _ in range(4):
        y = f(x, z)
    fake.calls.clear()
    for _ in range(5):
        y = f(x, z)
    assert dict(fake.calls) == {"cuGraphLaunch": 5}
    np.testing.assert_array_equal(y, b * (a * b))
    held = [f(x, z) for _ in range(12)]  # more places than graphs that are kept
    fake.calls.clear()
    held += [f(x, z) for _ in range(4)]
    assert fake.calls["cuGraphInstantiate"] == 0 and fake.calls["cuGraphExecKernelNodeSetParams"] > 0
    for each in held:
        np.testing.assert_array_equal(each, b * (a * b))


def test_a_single_dispatch_needs_no_graph(unfilled: None, fake: FakeDriver, device: Any) -> None:
    f = device.load(built({target(): [SM_75]}, MUL, vectors("simple_mul"))).simple_mul
    a, b = given(2, 200)
    x, z = device.upload(a), device.upload(b)
    for _ in range(3):
        y = f(x, z)
    fake.calls.clear()
    y = f(x, z)
    assert dict(fake.calls) == {"cuLaunchKernel": 1}
    np.testing.assert_array_equal(y, a * b)


def test_profiles(fake: FakeDriver, device: Any) -> None:
    a, b = given(2, 1000)
    times = device.load(mixed()).mixed_invocation.profile(a, b)
    assert [t.command for t in times] == [
        "@executable::@simple_mul 16x1x1", "copy 4000 bytes", "@executable::@simple_mul_inplace 16x1x1",
    ]  # fmt: skip
    assert all(t.seconds > 0 for t in times)
    assert fake.calls["cuEventDestroy"] == fake.calls["cuEventCreate"] == 4


def test_traces(fake: FakeDriver, device: Any) -> None:
    f = device.load(mixed()).mixed_invocation
    a, b = given(2, 1000)
    expected = f(a, b).numpy()
    with pd.trace(None) as trace:
        np.testing.assert_array_equal(f(a, b), expected)
    (own,) = (track for track in trace.tracks if track.name == "MainThread")  # others' devices may idle meanwhile
    assert [event.label for event in own.events if event.kind != "wait"] == [
        "call @mixed_invocation", "submit @mixed_invocation",
    ]  # fmt: skip
    assert {event.kind for event in own.events} == {"call", "submit", "wait"}
    assert trace.tracks[-1].name == device.name
    assert [event.label for event in trace.tracks[-1].events] == ["simple_mul", "copy", "simple_mul_inplace"]
    assert fake.calls["cuEventDestroy"] == fake.calls["cuEventCreate"] == 4


def test_memory_goes_round(fake: FakeDriver, device: Any) -> None:
    f = device.load(mixed()).mixed_invocation
    a, b = given(2, 1000)
    y = f(a, b)
    assert device.memory()["live_blocks"] == 1
    del y
    facts = device.memory()
    assert facts["live_blocks"] == facts["live_bytes"] == 0 and facts["free_bytes"] == facts["reserved_bytes"] > 0
    fake.calls.clear()
    for _ in range(10):
        f(a, b)
    assert fake.calls["cuMemAllocFromPoolAsync"] == 0
    device.trim()
    assert device.memory()["reserved_bytes"] == device.memory()["free_bytes"] == 0
    np.testing.assert_array_equal(f(a, b), b * (a * b))


def test_a_prepared_call_with_other_scalars(fake: FakeDriver, device: Any) -> None:
    f = device.load(built({target(): [SM_75]}, export("scale", 0, layout(6, "in", "out")), SCALE)).scale
    a = np.arange(-50, 50)
    x = device.upload(a)
    call = f.prepare(x, 3, 0.5, 1)
    fake.calls.clear()
    np.testing.assert_array_equal(call(x, 4, 0.5, 1), a * 4 + 1)
    assert fake.calls["cuGraphExecKernelNodeSetParams"] == 1 and fake.calls["cuGraphInstantiate"] == 0


def test_dynamic_shared_memory_is_requested(fake: FakeDriver, device: Any) -> None:
    a = given(512)
    for bytes_, leave in ((512, 0), (64 << 10, 1)):  # more than 48 KiB has to be asked for
        block = size(128, more=f", workgroup_local_memory = {bytes_} : index")
        exports = export("reverse", 0, layout(0, "in", "out"), block, 128)
        fake.calls.clear()
        program = device.load(built({target(): [SM_75]}, exports, REVERSE))
        np.testing.assert_array_equal(program.reverse(a), a.reshape(4, 128)[:, ::-1].ravel())
        assert fake.calls["cuFuncSetAttribute"] == leave
    large = exports.replace("= 65536", "= 200000")
    with pytest.raises(pd.DeviceUnavailableError, match="200000 bytes of workgroup memory, cuda:0 has 102400"):
        device.load(built({target(): [SM_75]}, large, REVERSE))


def test_blocks_that_the_device_does_not_start(fake: FakeDriver, device: Any) -> None:
    artifact = mixed()
    fake.threads_limit = 32  # registers leave room for fewer
    with pytest.raises(
        pd.DeviceUnavailableError, match=r"at most 32 invocations in a block, it wants 64; state __laun"
    ):
        device.load(artifact)


def fill(type: str, value: str) -> str:
    return f"""func.func @filled(%n: index) -> tensor<?x{type}> {{
    %v = arith.constant {value} : {type}
    %r = flow.tensor.splat %v : tensor<?x{type}>{{%n}}
    return %r : tensor<?x{type}>
  }}"""


@pytest.mark.parametrize(
    ("type", "value", "dtype"),
    [("i8", "-3", np.int8), ("i16", "258", np.int16), ("i16", "257", np.int16), ("f32", "1.5", np.float32),
     ("i64", "1234567890123", np.int64), ("i64", "4294967297", np.int64), ("f64", "0.1", np.float64)],
)  # fmt: skip
def test_fills(device: Any, type: str, value: str, dtype: Any) -> None:
    f = device.load(pd.compile(f"module {{ {fill(type, value)} }}", targets="cuda")).filled
    for count in (1, 7, 100):
        found = f(count)
        np.testing.assert_array_equal(found, np.full(count, float(value) if "f" in type else int(value), dtype))
        assert f.profile(count)[0].seconds > 0


def test_fills_with_a_value_of_the_call(fake: FakeDriver, device: Any) -> None:
    text = """module { func.func @filled(%v: i64, %n: index) -> tensor<?xi64> {
      %r = flow.tensor.splat %v : tensor<?xi64>{%n}
      return %r : tensor<?xi64>
    } }"""
    f = device.load(pd.compile(text, targets="cuda")).filled
    call = f.prepare(5, 9)
    np.testing.assert_array_equal(call(), [5] * 9)
    np.testing.assert_array_equal(call(-(1 << 40) + 3, 9), [-(1 << 40) + 3] * 9)
    np.testing.assert_array_equal(f(1 << 33, 3), [1 << 33] * 3)


def moves(device: Any) -> None:
    """Fills and copies at any place, as steps on the stream and as nodes of a graph, one region after the other."""
    context: Any = device._context
    data = np.arange(256, dtype=np.uint8)

    def fill(region: int, offset: int, size: int, pattern: int, width: int) -> Fill:
        return Fill(region, (Slot(0, offset, size),), pattern, width)

    def copy(region: int, source: int, target: int, size: int) -> Copy:
        return Copy(region, (Slot(0, source, size), Slot(0, target, size)))

    pattern = 0x1133557799BBDDFF  # every byte is followed by a bit that is 1
    commands = [
        fill(0, 3, 6, pattern, 2), fill(0, 17, 24, pattern, 8), fill(0, 60, 12, 7, 4), fill(0, 81, 8, 0x77777777, 4),
        copy(1, 0, 10, 100),  # over itself, forwards
        copy(2, 50, 20, 90),  # and backwards
        copy(3, 5, 5, 5), copy(3, 0, 200, 40),
    ]  # fmt: skip
    expected = data.copy()
    for command in commands:
        at, size = command.slots[0].offset, command.slots[0].size
        if isinstance(command, Fill):
            width = command.pattern_size
            word = np.frombuffer((command.pattern & (1 << 8 * width) - 1).to_bytes(width, "little"), np.uint8)
            expected[at : at + size] = np.tile(word, size // width)
        else:
            to = command.target.offset
            expected[to : to + size] = expected[at : at + size].copy()
    patterns = [c.pattern if isinstance(c, Fill) else 0 for c in commands]
    for late in (False, True):
        buffer, scratch = device.upload(data), device.empty(1024, np.uint8)
        addresses = [buffer.memory.block.address, scratch.memory.block.address]
        made, needed = steps.steps_of(context, commands, late, None, 1)  # type: ignore[arg-type]
        fills = [len(each) for each, command in zip(made, commands, strict=True) if isinstance(command, Fill)]
        assert fills == [2, 8, 1, 4 if late else 1]  # bytes that are all equal need no alignment
        assert needed == 512  # two copies over themselves, each in whole 256 bytes
        with context.current:
            for step in (step for each in made for step in each):
                step.bind(addresses, b"", patterns)
                context.check(step.launch(context.stream), step.label)
        np.testing.assert_array_equal(buffer, expected)
        other = device.upload(data)
        graph = Graph(context, "moves", made)
        placed = [other.memory.block.address, addresses[1]]
        graph.update(placed, b"", patterns)
        assert not any(step.bind(placed, b"", patterns) for each in made for step in each), "nothing has changed"
        graph.launch()
        np.testing.assert_array_equal(other, expected)


@pytest.mark.parametrize("most", [1 << 30, 16], ids=["whole", "in pieces"])
def test_fills_and_copies_at_any_place(device: Any, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(steps, "MAX_COPY_BYTES", most)
    moves(device)


def test_large_copies_go_in_pieces(device: Any) -> None:
    """A piece has fewer bytes than a row of an image may have."""
    size = 5 << 30
    pieces = steps.copies(device._context, 0, (0, 16), (1, 32), size)
    ends = [0, *accumulate(piece.size for piece in pieces)]
    assert ends[-1] == size and all(piece.size < 1 << 31 for piece in pieces)
    assert [(p.source, p.target) for p in pieces] == [((0, 16 + done), (1, 32 + done)) for done in ends[:-1]]


def test_steps_on_the_host(device: Any) -> None:
    looped = device.load(built({target(): [SM_75]}, MUL, STEPS)).looped
    a = given(100)
    y = looped(device.upload(a), 3)
    assert y.device == "cuda:0"
    np.testing.assert_array_equal(y, a * a * a * a)


# Several devices


def test_two_devices_in_one_call(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake = install(monkeypatch, tmp_path, devices=2)
    assert pd.device("cuda:1").name == "cuda:1" and [n for n in pd.devices() if "cuda" in n] == ["cuda:0", "cuda:1"]
    first, second = pd.device("cuda:0"), pd.device("cuda:1")
    artifact = mixed()
    f, g = first.load(artifact).mixed_invocation, second.load(artifact).mixed_invocation
    a, b = given(2, 100)
    y, z = f(a, b), g(a, b)
    assert (y.device, z.device) == ("cuda:0", "cuda:1")
    expected = b * (a * b)
    np.testing.assert_array_equal(f(y, z), expected * (expected * expected))  # the other's buffer is copied
    np.testing.assert_array_equal(g(y, z, out=first.empty(100)), expected * (expected * expected))
    call = g.prepare(y, z)
    np.testing.assert_array_equal(call(), expected * (expected * expected))
    # Threads that had another device, or none, get it back.
    assert fake._stack() in ([], [fake.devices[0]])


def test_the_context_that_a_thread_had_stays(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake = install(monkeypatch, tmp_path, devices=2)
    first, second = pd.device("cuda:0"), pd.device("cuda:1")
    f = second.load(mixed()).mixed_invocation
    a, b = given(2, 100)
    fake.cuCtxPushCurrent(fake.devices[0].context)
    fake._stack()[:] = [fake.devices[0]]
    call = f.prepare(second.upload(a), second.upload(b))
    np.testing.assert_array_equal(call(), b * (a * b))
    f(a, b), f.profile(a, b), second.trim()
    assert fake._stack() == [fake.devices[0]]
    first.close()


# Which variant, and code that comes later


def test_the_highest_architecture_that_it_has(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    keyed = {target(f"sm_{n}"): [DATA / f"kernels_sm_{n}.ptx"] for n in (75, 90, 80)}
    artifact = built(keyed, TWO, MIXED)
    a, b = given(2, 10)
    for capability, wanted in (((7, 5), "sm_75"), ((8, 9), "sm_80"), ((12, 0), "sm_90")):
        fake = install(monkeypatch, tmp_path / wanted, capability=capability)
        np.testing.assert_array_equal(pd.device("cuda:0").load(artifact).mixed_invocation(a, b), b * (a * b))
        loaded = [each for each in fake.objects.values() if type(each).__name__ == "Loaded"]
        assert [each.module.target for each in loaded] == [wanted]
    install(monkeypatch, tmp_path / "old", capability=(7, 0))
    with pytest.raises(
        pd.DeviceUnavailableError, match=r"is PTX for sm_75, which this device of compute capability 7\.0"
    ):
        pd.device("cuda:0").load(artifact)


def test_a_closed_device_releases_its_context(fake: FakeDriver) -> None:
    a, b = given(2, 10)
    fresh = pd.device("cuda:0?check=1")
    fresh.load(mixed()).mixed_invocation(a, b)
    before = fake.devices[0].retained
    fresh.close()
    assert fake.devices[0].retained == before - 1


def test_the_last_buffer_of_a_closed_device_releases_its_context(fake: FakeDriver) -> None:
    a, b = given(2, 10)
    fresh = pd.device("cuda:0?check=1")
    function = fresh.load(mixed()).mixed_invocation
    x, y = fresh.upload(a), function(a, b)
    before = fake.devices[0].retained
    fresh.close()
    np.testing.assert_array_equal(y.numpy(), b * (a * b))
    np.testing.assert_array_equal(x.numpy(), a)
    del x
    assert fake.devices[0].retained == before
    del y
    assert fake.devices[0].retained == before - 1


def test_another_thread_releases_the_last_buffer_while_buffers_are_counted(
    fake: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh = pd.device("cuda:0?check=1")
    first: Any = fresh.upload(given(10))
    others: list[Any] = [fresh.upload(given(10))]
    pool, before = first.memory.context.pool, fake.devices[0].retained
    stats = pool.stats

    def count_and_release() -> Any:
        counts = stats()
        if others:
            thread = threading.Thread(target=others.clear)
            thread.start()
            thread.join()
        return counts

    fresh.close()
    monkeypatch.setattr(pool, "stats", count_and_release)
    del first
    assert fake.devices[0].retained == before - 1


def test_a_closed_device_releases_constants_of_live_programs(fake: FakeDriver) -> None:
    fresh = pd.device("cuda:0?check=1")
    weights = np.arange(1 << 14, dtype=np.float32)
    tensor = f"tensor<{weights.size}xf32>"
    text = f"""func.func @f(%x: {tensor}) -> {tensor} {{
        %w = arith.constant dense<"0x{weights.tobytes().hex()}"> : {tensor}
        %y = arith.addf %x, %w : {tensor}
        return %y : {tensor}
    }}"""
    program = fresh.load(pd.compile(text, targets="cuda"))
    np.testing.assert_array_equal(program.f(weights).numpy(), 2 * weights)
    assert fresh.memory()["live_blocks"] == 1
    before = fake.devices[0].retained
    fresh.close()
    assert fake.devices[0].retained == before - 1
    with pytest.raises(pd.DeviceUnavailableError, match="cuda:0 was closed"):
        program.f(weights)


def test_arrays_without_dimensions(device: Any) -> None:
    buffer = device.upload(np.float32(3))
    assert buffer.shape == () and buffer.numpy() == 3


def test_a_program_may_go_while_its_kernels_wait(fake: FakeDriver, device: Any) -> None:
    a, b = given(2, 100)
    y = device.load(mixed()).mixed_invocation(a, b)  # nothing holds the program
    gc.collect()
    assert not fake.launches
    z = device.load(mixed()).mixed_invocation(y, b)
    np.testing.assert_array_equal(z, b * (b * (a * b) * b))
    np.testing.assert_array_equal(y, b * (a * b))
    assert fake.calls["cuModuleUnload"] >= 1


def test_dispatches_side_by_side(fake: FakeDriver, device: Any) -> None:
    """Regions of a graph wait for the whole region before, whatever the order inside."""
    f = device.load(built({target(): [SM_75]}, MUL, WIDE)).wide
    a, b = 1 + np.abs(given(2, 64)) / 8
    found = [a * b]
    for _ in range(2):
        found.append(a * found[-1])
    w = [found[i % 3] * found[(i + 1) % 3] for i in range(6)]
    x = [w[i] * w[i + 1] for i in range(5)]
    expected = (x[0] * x[4]) * (x[2] * x[3])
    for _ in range(3):
        np.testing.assert_array_equal(f(a, b), expected)
    np.testing.assert_array_equal(f.prepare(a, b)(), expected)
    assert fake.calls["cuGraphAddEmptyNode"] > 0
