"""Model files that are damaged or made to harm: each is a CompileError that says where, and nothing else."""

from __future__ import annotations

import random
import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from wire import external, message, model, node, tensor, value, varint
from work import count_calls

import pydispatch as pd
from pydispatch import inlining
from pydispatch.frontends.onnx.read import read
from pydispatch.frontends.source import ReadOptions

CASES = np.load(Path(__file__).parent / "cases.npz")
X, Y = value("x", 2), value("y", 2)
RELU = node("Relu", ["x"], ["y"], name="layer1.act")
BRANCH = message((1, node("Relu", ["x"], ["z"])), (12, value("z", 2)))
TOTAL = message((1, node("ReduceSum", ["x"], ["z"], message((1, "keepdims"), (3, 0), (20, 2)))), (12, value("z")))


def weight(
    data: bytes = b"", *fields: tuple[int, int | float | str | bytes], shape: list[int] | None = None, dtype: int = 1
) -> bytes:
    """A model that adds a tensor."""
    given = tensor("w", [2] if shape is None else shape, dtype, *([(9, data)] if data else []), *fields)
    return model([node("Add", ["x", "w"], ["y"], name="layer1.add")], [X], [Y], [given])


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "no graph with outputs"),
        (b"\xff" * 40, "no ONNX model"),
        (message((7, b"\x0a")), "no ONNX model: a number does not end"),
        (varint(7 << 3 | 2) + varint(1 << 60), "bytes are announced at byte"),
        (b"\x3b\x3c", "begins no field"),  # a group
        (message((7, 3)), "is stored as a varint"),
        (model([node("Relu", ["x"], ["y"])], [value("x", 2, dtype=8)], [Y]), "'x': its elements are strings"),
        (model([node("Relu", ["x"], ["y"])], [value("x", 2, dtype=99)], [Y]), "element type 99 is not known"),
        (model([RELU, node("Relu", ["x"], ["y"], name="again")], [X], [Y]),
         "again: error: the value 'y' is defined twice"),
        (model([node("Relu", ["z"], ["y"], name="a"), node("Relu", ["y"], ["z"], name="b")], [X], [Y]),
         "a: error: its operand 'z' is computed by a later node"),
        (model([node("Relu", ["q"], ["y"], name="a")], [X], [Y]), "a: error: its operand 'q' is defined nowhere"),
        (model([RELU], [X], [value("z", 2)]), "'z' is defined nowhere"),
        (model([RELU], [X], [value("y", 3)]), "declared with shape"),
        (model([RELU], [X], [value("y", 2, dtype=7)]), "declared as i64; it is f32"),
        (model([RELU], [X, X], [Y]), "two inputs of the graph have the same name"),
        (model([node("Relu", ["x", "x"], ["y"])], [X], [Y]), "2 operands are given, 1 are expected"),
        (model([node("Relu", [], ["y"])], [X], [Y]), "0 operands are given, 1 are expected"),
        (model([node("Relu", ["x"], ["y", "z"])], [X], [Y]), "2 outputs are named; it has 1"),
        (model([node("Relu", ["x"], ["y"], message((1, "alpha"), (2, 1.0), (20, 1)))], [X], [Y]),
         "'alpha' is not known"),
        (model([node("Elu", ["x"], ["y"], message((1, "alpha"), (3, 1), (20, 2)))], [X], [Y]),
         "is an integer; expected"),
        (model([RELU], [X], [Y], opset=99), "version 99 of the operators"),
        (model([node("Frobnicate", ["x"], ["y"], name="n", domain="my.ops")], [X], [Y]),
         "of the domain 'my.ops'"),
        (model([node("Frobnicate", ["x"], ["y"], name="n")], [X], [Y]), r"kernels={'Frobnicate': ...}"),
        (model([node("If", ["x"], ["y"], message((1, "then_branch"), (20, 5)), message((1, "else_branch"), (20, 5)))],
               [value("x", 1, dtype=9)], [Y]), "attribute 'then_branch' is a graph, which the file does not have"),
        (model([node("If", ["x"], ["y"], *(message((1, f"{n}_branch"), (6, BRANCH), (20, 5)) for n in ("then", "else")))
               ], [X], [Y]), "a condition is f32[2]; expected one truth value"),
        (model([node("ScatterElements", ["x", "i", "u"], ["y"])], [X, value("i", 1, dtype=7), value("u", 1, dtype=3)],
               [Y]), "what is put there is i8[1, 1], of another type"),
        (model([node("If", ["c"], ["y"], message((1, "then_branch"), (6, BRANCH), (20, 5)),
                     message((1, "else_branch"), (6, TOTAL), (20, 5)))], [X, value("c", dtype=9)], [Y]),
         "note: one branch alone is taken where the condition is known, or give it where the model is compiled: "
         "constants={'c': array}"),
        (model([node("Abs", ["x"], ["a"]), node("Cast", ["a"], ["s"], message((1, "to"), (3, 7), (20, 2))),
                node("ReduceSum", ["x", "s"], ["y"])], [value("x", "n")], [Y]), "constants={'x': array}"),
        (model([node("Where", ["x", "x", "x"], ["y"])], [X], [Y]), "between f32 and f32 by f32 is not defined"),
        (model([node("RandomUniform", [], ["y"], message((1, "shape"), (8, 2), (20, 7)),
                     message((1, "dtype"), (3, 7), (20, 2)))], [], [value("y", 2, dtype=7)]),
         "RandomUniform: uniform random numbers of i64 are not defined"),
        (model([node("RoiAlign", ["x", "r", "i"], ["y"])],
               [value("x", 1, 1, 4, 4), value("r", "n", 4), value("i", "n", dtype=7)], [value("y", "n", 1, 1, 1)]),
         "RoiAlign: its sampling_ratio is 0, so that the number of samples depends on the regions; give one"),
        (model([node("LayerNormalization", ["x", "x"], ["y"], message((1, "stash_type"), (3, 10), (20, 2)))], [X], [Y]),
         "LayerNormalization: its stash_type is f16; supported are f32 (1) and f64 (11)"),
        (weight(b"\0" * 7), "2 elements of type f32 take 8 bytes; 7 are there"),
        (weight(b"\0" * 8, shape=[1 << 40, 1 << 40]), "elements of type f32 take"),
        (weight(b"\0" * 8, shape=[-1]), "its shape is [-1]"),
        (weight(b"\0" * 8, shape=[1] * 60), "its shape is"),
        (weight(shape=[2]), "2 elements of type f32 are 2 numbers in float_data; 0 are there"),
        (weight(b"\0" * 8, dtype=8), "strings"),
    ],
)  # fmt: skip
def test_fault(data: bytes, says: str) -> None:
    with pytest.raises(pd.CompileError, match=re.escape(says)):
        read(data)


