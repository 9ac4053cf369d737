"""Arguments by name, and what functions say of themselves, on every device."""

from __future__ import annotations

import inspect
import json
import pydoc
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, StringAttr

import pydispatch as pd
from pydispatch import ir
from pydispatch.cli import inspect as inspect_command
from pydispatch.compiler.analysis.interface import NAME, SHAPE
from pydispatch.formats.artifact.manifest import Manifest

DEVICES = {"cpu": "cpu", "ptx-interpreter": "cuda", "vulkan:0": "vulkan"}
TEXT = """
func.func @scaled(%x: tensor<?x4xf32> {pyd.name = "input_ids", pyd.shape = ["batch", 4]}, %factor: f32,
    %shift: tensor<?x4xf32>) -> (tensor<?x4xf32> {pyd.name = "logits"}) {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x4xf32>
  %f = tensor.splat %factor[%n] : tensor<?x4xf32>
  %0 = arith.mulf %x, %f : tensor<?x4xf32>
  %1 = arith.addf %0, %shift : tensor<?x4xf32>
  return %1 : tensor<?x4xf32>
}
func.func @either(%then: tensor<4xf32>, %else: tensor<4xf32>, %if: i1) -> tensor<4xf32> {
  %0 = scf.if %if -> (tensor<4xf32>) {
    %1 = arith.addf %then, %then : tensor<4xf32>
    scf.yield %1 : tensor<4xf32>
  } else {
    scf.yield %else : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}
func.func @both(%a_1: tensor<?xf32>, %a_2: tensor<?xf32>) -> (tensor<?xf32>, tensor<?xf32>) {
  %0 = arith.addf %a_1, %a_2 : tensor<?xf32>
  %1 = tensor.concat dim(0) %a_1, %a_2 : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
  return %0, %1 : tensor<?xf32>, tensor<?xf32>
}
func.func @hostile(%0: tensor<2xf32>, %b: tensor<2xf32> {pyd.name = "class"}, %c: tensor<2xf32> {pyd.name = "a b"},
    %d: tensor<2xf32> {pyd.name = "twin"}, %e: tensor<2xf32> {pyd.name = "twin"},
    %f: tensor<2xf32> {pyd.name = "out"}, %last: tensor<2xf32>) -> tensor<2xf32> {
  %1 = arith.subf %0, %b : tensor<2xf32>
  %2 = arith.subf %1, %c : tensor<2xf32>
  %3 = arith.subf %2, %d : tensor<2xf32>
  %4 = arith.subf %3, %e : tensor<2xf32>
  %5 = arith.subf %4, %f : tensor<2xf32>
  %6 = arith.subf %5, %last : tensor<2xf32>
  return %6 : tensor<2xf32>
}"""
X = np.arange(12, dtype=np.float32).reshape(3, 4)
SHIFT = np.ones((3, 4), np.float32)
A, B = np.arange(4, dtype=np.float32), np.full(4, 7, np.float32)


@pytest.fixture(scope="module", params=DEVICES)
def program(request: pytest.FixtureRequest) -> Any:
    device = pd.device(request.param)
    return device.load(pd.compile(TEXT, targets=DEVICES[request.param]))


def refused(message: str) -> Any:
    return pytest.raises(pd.InvalidArgumentError, match=message)


def test_calls_by_name(program: Any) -> None:
    expected = X * 2 + SHIFT
    for got in (
        program.scaled(input_ids=X, factor=2.0, shift=SHIFT),
        program.scaled(X, shift=SHIFT, factor=2.0),
        program.scaled(X, 2.0, shift=SHIFT, out=None),
        program.scaled(shift=SHIFT, input_ids=X, factor=2),
    ):
        np.testing.assert_array_equal(np.asarray(got), expected)
    out = np.empty_like(X)
    assert program.scaled(shift=SHIFT, out=out, input_ids=X, factor=2.0) is out
    np.testing.assert_array_equal(out, expected)
    first, second = program.both(a_2=B, a_1=A)
    np.testing.assert_array_equal(np.asarray(first), A + B)
    np.testing.assert_array_equal(np.asarray(second), np.concatenate([A, B]))
    given = np.empty_like(A), np.empty(8, np.float32)
    assert all(a is b for a, b in zip(program.both(A, a_2=B, out=given), given, strict=True))
    np.testing.assert_array_equal(given[1], np.concatenate([A, B]))


def test_procedures_by_name(program: Any) -> None:
    np.testing.assert_array_equal(np.asarray(program.either(A, B, **{"if": True})), A + A)
    np.testing.assert_array_equal(np.asarray(program.either(**{"else": B, "if": False, "then": A})), B)
    call = program.either.prepare(A, **{"else": B, "if": True})
    np.testing.assert_array_equal(np.asarray(call()), A + A)
    np.testing.assert_array_equal(np.asarray(call(**{"then": A, "if": False, "else": A})), A)
    with refused("@either: missing argument 'if'"):
        program.either(A, **{"else": B})
    with refused("@either: missing arguments 'then', 'if'"):
        call(**{"else": A})
    with refused("@either: 'out' is given to a call or to prepare"):
        call(out=A)


