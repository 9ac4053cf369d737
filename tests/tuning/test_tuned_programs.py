"""Programs compiled with choices: the clock is made up, the rest is real."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pydispatch as pd
from pydispatch.cli.__main__ import main
from pydispatch.compiler.driver import pipeline
from pydispatch.formats.artifact import choices
from pydispatch.formats.artifact.choices import Choice
from pydispatch.tuning.bench import Bench, Call
from pydispatch.tuning.schedules import schedule_named
from pydispatch.tuning.tunable import Trial
from pydispatch.tuning.tuner import Tuner

M, N, K = 96, 80, 64


def product(given: str = "") -> str:
    """A matrix product with a clamp. given: what the second factor is, an argument without it."""
    a, b, c = f"tensor<{M}x{K}xf32>", f"tensor<{K}x{N}xf32>", f"tensor<{M}x{N}xf32>"
    return f"""func.func @f(%a: {a}{"" if given else f", %b: {b}"}) -> {c} {{
      {given}
      %z = arith.constant 0.0 : f32
      %e = tensor.empty() : {c}
      %f = linalg.fill ins(%z : f32) outs(%e : {c}) -> {c}
      %m = linalg.matmul ins(%a, %b : {a}, {b}) outs(%f : {c}) -> {c}
      %r = arith.maximumf %m, %f : {c}
      return %r : {c}
    }}"""


class FakeBench:
    """Says that configurations take what `times` says, or 100 us; keeps what was built."""

    def __init__(self, times: Callable[[str], float] = lambda config: 100.0, machine: str = "a machine") -> None:
        self.times, self.machine = times, machine
        self.built: dict[str, Trial] = {}

    def load(self, built: Trial) -> Call | None:
        self.built[built.config] = built
        return lambda: built.config

    def microseconds(self, call: Call, seconds: float) -> float:
        return self.times(str(call()))


def tuned(source: Any, bench: FakeBench, seconds: float = 1e9, **options: Any) -> tuple[pd.Artifact, list[str]]:
    lines: list[str] = []
    tuner = Tuner(seconds, bench, lines.append)  # type: ignore[arg-type]
    return pipeline.compile(source, cpu="native", chooser=tuner, **options), lines


def choices_of(artifact: pd.Artifact) -> list[Choice]:
    return choices.decode(artifact.manifest.extra[choices.KEY])


def given(source: str) -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(1)
    shapes = ((M, K), (K, N)) if "%b: tensor" in source else ((M, K),)
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


@pytest.fixture(autouse=True)
def own_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYDISPATCH_CACHE_DIR", str(tmp_path / "cache"))


def test_the_fastest_is_chosen_recorded_and_found_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = product()
    seen = FakeBench()
    tuned(source, seen)  # equal times: the default stays, and what is near it has been built
    default, *others = seen.built
    wanted = others[3]
    bench = FakeBench(lambda config: 50.0 if config == wanted else 100.0, "another machine")
    artifact, lines = tuned(source, bench)
    (choice,) = choices_of(artifact)
    assert choice == Choice("f_dispatch_0_matmul_96x80x64xf32_maximumf", wanted, 50, default, 100, "another machine")
    assert lines[0].startswith(f"100.0 %  {choice.subject}: 100.0 -> 50.0 us (-50.0 %): {wanted}, ")
    assert lines[1:] == ["measured 1 of 1 choices: 100.0 -> 50.0 us a call (-50.0 %)"]
    path = tmp_path / "f.pdx"
    artifact.save(path)
    assert main(["inspect", "--dispatches", str(path)]) == 0
    shown = f"    measured: {wanted}: 50.0 us; default {default}: 100.0 us (-50.0 %)\n"
    assert capsys.readouterr().out.endswith(shown)
    again, _ = tuned(source, FakeBench(machine="another machine"), seconds=0)
    assert again.to_bytes() == artifact.to_bytes()
    plain = pd.compile(source, cpu="native")
    assert plain.to_bytes() != artifact.to_bytes() and choices.KEY not in plain.manifest.extra
    unknown, lines = tuned(source, FakeBench(machine="a third machine"), seconds=0)
    assert unknown.to_bytes() == plain.to_bytes() and lines[0].startswith("measured 0 of 1")


def test_results_do_not_depend_on_the_schedule() -> None:
    source = product()
    arrays = given(source)
    seen = FakeBench()
    tuned(source, seen)
    device = pd.device("cpu")
    wanted = device.load(pd.compile(source, cpu="native")).f(*arrays)
    assert len(seen.built) > 8
    for config, built in seen.built.items():
        assert np.array_equal(device.load(built.artifact).functions[built.function](*arrays), wanted), config


def test_a_constant_factor_is_measured_in_panels() -> None:
    """In the programs that are measured a constant lies as it does in the program; its elements are others."""
    values = np.random.default_rng(2).standard_normal((K, N * 16)).astype(np.float32)
    a, b, c = f"tensor<{M}x{K}xf32>", f"tensor<{K}x{N * 16}xf32>", f"tensor<{M}x{N * 16}xf32>"
    source = f"""func.func @f(%a: {a}) -> {c} {{
      %b = arith.constant dense<"0x{values.tobytes().hex().upper()}"> : {b}
      %z = arith.constant 0.0 : f32
      %e = tensor.empty() : {c}
      %f = linalg.fill ins(%z : f32) outs(%e : {c}) -> {c}
      %m = linalg.matmul ins(%a, %b : {a}, {b}) outs(%f : {c}) -> {c}
      return %m : {c}
    }}"""
    seen = FakeBench()
    tuned(source, seen)
    assert all("packs B" not in config and "A and B" not in config for config in seen.built) and len(seen.built) > 4
    wanted = list(seen.built)[-1]
    artifact, _ = tuned(source, FakeBench(lambda config: 50.0 if config == wanted else 100.0, "another"))
    assert choices_of(artifact)[0].chosen == wanted
    x = np.random.default_rng(1).standard_normal((M, K)).astype(np.float32)
    device = pd.device("cpu")
    result = device.load(artifact).f(x)
    assert np.array_equal(result, device.load(pd.compile(source, cpu="native")).f(x))
    np.testing.assert_allclose(result, x @ values, rtol=1e-3, atol=1e-3)


def test_every_way_that_is_tried_is_legal_and_has_a_name() -> None:
    seen = FakeBench()
    tuned(product(), seen)
    for config, built in seen.built.items():
        schedule = schedule_named(config)
        assert schedule is not None and schedule.mt % schedule.mr == 0 and schedule.nt % schedule.nr == 0
        assert isinstance(built, Trial)
    assert schedule_named("fast") is None and schedule_named("8x16, tile 8x16, K 1, packs C") is None


def test_sizes_that_only_calls_know_are_not_tuned() -> None:
    a, b = f"tensor<?x{K}xf32>", f"tensor<{K}x{N}xf32>"
    source = f"""func.func @f(%a: {a}, %b: {b}, %c: tensor<?x{N}xf32>) -> tensor<?x{N}xf32> {{
      %m = linalg.matmul ins(%a, %b : {a}, {b}) outs(%c : tensor<?x{N}xf32>) -> tensor<?x{N}xf32>
      return %m : tensor<?x{N}xf32>
    }}"""
    artifact, lines = tuned(source, FakeBench())
    assert choices.KEY not in artifact.manifest.extra
    assert lines == []


@pytest.mark.parametrize("element", ["f64", "f16", "bf16", "f8E4M3FN", "i1", "i4", "i8", "i64", "complex<f32>"])
def test_arguments_of_every_type_are_made_up(element: str) -> None:
    type_ = f"tensor<6x7x{element}>"
    artifact = pd.compile(f"func.func @f(%a: {type_}) -> {type_} {{\n return %a : {type_}\n}}")
    assert Bench(pd.device("local-sync")).load(Trial(artifact, "f", "")) is not None


def test_the_real_clock_measures_real_programs(capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever it finds, the result is right and was measured."""
    source = product()
    artifact = pd.compile(source, cpu="native", tune=1e-3, tune_on=pd.device("local-sync"))
    (choice,) = choices_of(artifact)
    assert choice.us > 0 and choice.default_us > 0 and choice.machine.endswith("1 workers")
    assert "measured 1 of 1 choices" in capsys.readouterr().err
    a, b = given(source)
    np.testing.assert_allclose(pd.device("cpu").load(artifact).f(a, b), np.maximum(a @ b, 0), rtol=1e-4, atol=1e-4)


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "f.mlir"
    file.write_text(product())
    assert main(["compile", str(file), "--cpu=native", "--tune=0.001"]) == 0
    assert "measured 1 of 1 choices" in capsys.readouterr().err
    assert len(choices_of(pd.Artifact.from_file(tmp_path / "f.pdx"))) == 1
    assert main(["compile", str(file), "--tune=1", "--compile-to=dispatches"]) != 0
    assert "leave --compile-to out" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"tune": -1}, pd.InvalidArgumentError, "tune: expected seconds"),
        ({"tune": float("nan")}, pd.InvalidArgumentError, "tune: expected seconds"),
        ({"tune": True}, pd.InvalidArgumentError, "tune: expected seconds"),
        ({"tune": "5"}, pd.InvalidArgumentError, "tune: expected seconds"),
        ({"tune": 1, "tune_on": "cpu"}, pd.InvalidArgumentError, "tune_on: expected a CPU device"),
        ({"tune_on": "cpu"}, pd.InvalidArgumentError, "nothing to measure"),
        ({"tune": 1, "targets": "vulkan"}, pd.CompileError, "compiled for"),
        ({"tune": 1, "cpu": ["generic", "native"]}, pd.CompileError, "one CPU"),
        ({"tune": 1, "targets": "aarch64"}, pd.CompileError, "this machine"),
    ],
)  # fmt: skip
def test_what_is_refused(options: Mapping[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        pd.compile(product(), **options)


@pytest.mark.parametrize("text", ["", "[1]", '[["f", "a", "x", "b", 1, "m"]]', '[["f", "a", 1, "b", -1, "m"]]', "[[]]"])
def test_a_broken_list_of_choices_is_refused(text: str) -> None:
    with pytest.raises(pd.ArtifactError, match=r"manifest\.json: choices"):
        choices.decode(text)
    choice = Choice("f", "a", 1.5, "b", 2.0, "m")
    assert choices.decode(choices.encode([choice])) == [choice]
