"""Profiles: whether all of a call is in them, on each device, with control flow and without."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from pydispatch._core.commands import Copy, Dispatch, Fill, Slot
from pydispatch._core.profile import OUTSIDE, Measured, Profile, Timing

import pydispatch as pd

LOOP = """
func.func @f(%a: tensor<SxSxf32>, %n: index) -> tensor<SxSxf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %z = arith.constant 0.0 : f32
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%s = %a) -> tensor<SxSxf32> {
    %e = tensor.empty() : tensor<SxSxf32>
    %f = linalg.fill ins(%z : f32) outs(%e : tensor<SxSxf32>) -> tensor<SxSxf32>
    %t = linalg.matmul ins(%s, %a : tensor<SxSxf32>, tensor<SxSxf32>) outs(%f : tensor<SxSxf32>) -> tensor<SxSxf32>
    scf.yield %t : tensor<SxSxf32>
  }
  return %r : tensor<SxSxf32>
}
"""


@pytest.mark.parametrize(
    ("name", "target"), [("cpu", "cpu"), ("cpu?workers=1", "cpu"), ("ptx-interpreter", "sm_80"), ("vulkan", "vulkan")]
)
def test_loops(name: str, target: str) -> None:
    try:
        device = pd.device(name)
    except pd.DeviceUnavailableError as error:
        pytest.skip(str(error))
    f = device.load(pd.compile(LOOP.replace("S", "4"), targets=target)).f
    a = np.ones((4, 4), np.float32)
    profile = f.profile(a, 3)
    (timing,) = [timing for timing in profile if timing.flops]
    assert (timing.runs, timing.flops, timing.arithmetic) == (3, 3 * 2 * 4**3, "f32")
    assert timing.nbytes == 3 * 3 * 64 and timing.seconds >= 0
    assert profile.outside is not None and profile.outside >= 0
    assert profile.whole == pytest.approx(sum(each.seconds for each in profile) + profile.outside)
    assert OUTSIDE in str(profile) and "runs" in str(profile).splitlines()[0]
    assert sum(each.runs for each in f.profile(a, 7, runs=2) if each.flops) == 7
    with pytest.raises(pd.InvalidArgumentError, match="runs: expected a number of 1 or more, got 0"):
        f.profile(a, 1, runs=0)


@pytest.mark.parametrize("name", ["cpu", "vulkan"])
def test_a_command_has_one_row_whatever_the_loop_counter_is(name: str) -> None:
    text = """
    func.func @f(%a: tensor<64x4xf32>, %n: index) -> tensor<64x4xf32> {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %r = scf.for %i = %c0 to %n step %c1 iter_args(%s = %a) -> tensor<64x4xf32> {
        %row = tensor.extract_slice %s[%i, 0] [1, 4] [1, 1] : tensor<64x4xf32> to tensor<1x4xf32>
        %t = arith.addf %row, %row : tensor<1x4xf32>
        %next = arith.addi %i, %c1 : index
        %u = tensor.insert_slice %t into %s[%next, 0] [1, 4] [1, 1] : tensor<1x4xf32> into tensor<64x4xf32>
        scf.yield %u : tensor<64x4xf32>
      }
      return %r : tensor<64x4xf32>
    }"""
    f = pd.device(name).load(pd.compile(text, targets=name)).f
    a = np.ones((64, 4), np.float32)
    profile = f.profile(a, 40)
    commands = [timing.command for timing in profile]
    assert len(commands) == len(set(commands)), commands
    assert sum(timing.runs for timing in profile if "dispatch" in timing.command) == 40


@pytest.mark.parametrize("text", [LOOP, LOOP.replace("%n: index", "%x: f32").replace("to %n", "to %c1")])
def test_almost_all_of_a_long_call_is_in_its_commands(text: str) -> None:
    size = 384
    f = pd.device("cpu").load(pd.compile(text.replace("S", str(size)))).f
    a = np.ones((size, size), np.float32)
    profiles = [f.profile(a, 2) for _ in range(3)]
    assert max(profile.seconds / profile.whole for profile in profiles) >= 0.95


def test_state_changes_as_by_calls() -> None:
    text = """