def sliding(op: str, attribute: str, numbers: list[int]) -> bytes:
    """A model of one operator with windows, whose attribute has these numbers."""
    operands = {
        "AveragePool": [], "Conv": [value("w", 1, 1, 2, 2)], "ConvTranspose": [value("w", 1, 1, 2, 2)],
        "DeformConv": [value("w", 1, 1, 2, 2), value("o", 1, 8, 3, 3)], "MaxUnpool": [value("i", 1, 1, 4, 4, dtype=7)],
        "Col2Im": [],
    }[op]  # fmt: skip
    sizes = [tensor(name, [2], 7, (9, np.int64([n, n]).tobytes())) for name, n in (("image", 4), ("block", 2))]
    names = [
        "x",
        *("wo"[: len(operands)] if op != "MaxUnpool" else "i"),
        *(["image", "block"] if op == "Col2Im" else []),
    ]
    kernel = [message((1, "kernel_shape"), (8, 2), (8, 2), (20, 7))] if op in ("AveragePool", "MaxUnpool") else []
    given = message((1, attribute), *((8, n) for n in numbers), (20, 7))
    x = value("x", 1, 4, 9) if op == "Col2Im" else value("x", 1, 1, 4, 4)
    return model(
        [node(op, names, ["y"], given, *kernel, name="slide")], [x, *operands], [value("y", *"abcd")], sizes, 19
    )


@pytest.mark.parametrize("op", ["AveragePool", "Conv", "ConvTranspose", "DeformConv", "MaxUnpool", "Col2Im"])
def test_numbers_of_windows_that_are_out_of_range(op: str) -> None:
    cases = [("pads", [1, 1], 4, -(1 << 20)), ("pads", [0, 0, 0, 1 << 62], 4, -(1 << 20)), ("strides", [0, 1], 2, 1)]
    cases.append(("output_padding", [1 << 62, 0], 2, -(1 << 20)) if op == "ConvTranspose" else ("strides", [1], 2, 1))
    for attribute, numbers, count, least in cases:
        says = f"slide: error: {op}: its attribute {attribute} is {numbers}; expected {count} numbers from {least} to "
        with pytest.raises(pd.CompileError, match=re.escape(f"{says}{1 << 20}")):
            read(sliding(op, attribute, numbers))
    read(sliding(op, "pads", [0, 0, 0, 0]))


def test_deep_nesting_ends() -> None:
    inner = b""
    for _ in range(2000):
        inner = message((1, message((5, message((6, inner))))))
    with pytest.raises(pd.CompileError, match="nested deeper"):
        read(message((7, inner)))