def test_prepared_by_name(program: Any) -> None:
    call = program.scaled.prepare(factor=2.0, input_ids=X, shift=SHIFT)
    np.testing.assert_array_equal(np.asarray(call()), X * 2 + SHIFT)
    np.testing.assert_array_equal(np.asarray(call(SHIFT, shift=X, factor=3.0)), SHIFT * 3 + X)
    for wrong, message in (
        ({"out": X}, "'out' is given to a call or to prepare"),
        ({"factor": 1.0}, "missing arguments 'input_ids', 'shift'"),
        ({"x": X}, "unexpected keyword argument 'x'"),
    ):
        with refused(message):
            call(**wrong)
    assert program.scaled.plan_of(X, shift=SHIFT, factor=1.0) == program.scaled.plan_of(X, 1.0, SHIFT)


def test_wrong_names(program: Any) -> None:
    usage = r"scaled\(input_ids: \?x4xf32, factor: f32, shift: \?x4xf32\)"
    with refused(rf"@scaled: unexpected keyword argument 'inputs_ids'; did you mean 'input_ids'\? it takes {usage}"):
        program.scaled(inputs_ids=X, factor=1.0, shift=SHIFT)
    with refused(rf"@scaled: unexpected keyword argument 'zzz', it takes {usage}, and 'out' for results"):
        program.scaled(X, 1.0, SHIFT, zzz=1)
    with refused(rf"@scaled: missing argument 'factor': {usage}"):
        program.scaled(X, shift=SHIFT)
    with refused("@scaled: missing arguments 'input_ids', 'shift'"):
        program.scaled(factor=1.0)
    with refused("@scaled: argument 0 'input_ids' is given twice, by position and by name"):
        program.scaled(X, 1.0, SHIFT, input_ids=X)
    with refused("@scaled: argument 0 'input_ids' is given twice"):
        program.scaled(X, 1.0, SHIFT, X, input_ids=X)
    with refused("@scaled: argument 2 'shift': expected"):
        program.scaled(X, shift=SHIFT.astype(np.float64), factor=1.0)
    with refused("@scaled: expected 3 arguments, got 4"):
        program.scaled(X, 1.0, SHIFT, SHIFT)
    assert isinstance(pd.InvalidArgumentError(""), ValueError)


def test_hostile_names(program: Any) -> None:
    values = [np.full(2, 10.0**i, np.float32) for i in range(7)]
    expected = values[0] - sum(values[1:])
    np.testing.assert_array_equal(np.asarray(program.hostile(*values)), expected)
    named = {"last": values[6]}
    np.testing.assert_array_equal(np.asarray(program.hostile(*values[:6], **named)), expected)
    names = {"arg0": values[0], "class": values[1], "a b": values[2]}
    with refused("@hostile: missing arguments 'twin', 'twin', 'out', 'last'"):
        program.hostile(**names)
    with refused("@hostile: arguments 3 and 4 are all named 'twin'; give them by position"):
        program.hostile(*values[:3], twin=values[3])
    shown = inspect.signature(program.hostile)
    assert str(shown).startswith("(arg0: float32[2], arg1: float32[2], arg2: float32[2], arg3: float32[2], arg4")
    kinds = [p.kind for p in shown.parameters.values()]
    positional, either = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
    assert kinds == [positional] * 6 + [either, inspect.Parameter.KEYWORD_ONLY]


def test_inputs_and_outputs(program: Any) -> None:
    ids, factor, shift = program.scaled.inputs
    assert (ids.name, ids.dtype, ids.shape) == ("input_ids", np.float32, ("batch", 4))
    assert (factor.name, factor.dtype, factor.shape) == ("factor", np.float32, None)
    assert shift.shape == ("batch", 4), "the sum says that both have one size"
    assert repr(program.scaled.outputs) == "(logits: float32[batch, 4],)"
    assert repr(program.both.inputs) == "(a_1: float32[d0], a_2: float32[d0])"
    assert repr(program.both.outputs) == "(float32[d0], float32[d0 + d0])"
    assert [value.name for value in program.hostile.inputs] == ["arg0", "class", "a b", "twin", "twin", "out", "last"]
    assert repr(program.either.outputs) == "(float32[4],)"


def test_what_people_see(program: Any) -> None:
    signature = inspect.signature(program.scaled)
    text = "(input_ids: float32[batch, 4], factor: float32, shift: float32[batch, 4], *, out=None)"
    assert str(signature) == f"{text} -> logits: float32[batch, 4]"
    assert list(signature.bind(X, shift=1, factor=2).arguments) == ["input_ids", "factor", "shift"]
    assert repr(program.scaled).startswith("<function @scaled(input_ids: float32[batch, 4], factor: float32, ")
    assert str(inspect.signature(program.either)).endswith("-> float32[4]") is True
    shown = pydoc.render_doc(program.scaled, renderer=pydoc.plaintext)
    assert "    input_ids: float32[batch, 4]" in shown and "    logits: float32[batch, 4]" in shown
    assert "out=None" in (type(program.scaled).__doc__ or "")


