"""Every pair of dispatches of which one reads the other's result is listed with the reason why they are two."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from boundary_programs import PROGRAMS, SUM, text_of
from xdsl.dialects.builtin import ModuleOp

from pydispatch import ir
from pydispatch.compiler.analysis import reasons
from pydispatch.compiler.driver.options import Options
from pydispatch.compiler.driver.pipeline import Pipeline
from pydispatch.compiler.driver.sources import load_source
from pydispatch.compiler.fusion import group_order
from pydispatch.compiler.outline.boundaries import jumps_of, origins
from pydispatch.compiler.outline.explain import FusionReport
from pydispatch.compiler.outline.form import host_functions
from pydispatch.formats.artifact.dispatches import Boundary
from pydispatch.ir.dialects.flow import dialect as flow

CONFORMANCE = Path(__file__).parents[1] / "conformance"
sys.path.append(str(CONFORMANCE))

from random_programs import TYPES, Program  # noqa: E402

V, M = "tensor<16xf32>", "tensor<8x16xf32>"


def formed(source: ModuleOp) -> tuple[ModuleOp, list[FusionReport]]:
    pipeline = Pipeline(source, Options(targets=("cpu",)))
    pipeline.run_to("dispatches")
    return pipeline.module, pipeline.reports


def boundaries(arguments: str, result: str, body: str) -> list[Boundary]:
    _, (report,) = formed(ir.parse(text_of(arguments, result, body)))
    return [b for d in report.dispatches for b in d.apart]


def test_a_reason_names_both_operations_and_what_would_have_to_change() -> None:
    (found,) = boundaries(*PROGRAMS[reasons.ELEMENT])
    assert found.producer.endswith("reduce_addf") and found.consumer.endswith("extract")
    assert found.reason == reasons.ELEMENT and "would have to" in found.reason


@pytest.mark.parametrize("reason", PROGRAMS)
def test_each_reason_keeps_two_operations_apart(reason: str) -> None:
    assert reason in {re.sub(r"\d+:\d+ ", "", b.reason) for b in boundaries(*PROGRAMS[reason])}


def test_each_reason_has_a_program() -> None:
    programs = "".join(Path(__file__).with_name("boundary_programs.py").read_text().split("PROGRAMS:")[1:])
    names = {name for name in vars(reasons) if not name.startswith("_") and name != "annotations"}
    others = {name for name in names if f"reasons.{name}" not in programs}
    assert others == {"STATED", "CONTROL", "HOST", "UNTRIED", "TOO_FAR"}


def test_operations_that_are_far_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search between two operations that would take long is not made."""
    slices = "".join(
        f"""
      %p{n} = tensor.insert_slice %r into %p{n - 1}[{n}, 0] [1, 16] [1, 1] : V into M"""
        for n in range(1, 7)
    )
    program = (
        "%x: M, %p0: M, %r: V",
        "M",
        f"""
      %a = math.exp %x : M{slices}
      %o = arith.addf %a, %p6 : M""",
    )
    assert reasons.TOO_FAR not in {b.reason for b in boundaries(*program)}
    monkeypatch.setattr(group_order, "MOST_VISITED", 4)
    (found,) = [b for b in boundaries(*program) if b.reason == reasons.TOO_FAR]
    assert found.producer.endswith("exp") and found.consumer.endswith("addf")


def test_host_code_between_two() -> None:
    found = boundaries(
        "%x: M, %n: index",
        "tensor<?x16xf32>",
        f"""{SUM}
      %e = tensor.extract %s[%n] : R
      %i = arith.fptosi %e : f32 to i32
      %at = arith.index_cast %i : i32 to index
      %part = tensor.extract_slice %x[0, 0] [%at, 16] [1, 1] : M to tensor<?x16xf32>
      %o = math.exp %part : tensor<?x16xf32>""",
    )
    (found,) = [b for b in found if b.consumer.endswith("exp")]
    assert found.producer.endswith("reduce_addf")
    assert re.fullmatch(reasons.HOST.format(r"\d+:\d+ \w+"), found.reason)