def test_work_grows_with_the_number_of_nodes() -> None:
    def calls(count: int) -> int:
        names = ["x", *(f"v{i}" for i in range(count - 1)), "y"]
        nodes = [node("Add", [first, "x"], [second]) for first, second in pairwise(names)]
        data = model(nodes, [X], [Y], [])
        return count_calls(lambda: read(data))

    calls(1)  # imports modules and fills caches
    assert calls(200) < 4.4 * calls(50)


def test_a_function_that_calls_itself() -> None:
    body = node("f", ["u"], ["v"], domain="mine")
    function = message((1, "f"), (4, "u"), (5, "v"), (7, body), (10, "mine"), (9, message((1, "mine"), (2, 1))))
    data = model(
        [node("f", ["x"], ["y"], domain="mine")], [X], [Y], [], 17, (25, function), (8, message((1, "mine"), (2, 1)))
    )
    with pytest.raises(pd.CompileError, match="nested deeper than"):
        read(data)


def test_a_function_without_an_operand_that_a_branch_needs() -> None:
    """The call has no k: f(u, c) = If(c, Clip(u, k), u + k)."""
    bodies = {"then": node("Clip", ["u", "k"], ["z"]), "else": node("Add", ["u", "k"], ["z"], name="sum")}
    branches = [
        message((1, f"{name}_branch"), (6, message((1, body), (12, value("z", 2)))), (20, 5))
        for name, body in bodies.items()
    ]
    opsets = [(9, message((1, "mine"), (2, 1))), (9, message((1, ""), (2, 17)))]
    chosen = node("If", ["c"], ["v"], *branches)
    function = message((1, "f"), *((4, n) for n in "uck"), (5, "v"), (7, chosen), (10, "mine"), *opsets)
    own = (8, message((1, "mine"), (2, 1)))
    call = node("f", ["x", "c"], ["y"], domain="mine")
    with pytest.raises(pd.CompileError, match="sum: error: Add: 1 operands are given, 2 are expected"):
        read(model([call], [X, value("c", dtype=9)], [Y], [], 17, (25, function), own))


def doubling(depth: int) -> bytes:
    """A model of functions, each of which calls the one before twice."""
    own = message((1, "mine"), (2, 1))
    functions = []
    for number in range(depth):
        operator, domain = (f"f{number - 1}", "mine") if number else ("Relu", "")
        body = [node(operator, ["u"], ["t"], domain=domain), node(operator, ["t"], ["v"], domain=domain)]
        opsets = [(9, own), (9, message((1, ""), (2, 17)))]
        functions.append(message((1, f"f{number}"), (4, "u"), (5, "v"), *((7, n) for n in body), (10, "mine"), *opsets))
    call = node(f"f{depth - 1}", ["x"], ["y"], domain="mine")
    return model([call], [X], [Y], [], 17, *((25, function) for function in functions), (8, own))


def test_functions_that_call_functions_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inlining, "MOST_INLINED_CALLS", 100)
    read(doubling(3))
    with pytest.raises(pd.CompileError, match=r"more than 100 calls of functions(.|\n)*'f0' is called 3"):
        read(doubling(40))