def test_names_in_the_artifact() -> None:
    artifact = pd.compile(TEXT, targets="cpu")
    scaled = next(f for f in artifact.manifest.functions if f.name == "scaled")
    assert [str(v) for v in scaled.inputs or ()] == ["input_ids: f32[batch, 4]", "factor: f32", "shift: f32[batch, 4]"]
    assert Manifest.from_bytes(artifact.manifest.to_bytes()) == artifact.manifest
    shown = inspect_command.render("x.pdx", artifact)
    assert "(input_ids: f32[batch, 4], factor: f32, shift: f32[batch, 4]) -> logits: f32[batch, 4]\n" in shown
    assert "(a_1: f32[d0], a_2: f32[d0]) -> (f32[d0], f32[d0 + d0])\n" in shown


def changed(artifact: pd.Artifact, change: Any) -> pd.Artifact:
    manifest = json.loads(bytes(artifact.read("manifest.json")))
    change(manifest["functions"][0])
    entries = Manifest.from_json(manifest)
    content = {name: artifact.read(name) for name in artifact.members}
    return pd.Artifact(entries, {**content, "manifest.json": memoryview(entries.to_bytes())})


def test_manifests_without_sizes_or_with_others() -> None:
    artifact = pd.compile(TEXT, targets="cpu")
    name = artifact.manifest.functions[0].name
    device = pd.device("cpu")

    def without(function: Any) -> None:
        del function["inputs"], function["outputs"]

    assert name == "scaled"
    bare = device.load(changed(artifact, without))
    assert repr(bare.scaled.inputs) == "(input_ids: float32[d0, 4], factor: float32, shift: float32[d2, 4])"
    assert repr(bare.scaled.outputs) == "(logits: float32[d4, d5],)"
    for shape in (["batch"], ["batch", 5], ["batch", "four"], ["batch", 4, 4]):
        wrong = device.load(changed(artifact, lambda f, shape=shape: f["inputs"][0].update(shape=shape)))
        np.testing.assert_array_equal(wrong.scaled(X, 1.0, SHIFT), X + SHIFT)
        with pytest.raises(pd.ArtifactError, match=r"@scaled: manifest.json: inputs\[0\] does not fit the program"):
            _ = wrong.scaled.inputs
        assert repr(wrong.scaled).startswith("<function @scaled(tensor<?x4xf32>, f32")
    short = device.load(changed(artifact, lambda f: f.update(inputs=[])))
    with pytest.raises(pd.ArtifactError, match="does not fit"):
        inspect.signature(short.scaled).bind()


@pytest.mark.parametrize(
    ("attribute", "message"),
    [
        ("pyd.name = 3 : i32", 'the attribute pyd.name of .@f. is 3 : i32.*write a text: {pyd.name = "input_ids"}'),
        ('pyd.shape = ["n", "5"]', "the attribute pyd.shape"),
        ('pyd.shape = ["n"]', "the attribute pyd.shape of .@f. is .*write an entry for each axis"),
        ('pyd.shape = ["n", 5]', "the attribute pyd.shape"),
        ('pyd.shape = ["n", "m"]', "the attribute pyd.shape"),
        ("pyd.shape = [3, 4]", "the attribute pyd.shape"),
        ('pyd.shape = ["", 4]', "the attribute pyd.shape"),
        ("pyd.shape = 4 : i32", "the attribute pyd.shape"),
    ],
)
def test_wrong_attributes(attribute: str, message: str) -> None:
    for text in (
        f"(%x: tensor<?x4xf32> {{{attribute}}}) -> tensor<?x4xf32>",
        f"(%x: tensor<?x4xf32>) -> (tensor<?x4xf32> {{{attribute}}})",
    ):
        with pytest.raises(pd.CompileError, match=f"(?s){message}"):
            pd.compile(f"func.func @f{text} {{\n  return %x : tensor<?x4xf32>\n}}")


def test_names_that_no_file_can_hold() -> None:
    for attribute in (NAME, SHAPE):
        module = ir.parse("func.func @f(%x: tensor<?xf32>) -> tensor<?xf32> {\n  return %x : tensor<?xf32>\n}")
        function = module.body.block.first_op
        assert function is not None
        half = StringAttr("\ud800")
        value = half if attribute == NAME else ArrayAttr([half])
        function.properties["arg_attrs"] = ArrayAttr([DictionaryAttr({attribute: value})])
        with pytest.raises(pd.CompileError, match=f"the attribute {attribute} of '@f'"):
            pd.compile(module)


def test_long_expressions_get_names() -> None:
    names = [f"a_rather_long_name_{i}" for i in range(6)]
    arguments = ", ".join(f'%{n}: tensor<?xf32> {{pyd.shape = ["size_{n}"]}}' for n in names)
    types = ", ".join(["tensor<?xf32>"] * 6)
    program = pd.device("cpu").load(
        pd.compile(f"""func.func @f({arguments}) -> (tensor<?xf32>, tensor<?xf32>) {{
  %0 = tensor.concat dim(0) {", ".join("%" + n for n in names)} : ({types}) -> tensor<?xf32>
  return %0, %0 : tensor<?xf32>, tensor<?xf32>
}}""")
    )
    assert repr(program.f.outputs) == "(float32[d0], float32[d0])"
