"""Every pair of dispatches of which one reads the other's result is listed with the reason why they are two."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from xdsl.dialects.builtin import ModuleOp

from pydispatch import ir
from pydispatch.compiler.driver.pipeline import Options, Pipeline
from pydispatch.compiler.driver.sources import load_source
from pydispatch.compiler.outline.boundaries import origins
from pydispatch.compiler.outline.explain import Report
from pydispatch.compiler.outline.form import host_functions
from pydispatch.formats.artifact.dispatches import Boundary
from pydispatch.ir.dialects.flow import dialect as flow

CONFORMANCE = Path(__file__).parents[1] / "conformance"
sys.path.append(str(CONFORMANCE))

from random_programs import TYPES, Program  # noqa: E402

V, M, N = "tensor<16xf32>", "tensor<8x16xf32>", "tensor<16x8xf32>"


def formed(source: ModuleOp) -> tuple[ModuleOp, list[Report]]:
    pipeline = Pipeline(source, Options(targets=("cpu",)))
    pipeline.run_to("dispatches")
    return pipeline.module, pipeline.reports


def boundaries(body: str, arguments: str = f"%x: {M}", result: str = M) -> list[Boundary]:
    text = f"""func.func @f({arguments}) -> {result} {{
      %zero = arith.constant 0.0 : f32
      %i0 = arith.constant 0 : index
      %i1 = arith.constant 1 : index
      %i3 = arith.constant 3 : index
      %m = tensor.empty() : {M}
      %v = tensor.empty() : tensor<8xf32>
      %z = linalg.fill ins(%zero : f32) outs(%v : tensor<8xf32>) -> tensor<8xf32>
      {body}
    }}"""
    _, (report,) = formed(ir.parse(text))
    return [b for d in report.dispatches for b in d.apart]


SUM = f"%s = linalg.reduce {{ arith.addf }} ins(%x : {M}) outs(%z : tensor<8xf32>) dimensions = [1]"
PRODUCT = f"""%w = tensor.empty() : tensor<8x8xf32>
      %wz = linalg.fill ins(%zero : f32) outs(%w : tensor<8x8xf32>) -> tensor<8x8xf32>
      %p = linalg.matmul ins(%x, %y : {M}, {N}) outs(%wz : tensor<8x8xf32>) -> tensor<8x8xf32>"""


def test_an_element_that_a_whole_dispatch_reads() -> None:
    (found,) = boundaries(f"""{SUM}
      %e = tensor.extract %s[%i0] : tensor<8xf32>
      %b = linalg.fill ins(%e : f32) outs(%m : {M}) -> {M}
      %o = arith.addf %b, %x : {M}
      return %o : {M}""")
    assert found.producer.endswith("reduce_addf") and found.consumer.endswith("extract")
    assert "reads one element" in found.reason


def test_host_code_between_two() -> None:
    found = boundaries(f"""{SUM}
      %e = tensor.extract %s[%n] : tensor<8xf32>
      %i = arith.fptosi %e : f32 to i32
      %at = arith.index_cast %i : i32 to index
      %part = tensor.extract_slice %x[0, 0] [%at, 16] [1, 1] : {M} to tensor<?x16xf32>
      %o = math.exp %part : tensor<?x16xf32>
      return %o : tensor<?x16xf32>""", f"%x: {M}, %n: index", "tensor<?x16xf32>")  # fmt: skip
    (found,) = [b for b in found if b.consumer.endswith("exp")]
    assert found.producer.endswith("reduce_addf")
    assert "the host runs" in found.reason and "would have to compute it" in found.reason


def test_a_loop_between_two() -> None:
    found = boundaries(f"""%a = math.exp %x : {M}
      %r = scf.for %i = %i0 to %i3 step %i1 iter_args(%c = %a) -> ({M}) {{
        %n = math.absf %c : {M}
        scf.yield %n : {M}
      }}
      %o = math.log %r : {M}
      return %o : {M}""")
    pairs = {(b.producer.split()[-1], b.consumer.split()[-1]): b.reason for b in found}
    assert {("exp", "absf"), ("absf", "log"), ("exp", "log")} <= set(pairs)
    assert all("on one side of this control flow" in reason for reason in pairs.values())


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
    assert found.producer.endswith("absf") and "the program states this dispatch" in found.reason


def _listed(module: ModuleOp, reports: list[Report]) -> None:
    """Every pair is there, and no reason is missing. Equal dispatches have one name: any of them may have the pair."""
    for function, report in zip(host_functions(module), reports, strict=True):
        assert all("not tried" not in b.reason for d in report.dispatches for b in d.apart)
        for consumer in function.walk():
            if not isinstance(consumer, flow.DispatchOp):
                continue
            readers = {op for d in report.dispatches if d.export == _export(consumer) for op in d.ops} | {"a copy"}
            for producer in set(origins(consumer, function)) - {consumer}:
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