@pytest.mark.parametrize(
    ("entries", "says"),
    [
        ({"location": "../secret.bin"}, "outside of the model's folder"),
        ({"location": "/etc/passwd"}, "no path within the model's folder"),
        ({"location": "link.bin"}, "outside of the model's folder"),
        ({"location": "missing.bin"}, "missing.bin"),
        ({"location": "w.bin", "offset": "9"}, "bytes 9"),
        ({"location": "w.bin", "offset": "4", "length": "8"}, "bytes 4 to 12 of 'w.bin' are asked for; it has 8"),
        ({"location": "w.bin", "length": "4"}, "take 8 bytes; 4 are there"),
        ({"location": "w.bin", "offset": "-4"}, "its offset in the file beside the model is '-4'"),
        ({"location": "w.bin", "length": "9" * 30}, "its length in the file"),
        ({"location": ""}, "no path within"),
        ({"location": "."}, "a folder"),
    ],
)
def test_elements_beside_the_model(tmp_path: Path, entries: dict[str, str], says: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret.bin").write_bytes(b"\0" * 8)
    (folder / "w.bin").write_bytes(b"\0" * 8)
    (folder / "link.bin").symlink_to(tmp_path / "secret.bin")
    (folder / "m.onnx").write_bytes(weight(b"", *external(**entries)))
    with pytest.raises(pd.CompileError, match=says):
        read(folder / "m.onnx")


def test_elements_beside_the_model_are_mapped(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(b"\0" * 4 + np.array([1, 2], np.float32).tobytes())
    (tmp_path / "m.onnx").write_bytes(weight(b"", *external(location="w.bin", offset="4", length="8")))
    program = pd.device("cpu").load(pd.compile(tmp_path / "m.onnx"))
    np.testing.assert_array_equal(program.main(np.array([10, 20], np.float32)), [11, 22])
    with pytest.raises(pd.CompileError, match="give the path of the model, not its bytes"):
        read((tmp_path / "m.onnx").read_bytes())


@pytest.mark.parametrize(
    "name", ["mlp_any_batch", "lstm_both_ways", "loop_with_rows", "function", "slices", "quantized"]
)
def test_mutations_end_in_compile_errors(name: str) -> None:
    original = CASES[f"{name}/model"].tobytes()
    chance = random.Random(name)
    refused = 0
    for _ in range(120):
        data = bytearray(original)
        for _ in range(chance.randrange(1, 4)):
            place = chance.randrange(len(data))
            kind = chance.randrange(4)
            if kind == 0:
                data[place] = chance.randrange(256)
            elif kind == 1:
                data[place] ^= 1 << chance.randrange(8)
            elif kind == 2:
                del data[place : place + chance.randrange(1, 9)]
            else:
                data[place:place] = bytes(chance.randrange(256) for _ in range(chance.randrange(1, 5)))
            if not data:
                break
        try:
            read(bytes(data))
        except pd.CompileError:
            refused += 1
    assert refused > 20


def test_shapes_and_constants_that_the_caller_gives() -> None:
    data = model([node("Expand", ["x", "s"], ["y"])], [message((1, "x"), (2, message((1, message((1, 1)))))),
                 value("s", 2, dtype=7)], [message((1, "y"), (2, message((1, message((1, 1))))))])  # fmt: skip
    with pytest.raises(pd.CompileError, match="input 'x' has no shape in the model"):
        read(data)
    options = ReadOptions(inputs={"x": (1, "n")}, constants={"s": np.array([3, 1])})
    program = pd.device("cpu").load(pd.compile(read(data, options)))
    assert program.main(np.ones((1, 4), np.float32)).shape == (3, 4)
    with pytest.raises(pd.CompileError, match="the model has no input 'q'; it has x, s"):
        read(data, ReadOptions(inputs={"q": (1,)}))
    with pytest.raises(pd.CompileError, match="'s' has shape"):
        read(data, ReadOptions(inputs={"x": (1, "n")}, constants={"s": np.array([3, 1, 1])}))


@pytest.mark.parametrize(("opset", "warns"), [(7, True), (10, True), (11, False), (23, False), (24, True)])
def test_operator_sets_that_are_not_tested(
    opset: int, warns: bool, recwarn: pytest.WarningsRecorder, tmp_path: Path
) -> None:
    (tmp_path / "model.onnx").write_bytes(model([RELU], [X], [Y], opset=opset))
    program = pd.device("cpu").load(pd.compile(tmp_path / "model.onnx"))
    np.testing.assert_array_equal(program.main(np.float32([-1, 2])), np.float32([0, 2]))
    found = [str(w.message) for w in recwarn if issubclass(w.category, pd.CompileWarning)]
    assert [f"version {opset} of ONNX's operators" in text for text in found] == [True] * warns


@pytest.mark.parametrize("op", ["Gather", "GatherElements", "GatherND", "ScatterElements", "ScatterND"])
def test_indices_that_are_no_integers(op: str, tmp_path: Path) -> None:
    operands = ["x", "x", "x"] if "Scatter" in op else ["x", "x"]
    (tmp_path / "model.onnx").write_bytes(model([node(op, operands, ["y"])], [X], [Y]))
    with pytest.raises(pd.CompileError, match=f"{op}: its indices are .*f32.*; expected integers"):
        pd.compile(tmp_path / "model.onnx")


def test_smooth_softmax_is_refused(tmp_path: Path) -> None:
    numbers = {"num_heads": 2, "kv_num_heads": 1, "smooth_softmax": 1}
    attributes = [message((1, name), (3, number), (20, 2)) for name, number in numbers.items()]
    domain = "com.microsoft"
    attention = node("GroupQueryAttention", [*"qkv", "", "", "n", "t"], ["y"], *attributes, domain=domain)
    inputs = [
        value("q", 1, 2, 16),
        value("k", 1, 2, 8),
        value("v", 1, 2, 8),
        value("n", 1, dtype=6),
        value("t", dtype=6),
    ]
    sets = (8, message((1, domain), (2, 1)))
    (tmp_path / "model.onnx").write_bytes(model([attention], inputs, [value("y", 1, 2, 16)], [], 17, sets))
    with pytest.raises(pd.CompileError, match=r"GroupQueryAttention: .*smooth_softmax=1\) is not supported"):
        pd.compile(tmp_path / "model.onnx")