def test_a_loop_between_two() -> None:
    found = boundaries(
        "%x: M, %n: index",
        "M",
        """
      %a = math.exp %x : M
      %r = scf.for %i = %c0 to %n step %n iter_args(%c = %a) -> (M) {
        %d = math.absf %c : M
        scf.yield %d : M
      }
      %o = math.log %r : M""",
    )
    pairs = {(b.producer.split()[-1], b.consumer.split()[-1]): b.reason for b in found}
    assert {("exp", "absf"), ("absf", "log"), ("exp", "log")} <= set(pairs)
    assert all(re.fullmatch(reasons.CONTROL.format(r"\d+:\d+ \w+"), reason) for reason in pairs.values())


def test_the_index_of_a_loop_is_none_of_its_carried_values() -> None:
    """A dispatch that reads the index reads no result of a dispatch that computes a carried value."""
    found = boundaries(
        "%x: M, %c: M, %v: V, %n: index",
        "M",
        """
      %r:2 = scf.for %i = %c0 to %n step %n iter_args(%a = %c, %b = %v) -> (M, V) {
        %next = math.exp %a : M
        %row = tensor.extract_slice %x[%i, 0] [1, 16] [1, 1] : M to V
        %log = math.log %row : V
        scf.yield %next, %log : M, V
      }
      %p = tensor.insert_slice %r#1 into %r#0[0, 0] [1, 16] [1, 1] : V into M
      %o = math.absf %p : M""",
    )
    pairs = {(b.producer.split()[-1], b.consumer.split()[-1]) for b in found}
    assert {("exp", "absf"), ("log", "absf")} <= pairs and ("exp", "log") not in pairs


def test_a_dispatch_that_the_program_states() -> None:
    text = f"""flow.executable private @kernel {{
      flow.executable.export public @entry
      builtin.module {{
        func.func @entry(%a: {V}) -> {V} {{
          %r = math.exp %a : {V}
          return %r : {V}
        }}
      }}
    }}
    func.func @f(%x: {V}) -> {V} {{
      %a = math.absf %x : {V}
      %r = flow.dispatch @kernel::@entry(%a) : ({V}) -> {V}
      return %r : {V}
    }}"""
    _, (report,) = formed(ir.parse(text))
    (found,) = report.dispatches[0].apart
    assert found.producer.endswith("absf") and found.reason == reasons.STATED


def _listed(module: ModuleOp, reports: list[FusionReport]) -> None:
    """Every pair is there, and no reason is missing. Equal dispatches have one name: any of them may have the pair."""
    for function, report in zip(host_functions(module), reports, strict=True):
        assert all(b.reason != reasons.UNTRIED for d in report.dispatches for b in d.apart)
        for consumer in function.walk():
            if not isinstance(consumer, flow.DispatchOp):
                continue
            readers = {op for d in report.dispatches if d.export == _export(consumer) for op in d.ops} | {"a copy"}
            for producer in set(origins(consumer, jumps_of(function))) - {consumer}:
                apart = [b for d in report.dispatches if d.export == _export(producer) for b in d.apart]
                assert not readers.isdisjoint(b.consumer for b in apart), (_export(producer), _export(consumer))


def _export(dispatch: flow.DispatchOp) -> str:
    return str(dispatch.entry_points.data[0].nested_references.data[-1].data)


@pytest.mark.parametrize("path", sorted((CONFORMANCE / "models").glob("*.mlir")), ids=lambda path: path.stem)
def test_every_boundary_of_models_has_a_reason(path: Path) -> None:
    module, _ = load_source(path)
    _listed(*formed(module))


def test_every_boundary_of_random_programs_has_a_reason() -> None:
    for seed in range(60):
        program = Program(seed, dynamic=seed % 2 == 1, element=list(TYPES)[seed // 2 % len(TYPES)])
        program.grow()
        _listed(*formed(ir.parse(program.text())))
