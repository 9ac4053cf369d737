"""`pydispatch bench` and the fixture for pytest-benchmark: what they print, write and refuse."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import pydispatch as pd
from pydispatch.bench import measure, peer, plot, report
from pydispatch.bench.program import difference, work_of
from pydispatch.bench.pytest_plugin import calibrated
from pydispatch.cli import __main__ as cli
from pydispatch.compiler.driver.plugin import build_system

TEXT = """
func.func @main(%a: tensor<4x8xf32>, %b: tensor<8xf32>) -> tensor<4x8xf32> {
  %e = tensor.empty() : tensor<4x8xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>,
                       affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
       ins(%a, %b : tensor<4x8xf32>, tensor<8xf32>) outs(%e : tensor<4x8xf32>) {
    ^bb0(%x: f32, %y: f32, %o: f32):
      %s = arith.OPERATION %x, %y : f32
      linalg.yield %s : f32
  } -> tensor<4x8xf32>
  return %r : tensor<4x8xf32>
}
"""
ARCH = {"AMD64": "x86_64", "arm64": "arm_64", "aarch64": "arm_64"}.get(platform.machine(), platform.machine())
INPUTS = ["--input=4x8xf32=2", "--input=8xf32=3"]
QUICK = ["--seconds=0.01", "--warm-up=0"]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("bench")
    found = {}
    for name in ("addf", "mulf"):
        source = folder / f"{name}.mlir"
        source.write_text(TEXT.replace("OPERATION", name))
        pd.compile(source, targets="cpu").save(folder / f"{name}.pdx")
        found[name] = str(folder / f"{name}.pdx")
    found["source"] = str(folder / "addf.mlir")
    return found


def test_one_program(files: dict[str, str], capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = tmp_path / "figures.json"
    assert cli.main(["bench", files["addf"], *INPUTS, *QUICK, f"--json={out}", "--items=4"]) == 0
    first, head, row = capsys.readouterr().out.splitlines()
    assert first.startswith("@main on cpu") and "items/s" in head and row.startswith(files["addf"])
    data = json.loads(out.read_text())
    (found,) = data["contenders"]
    assert data["function"] == "main" and data["machine"]["workers"] >= 1
    assert found["rounds"] >= measure.FEWEST_ROUNDS and found["least_s"] <= found["median_s"]
    nbytes = 4 * (32 + 8 + 32)
    assert found["bytes_per_s"] * found["median_s"] == pytest.approx(nbytes)
    assert found["items_per_s"] * found["median_s"] == pytest.approx(4)


def test_artifacts_side_by_side(files: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", files["addf"], *INPUTS, *QUICK, "--compare", files["source"]]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 7 and lines[2].startswith(files["addf"]) and " to " in lines[3].rpartition("(")[2]
    assert cli.main(["bench", files["addf"], *INPUTS, *QUICK, "--compare", files["mulf"]]) == 1
    assert f"[FAILED] {files['mulf']}: results differ from those of {files['addf']} by 0.2" in capsys.readouterr().out


def test_each_contender_reads_files_from_the_start(
    files: dict[str, str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with (tmp_path / "in.npy").open("wb") as stream:
        for shape, value in ((4, 8), 2), ((8,), 3), ((4, 8), 5), ((8,), 7):
            np.save(stream, np.full(shape, value, np.float32))
    words = ["bench", files["addf"], *QUICK, "--compare", files["source"], f"--input=+{tmp_path}/in.npy"]
    assert cli.main([*words, f"--input=+{tmp_path}/in.npy"]) == 0
    assert "[FAILED]" not in capsys.readouterr().out
    assert cli.main(words) == 1
    assert "expected 2 arguments, got 1" in capsys.readouterr().err
    with (tmp_path / "in.npy").open("r+b") as stream:  # the first two arrays alone
        np.lib.format.read_array(stream), np.lib.format.read_array(stream)
        stream.truncate()
    assert cli.main([*words[:-1], f"--input=*{tmp_path}/in.npy"]) == 0


@pytest.mark.parametrize("device", ["vulkan", "ptx-interpreter"])
def test_other_devices(device: str, files: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", files["source"], *INPUTS, *QUICK, f"--device={device}"]) == 0
    assert capsys.readouterr().out.startswith(f"@main on {device}")


HERE = {"generated code", "C, inlined", "object, linked", "plugin, embedded ELF", "plugin of the system",
        "whole kernel", "executable given at load", "match and replace", "host command", "Vulkan", "WebGPU",
        "PTX interpreter", "direct: NumPy", "direct: ctypes", "direct: cffi"}  # fmt: skip


def test_modes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every mode computes the same for whole and ragged workgroups; the figures are printed, written and drawn."""
    picture, figures = tmp_path / "modes.svg", tmp_path / "modes.json"
    words = ["bench", "--modes=64,1500", "--seconds=0.01", f"--plot={picture}", f"--json={figures}"]
    assert cli.main(words) == 0
    data = json.loads(figures.read_text())
    assert set(data["seconds"]) | set(data["missing"]) == {*HERE, "CUDA", "direct: Numba"}
    assert not HERE & set(data["missing"])
    assert data["sizes"] == [64, 1500] and all(len(row) == 2 and all(row) for row in data["seconds"].values())
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["a", "call", "64", "1,500"] and "ns per element" in lines
    root = ElementTree.fromstring(picture.read_text())
    texts = {"".join(e.itertext()).strip() for e in root.iter("{http://www.w3.org/2000/svg}text")}
    assert set(data["seconds"]) <= texts and {"a call", "an element", "elements"} <= texts


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ([3.3, 3.4], ["3.2", "3.3", "3.4", "3.5"]),
        ([1000], ["960", "980", "1k", "1.02k", "1.04k"]),
        ([2.1, 4.5], ["2", "3", "4"]),
        ([1, 100], ["1", "10", "100"]),
    ],
)
def test_a_logarithmic_axis_has_labels(values: list[float], labels: list[str]) -> None:
    assert [label for _, label in plot.Axis.of(values, 0, 100).ticks()] == labels