util.global private mutable @total = dense<0.0> : tensor<4xf32>
func.func @add(%a: tensor<4xf32>) -> tensor<4xf32> {
  %old = util.global.load @total : tensor<4xf32>
  %new = arith.addf %old, %a : tensor<4xf32>
  util.global.store %new, @total : tensor<4xf32>
  return %new : tensor<4xf32>
}"""
    add = pd.device("cpu").load(pd.compile(text)).add
    one = np.ones(4, np.float32)
    assert add.profile(one, runs=3)[0].flops == 4
    np.testing.assert_array_equal(add(one), 5 * one)  # one that is not counted, three, and this


def dispatch(region: int) -> Dispatch:
    return Dispatch(region, (Slot(0, 0, 1000),), 0, 0, "k", (2, 1, 1), 0, 0)


def test_commands_that_run_together_are_one() -> None:
    commands = [(0, dispatch(0)), (1, dispatch(0)), (3, Fill(1, (Slot(0, 0, 8),), 0, 4)), (4, dispatch(2))]
    spans = [(0, 1000), (0, 1000), (0, 0), (1000, 1500), (2000, 2100)]
    measured = Measured(commands, [f"c{i}" for i in range(5)], b"", [spans, spans, [(0, 1)] * 5, spans])
    stated = {0: [["f32", [500, -1]]]}
    timings = measured.timings(stated)
    assert [t.command for t in timings] == ["c0, then c1", "c3", "c4"]
    assert [t.seconds for t in timings] == pytest.approx([1e-6, 5e-7, 1e-7])
    assert [(t.flops, t.nbytes, t.workgroups) for t in timings] == [(2000, 2000, 4), (0, 8, 0), (1000, 1000, 2)]
    assert measured.busy(0) == pytest.approx(1.6e-6)


def test_skipped_copies_move_no_bytes() -> None:
    """State is updated by rows in its own memory: the copy of the other rows has nothing to do."""
    text = """
util.global private mutable @cache = dense<0.0> : tensor<512x64xf32>
func.func @f(%row: tensor<1x64xf32>, %i: index) {
  %cache = util.global.load @cache : tensor<512x64xf32>
  %new = tensor.insert_slice %row into %cache[%i, 0] [1, 64] [1, 1] : tensor<1x64xf32> into tensor<512x64xf32>
  util.global.store %new, @cache : tensor<512x64xf32>
  return
}"""
    f = pd.device("cpu").load(pd.compile(text)).f
    row = np.ones((1, 64), np.float32)
    warm = f.profile(row, 3)
    assert 0 < sum(timing.nbytes for timing in warm) < 2048 and "with warm caches" in str(warm)
    cold = f.profile(row, 3, cold=True)
    assert cold.caches == "cold" and "with cold caches" in str(cold)
    with pytest.raises(pd.InvalidArgumentError, match="cold: expected True or False, got 1"):
        f.profile(row, 3, cold=1)
    commands = [(0, Copy(0, (Slot(0, 0, 1000), Slot(1, 0, 1000)))), (1, dispatch(0))]
    measured = Measured(commands, ["copy", "k"], b"", [[(0, 0), (5, 10)], [(0, 5), (5, 10)], [(0, 0), (0, 0)]])
    assert [timing.nbytes for timing in measured.timings({})] == [667, 667]


def test_the_table() -> None:
    timings = [
        Timing("short <k>", 1e-6, 1000, 4, 3000, "f32"),
        Timing("long", 3e-6, 6000, 1, None),
    ]

    def peak(flops: int | None, type: str, nbytes: int) -> float | None:
        return None if flops is None else max(flops / 6e9, nbytes / 2e9)

    profile = Profile(timings, 2e-6, 1e-6, peak)
    head, *rows, last = str(profile).splitlines()
    assert head.split() == ["time", "share", "GB/s", "GFLOP/s", "%", "of", "peak", "workgroups", "command"]
    assert [row.split() for row in rows] == [
        ["3.00", "us", "60.0", "%", "2.00", "unknown", "unknown", "1", "long"],
        ["1.00", "us", "20.0", "%", "1.00", "3.00", "50", "%", "4", "short", "<k>"],
        ["1.00", "us", "20.0", "%", "outside", "dispatches"],
    ]
    assert last == "5.00 us for 2 commands, one after another; an ordinary call takes 2.00 us"
    assert "short &lt;k&gt;" in profile._repr_html_() and profile._repr_html_().count("<tr>") == 4
    data = json.loads(json.dumps(profile.as_dict()))
    assert [each["share_of_peak"] for each in data["commands"]] == [pytest.approx(0.5), None]
    assert (data["call_s"], data["outside_s"]) == (2e-6, 1e-6)
    assert Timing("k", 0.0, 8).gigabytes_per_second == Timing("k", 0.0, flops=8).gigaflops_per_second == 0


def test_what_this_machine_can_do() -> None:
    text = """
func.func @f(%x: tensor<4096xf32>) -> tensor<4096xf32> {
  %y = arith.addf %x, %x : tensor<4096xf32>
  return %y : tensor<4096xf32>
}"""
    f = pd.device("cpu").load(pd.compile(text)).f
    profile: Any = f.profile(np.ones(4096, np.float32))
    share = profile.share_of_peak(profile[0])
    assert share is not None and 0 < share < 100