def test_plots_without_points() -> None:
    """A panel without points says so."""
    root = ElementTree.fromstring(plot.svg([plot.Panel("a call", "elements", "us", {"one": []})]))
    assert "no figures" in {e.text for e in root.iter("{http://www.w3.org/2000/svg}text")}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "bench: expected a FILE, or --modes"),
        (["--modes", "--input=4"], "--modes: it has programs of its own; leave out FILE, --input"),
        (["--modes=0"], "--modes=0: expected numbers of elements, such as 64,1024"),
        (["--modes=64,x"], "--modes=64,x: expected numbers of elements"),
    ],
)
def test_refused_modes(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", *words]) == 1
    assert message in capsys.readouterr().err


def test_the_help_names_every_peer(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["bench", "--help"])
    listed = capsys.readouterr().out
    assert all(name in listed for name in peer.names())


@pytest.mark.peer
def test_iree(files: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", files["source"], *INPUTS, *QUICK, "--peer=iree"]) == 0
    assert capsys.readouterr().out.splitlines()[3].startswith("iree")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--peer=tvm"], "--peer=tvm: expected names of iree, onnxruntime, openvino, got 'tvm'"),
        (["--peer=iree"], "it does not read '{addf}'; give it a file of its own: --peer=iree=FILE with a .mlir or"),
        (["--seconds=0"], "--seconds=0: expected more than 0"),
        (["--items=-1"], "--items=-1: expected more than 0"),
        (["--warm-up=-1"], "--warm-up=-1: expected 0 or more"),
        (["--compare", "{addf}"], "--compare: '{addf}' is there twice"),
        (["--compare", "missing.pdx"], "missing.pdx"),
        (["--function=nobody"], "nobody"),
    ],
)
def test_refused(words: list[str], message: str, files: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    given = [word.format(**files) for word in words]
    assert cli.main(["bench", files["addf"], *INPUTS, *QUICK, *given]) == 1
    assert message.format(**files) in capsys.readouterr().err


@pytest.mark.parametrize("name", ["onnxruntime", "openvino"])
def test_a_peer_that_is_not_there(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    model = tmp_path / "model.onnx"
    model.write_bytes(b"")
    monkeypatch.setitem(sys.modules, name, None)
    question = peer.Question(model, "main", [], 1, tmp_path)
    with pytest.raises(pd.InvalidArgumentError, match=f"{name} is not installed: pip install {name}"):
        peer.contender(name, question)


def test_statistics() -> None:
    base = measure.Samples("a", tuple(float(n) for n in range(1, 11)), 5)
    other = measure.Samples("b", tuple(2.0 * n for n in range(1, 11)), 3)
    assert (base.median, base.least, base.middle) == (5.5, 1, (2, 9))
    assert measure.ratio(other, base) == measure.Ratio(2, (2, 2))
    table = report.rows([base, other], 11, 2)
    assert table[0]["bytes_per_s"] == 2 and table[1]["items_per_s"] == pytest.approx(2 / 11)
    assert "times_the_first" not in table[0] and table[1]["times_the_first"] == 2
    assert report.time_text(1.5e-6) == "1.5 us" and report.time_text(2e-10) == "0.2 ns"


@pytest.mark.parametrize(("seconds", "shown"), [
    (0.9996, "1 s"), (999.9e-6, "1 ms"), (999.4e-6, "999 us"), (999.6, "1000 s"), (4321, "4321 s"), (0, "0 ns"),
])  # fmt: skip
def test_a_rounded_duration_has_the_unit_of_its_value(seconds: float, shown: str) -> None:
    assert report.time_text(seconds) == shown


@pytest.mark.parametrize(("nbytes", "shown"), [(1_234_600, "1,235"), (999_600, "1,000"), (12_345, "12.3")])
def test_rates_have_no_exponents(nbytes: int, shown: str) -> None:
    table = report.rows([measure.Samples("a", (1e-6,) * 10, 5)], nbytes, 1)
    assert report.text(table, "items").split()[-1] == shown


@pytest.mark.parametrize(("value", "shown"), [
    (999.6, "1k"), (999_500, "1M"), (999_400, "999k"), (1e12, "1T"), (-5000, "-5k"), (0, "0"), (0.125, "0.125"),
])  # fmt: skip
def test_a_rounded_number_has_the_unit_of_its_value(value: float, shown: str) -> None:
    assert plot.short_number(value) == shown


def test_rounds_take_turns() -> None:
    seen: list[str] = []
    found = measure.measure({"a": lambda: seen.append("a"), "b": lambda: seen.append("b")}, 1e-6, 0)
    assert len(found[0].seconds) == len(found[1].seconds) == measure.FEWEST_ROUNDS
    counts = {samples.name: samples.calls for samples in found}
    rounds = [name * counts[name] for k in range(measure.FEWEST_ROUNDS) for name in ("ab", "ba")[k % 2]]
    assert "".join(seen) == "aabb" + "".join(rounds)


def test_buffers_need_their_device() -> None:
    """Calls of some accelerators return before their work ends, which only the device can wait for."""
    device = pd.device("ptx-interpreter")
    buffer = device.upload(np.ones(4, np.float32))
    for other in (None, pd.device("cpu")):
        with pytest.raises(pd.InvalidArgumentError, match=f"device: the call has a buffer of '{device.name}'; pass"):
            work_of(other, lambda x: x, [buffer])
    np.testing.assert_array_equal(work_of(device, lambda x: x, [buffer]).results[0], 1)
    work_of(None, lambda x: x, [pd.device("cpu").upload(np.ones(4, np.float32))])


def test_differences() -> None:
    one = np.ones((2, 2))
    assert difference([one], [one]) == 0 and difference([one * 1.5], [one]) == 0.5
    assert difference([one], []) == difference([one], [one[0]]) == difference([one * np.nan], [one]) == float("inf")


def test_differences_of_results_with_infinities() -> None:
    masked = [np.array([0.0, -np.inf, np.inf, 2.0], np.float32)]
    assert difference(masked, masked) == 0
    assert difference([np.array(-np.inf)], [np.array(-np.inf)]) == 0
    assert difference([masked[0] + np.array([1, 0, 0, 0], np.float32)], masked) == 0.5  # relative to 2
    assert difference([-masked[0]], masked) == float("inf")
    assert difference([np.zeros(4, np.float32)], masked) == float("inf")


def test_the_fixture(files: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["pydispatch.bench.pytest_plugin"]')
    (tmp_path / "test_it.py").write_text(f"""
import numpy as np
import pydispatch as pd

def test_sum(dispatch_benchmark):
    device = pd.device("cpu")
    program = device.load({files["addf"]!r})
    found = dispatch_benchmark(
        program.main, np.full((4, 8), 2, np.float32), np.full(8, 3, np.float32), device=device, items=4
    )
    assert (found == 5).all()

def test_the_name_of_a_device(dispatch_benchmark):
    program = pd.device("cpu?workers=1").load({files["addf"]!r})
    assert (dispatch_benchmark(program.main, np.ones((4, 8), np.float32), np.ones(8, np.float32),
            device="cpu?workers=1") == 2).all()

def test_any_callable(dispatch_benchmark):
    assert (dispatch_benchmark(np.multiply, np.ones(8), 3.0) == 3).all()
""")
    words = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", "test_it.py"]
    figures = tmp_path / "figures.json"
    alone = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}  # not pytest-xdist's
    quick = ["--benchmark-max-time=0.01", "--benchmark-min-rounds=1", f"--benchmark-json={figures}"]
    done = subprocess.run([*words, *quick], cwd=tmp_path, env=alone, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    first, by_name, second = json.loads(figures.read_text())["benchmarks"]
    info = first["extra_info"]
    assert by_name["extra_info"]["machine"]["device"] == "cpu?workers=1"
    assert second["extra_info"]["bytes_per_s"] > 0 and "machine" not in second["extra_info"]
    assert info["items_per_s"] > 0 and info["bytes_per_s"] > 0 and info["machine"]["device"] == "cpu"
    words += ["-p", "no:benchmark"]
    done = subprocess.run(words, cwd=tmp_path, env=alone, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "dispatch_benchmark needs pytest-benchmark: pip install" in done.stdout


@pytest.mark.parametrize(
    ("seconds", "first", "expected"), [(1e-7, 0.01, 1000), (1e-7, 1e-7, 1000), (3e-5, 1.0, 4), (0.5, 0.5, 1)]
)
def test_rounds_are_long_enough(seconds: float, first: float, expected: int) -> None:
    """A first call that is slow does not make rounds of one call. The clock goes on by calls alone."""
    now, count = 0.0, 0

    def call() -> None:
        nonlocal now, count
        now += seconds if count else first
        count += 1

    iterations, found = calibrated(call, lambda: now)
    assert expected <= iterations <= 2 * expected and found == pytest.approx(seconds)


SLOW = "for (volatile int i = 0; i < 200000; ++i) {}"


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A program of generated code and two kernels in C, and the same with one of these slowed down."""
    folder = tmp_path_factory.mktemp("kernels")
    found = {}
    for name, work in {"good": "", "broken": SLOW}.items():
        (folder / f"{name}.c").write_text(TWO_KERNELS.replace("WORK", work))
        text = TWO.replace("OBJECT", f"{name}.c").replace("ARCH", ARCH)
        pd.compile(text, object_search_path=[folder]).save(folder / f"{name}.pdx")
        found[name] = str(folder / f"{name}.pdx")
    return found


TWO_KERNELS = """
#include <stddef.h>
void first(const float* restrict x, size_t x_offset, float* restrict y, size_t y_offset) {
  y[y_offset] = x[x_offset] + 1;
}
void second(const float* restrict x, size_t x_offset, float* restrict y, size_t y_offset) {
  WORK
  y[y_offset] = x[x_offset] * 2;
}
"""
TWO = (
    """
#cpu = #hal.executable.target<"llvm-cpu", "embedded-elf-ARCH">
#device = #hal.device.target<"local", [#cpu]> : !hal.device
module @two attributes {hal.device.targets = [#device]} {
  stream.executable private @kernels attributes {
    hal.executable.objects = #hal.executable.objects<{#cpu = [#hal.executable.object<{path = "OBJECT"}>]}>
  } {
"""
    + "".join(
        f"""
    stream.executable.export public @{name} workgroups() -> (index, index, index) {{
      %one = arith.constant 1 : index
      stream.return %one, %one, %one : index, index, index
    }}"""
        for name in ("one", "two")
    )
    + """
    builtin.module {
      func.func private @first(memref<f32>, index, memref<f32>, index)
          attributes {hal.import.static, llvm.bareptr = true}
      func.func private @second(memref<f32>, index, memref<f32>, index)
          attributes {hal.import.static, llvm.bareptr = true}
"""
    + "".join(
        f"""
      func.func @{name}(%b0: !stream.binding, %b1: !stream.binding) {{
        %z = arith.constant 0 : index
        %x = stream.binding.subspan %b0[%z] : !stream.binding -> memref<1xf32>
        %y = stream.binding.subspan %b1[%z] : !stream.binding -> memref<1xf32>
        %p0, %o0, %n0, %s0 = iree_codegen.extract_strided_metadata %x
            : memref<1xf32> -> memref<f32>, index, index, index
        %p1, %o1, %n1, %s1 = iree_codegen.extract_strided_metadata %y
            : memref<1xf32> -> memref<f32>, index, index, index
        func.call @{function}(%p0, %o0, %p1, %o1) : (memref<f32>, index, memref<f32>, index) -> ()
        return
      }}"""
        for name, function in (("one", "first"), ("two", "second"))
    )
    + """
    }
  }
  func.func @main(%x: tensor<1xf32>) -> tensor<1xf32> {
    %a = flow.dispatch @kernels::@one(%x) : (tensor<1xf32>) -> tensor<1xf32>
    %b = flow.dispatch @kernels::@two(%a) : (tensor<1xf32>) -> tensor<1xf32>
    %c = arith.addf %b, %b : tensor<1xf32>
    return %c : tensor<1xf32>
  }
}
"""
)


def test_a_slow_kernel_is_named_first(kernels: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    program = pd.device("cpu").load(kernels["broken"])
    profile = program.main.profile(np.ones(1, np.float32))
    assert len(profile) == 3 and "@two" in profile.longest[0].command
    assert "@two" in str(profile).splitlines()[1] and "an ordinary call takes" in str(profile).splitlines()[-1]
    assert [(t.workgroups, t.nbytes) for t in profile] == [(1, 8), (1, 8), (1, 8)]
    assert cli.main(["bench", kernels["good"], "--input=1xf32=1", *QUICK, "--compare", kernels["broken"]]) == 0
    lines = capsys.readouterr().out.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("commands"))
    assert "@two" in lines[at + 1]
    assert cli.main(["bench", kernels["broken"], "--input=1xf32=1", *QUICK, "--profile"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "@two" in lines[1 + next(i for i, line in enumerate(lines) if line.endswith("command"))]


PLUGIN = """
#include "pydispatch/plugin.h"
#include <time.h>

typedef struct { const float* x; size_t x_offset; float* y; size_t y_offset; } params_t;

static int first(void* params, void* context, void* reserved) {
  (void)context, (void)reserved;
  const params_t* p = params;
  p->y[p->y_offset] = p->x[p->x_offset] + 1;
  return 0;
}
static int second(void* params, void* context, void* reserved) {
  (void)context, (void)reserved;
  const params_t* p = params;
  p->y[p->y_offset] = p->x[p->x_offset] * 2;
  return 0;
}
static int asleep(void* params, void* context, void* reserved) {
  const struct timespec pause = {0, 2000000};
  nanosleep(&pause, NULL);
  return second(params, context, reserved);
}
PYD_PLUGIN("two", "two functions", PYD_PLUGIN_FN("first", first), PYD_PLUGIN_FN("second", second),
           PYD_PLUGIN_FN("asleep", asleep))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="the plugin sleeps as POSIX systems do")
def test_a_plugin_that_sleeps_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "two.c").write_text(PLUGIN)
    plugin = tmp_path / "two.so"
    plugin.write_bytes(build_system([tmp_path / "two.c"], include_dirs=[pd.get_include()]))
    start = TWO.index(" attributes {\n    hal.executable.objects")
    imports = TWO[:start] + TWO[TWO.index(" {\n\n", start) :].replace("hal.import.static, ", "")
    files = {}
    for name, function in {"good": "second", "asleep": "asleep"}.items():
        files[name] = str(tmp_path / f"{name}.pdx")
        pd.compile(imports.replace("ARCH", ARCH).replace("@second", f"@{function}")).save(files[name])
    device = pd.device("cpu")
    device.add_plugin(plugin)
    profile = device.load(files["asleep"]).main.profile(np.ones(1, np.float32))
    assert "@two" in profile.longest[0].command and profile.longest[0].seconds >= 2e-3
    assert profile.seconds >= 0.95 * profile.whole
    words = ["--input=1xf32=1", f"--plugin={plugin}", *QUICK, "--compare", files["asleep"]]
    assert cli.main(["bench", files["good"], *words]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "@two" in lines[1 + next(i for i, line in enumerate(lines) if line.startswith("commands"))]


def test_profiles_of_wrong_calls(kernels: dict[str, str]) -> None:
    function = pd.device("cpu").load(kernels["good"]).main
    with pytest.raises(pd.InvalidArgumentError, match="runs: expected a number of 1 or more, got 0"):
        function.profile(np.ones(1, np.float32), runs=0)
    with pytest.raises(pd.InvalidArgumentError, match="expected 1 argument, got 0"):
        function.profile()
    with pytest.raises(pd.InvalidArgumentError, match="argument 0"):
        function.profile(np.ones(2, np.float32))
