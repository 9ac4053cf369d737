"""What `.pt2` files hold: names, weights, versions; and files that are broken, or made to do harm."""

from __future__ import annotations

import io
import json
import random
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pydispatch as pd
from pydispatch import ir
from pydispatch.frontends.source import ReadOptions
from pydispatch.frontends.torch import archive
from pydispatch.frontends.torch.read import module_of
from pydispatch.ir.dialects.util import dialect as util

FOLDER = Path(__file__).resolve().parent / "models"
SMALL = ["mlp", "control", "written", "symbols", "counter_as_exported", "decoder", "long_recurrent"]


def members(name: str) -> dict[str, bytes]:
    """The members of a model's file, without their folder."""
    with zipfile.ZipFile(FOLDER / f"{name}.pt2") as file:
        return {n.partition("/")[2]: file.read(n) for n in file.namelist()}


def packed(content: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    """A file with these members."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as file:
        for name, data in content.items():
            file.writestr(f"model/{name}", data)
    return stream.getvalue()


def changed(name: str, member: str, change: Callable[[Any], None]) -> bytes:
    """A file with a change to the JSON of a member."""
    content = members(name)
    value = json.loads(content[member])
    change(value)
    content[member] = json.dumps(value).encode()
    return packed(content)


def written(data: bytes) -> Any:
    """The module of a file's bytes."""
    return module_of(archive.read(data, "model.pt2"), "model.pt2", ReadOptions())


MODEL = "models/model.json"
WEIGHTS = "data/weights/model_weights_config.json"


def set_at(*path: Any, value: Any) -> Callable[[Any], None]:
    def change(json_: Any) -> None:
        for key in path[:-1]:
            json_ = json_[key]
        json_[path[-1]] = value

    return change


NODES = ("graph_module", "graph", "nodes")
FIRST = (*NODES, 0, "inputs", 0, "arg")
TYPE = ("graph_module", "graph", "tensor_values", "gelu")
META = ("config", "0.weight", "tensor_meta")

BROKEN = {
    "another major version": (MODEL, set_at("schema_version", "major", value=7), r"version 7\.\d+; 8\.x is known"),
    "no graph": (MODEL, set_at("graph_module", value=3), "graph_module: expected an object, got an integer"),
    "an unknown operator": (MODEL, set_at(*NODES, 0, "target", value="torch.ops.aten.magic.default"),
                            r"operator aten\.magic\.default\(.*is not supported"),
    "an operator of a library": (MODEL, set_at(*NODES, 0, "target", value="torch.ops.mylib.swish.default"),
                                 r"operator mylib::swish: 'dims' is \[1, 0\]; kernels take tensors and numbers"),
    "an unknown argument": (MODEL, set_at(*FIRST, value={"as_soup": 1}), "tagged 'as_soup'"),
    "an argument of another kind": (MODEL, set_at(*FIRST, value={"as_string": "x"}),
                                    "is 'x'; expected Tensor"),
    "a cycle": (MODEL, set_at(*FIRST, value={"as_tensor": {"name": "gelu"}}),
                "'gelu' is used before anything computed it .a later node computes it"),
    "a name of nothing": (MODEL, set_at(*FIRST, value={"as_tensor": {"name": "nobody"}}),
                          "'nobody' is used before anything computed it .nothing does"),
    "an operator without operands": (MODEL, set_at(*NODES, 0, "inputs", value=[]), "arguments do not fit"),
    "another type of a result": (MODEL, set_at(*TYPE, "dtype", value=5),
                                 r"it gives f32\[s\d+, 16\], and the file says i64"),
    "an unknown element type": (MODEL, set_at(*TYPE, "dtype", value=99),
                                "element type 99 is not supported"),
    "a sparse tensor": (MODEL, set_at(*TYPE, "layout", value=1), "not dense"),
    "a pickled weight": (WEIGHTS, set_at("config", "0.weight", "use_pickle", value=True),
                         "0.weight: it is a pickled object"),
    "a weight beyond its storage": (WEIGHTS, set_at(*META, "storage_offset", value={"as_int": 1}),
                                    "last element has index 128 in a storage of 128 elements"),
    "a stride out of range": (WEIGHTS, set_at(*META, "strides", 0, value={"as_int": 1 << 40}), "element has index"),
    "a negative stride": (WEIGHTS, set_at(*META, "strides", 0, value={"as_int": -8}), "at least 0, got -8"),
    "a size beyond 64 bits": (WEIGHTS, set_at(*META, "sizes", 0, value={"as_int": 1 << 70}), "more than 64 bits"),
    "a huge expanded weight": (WEIGHTS, lambda j: j["config"]["0.weight"]["tensor_meta"].update(
        sizes=[{"as_int": 1 << 40}, {"as_int": 8}], strides=[{"as_int": 0}, {"as_int": 1}]), "repeat those of"),
    "a huge weight of nothing": (WEIGHTS, lambda j: j["config"]["0.weight"]["tensor_meta"].update(
        sizes=[{"as_int": 0}, {"as_int": 1 << 62}]), "out of range"),
    "no file of a weight": (WEIGHTS, set_at("config", "0.weight", "path_name", value="../../etc"), "no member"),
    "no weight": (WEIGHTS, set_at("config", value={}), "no elements of the parameter '0.weight'"),
    "another shape of a weight": (WEIGHTS, lambda j: j["config"]["0.weight"]["tensor_meta"].update(
        sizes=[{"as_int": 8}, {"as_int": 16}], strides=[{"as_int": 16}, {"as_int": 1}]),
        "the file has f32.8, 16. for '0.weight'"),
}  # fmt: skip


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_file_is_an_error_that_says_where(what: str) -> None:
    member, change, message = BROKEN[what]
    with pytest.raises(pd.CompileError, match=f"(?s)model\\.pt2.*{message}"):
        written(changed("mlp", member, change))


def _as_strided(json_: Any) -> list[Any]:
    """The arguments of as_strided(x, size (2, 3), stride (1, 2), offset 1) in the model less_common."""
    graph = json_["graph_module"]["graph"]
    (node,) = (node for node in graph["nodes"] if node["target"] == "torch.ops.aten.as_strided.default")
    return [argument["arg"] for argument in node["inputs"]]


@pytest.mark.parametrize(
    ("position", "value", "message"),
    [
        (2, {"as_ints": [1]}, r"as_strided has the sizes \[2, 3\] and the strides \[1\]"),
        (2, {"as_ints": [1, 2, 3]}, r"as_strided has the sizes \[2, 3\] and the strides \[1, 2, 3\]"),
        (2, {"as_ints": [1, 1 << 40]}, "reads the elements 1 to 2199023255554 of a memory of 12"),
        (3, {"as_int": -1}, "reads the elements -1 to 4 of a memory of 12"),
    ],
)
def test_strides_that_leave_the_memory_of_a_tensor_are_refused(position: int, value: Any, message: str) -> None:
    def change(json_: Any) -> None:
        _as_strided(json_)[position].clear()
        _as_strided(json_)[position].update(value)

    with pytest.raises(pd.CompileError, match=message):
        written(changed("less_common", MODEL, change))


def test_the_layout_of_a_view_need_not_be_stated() -> None:
    def change(json_: Any) -> None:
        del json_["graph_module"]["graph"]["tensor_values"]["slice_1"]  # x[:, 0:3], whose determinant the model has

    written(changed("less_common", MODEL, change)).verify()


def test_archives_that_are_none() -> None:
    content = members("mlp")
    cases = [
        (b"", "no zip file"),
        (b"PK" * 40, "no zip file"),
        (packed(content, zipfile.ZIP_DEFLATED), "compressed"),
        (packed({k: v for k, v in content.items() if k != MODEL}), "0 models"),
        (packed({**content, "models/other.json": b"{}"}), "2 models"),
        (packed({**content, MODEL: b"{"}), "no JSON"),
        (packed({**content, MODEL: b'{"a": 1, "a": 2}'}), "key twice"),
        (packed({**content, MODEL: b"[" * 100000}), "no JSON"),
        (packed({**content, MODEL: b"[NaN]"}), "no JSON"),
        (packed({**content, "archive_version": b"9"}), "version '9'"),
        (packed({**content, "byteorder": b"big"}), "byte order is 'big'"),
    ]
    for data, message in cases:
        with pytest.raises(pd.CompileError, match=message):
            written(data)


def test_graphs_inside_of_each_other_have_a_limit() -> None:
    def nest(value: Any) -> None:
        graph = value["graph_module"]["graph"]
        argument = {"as_graph": {"name": "g", "graph": json.loads(json.dumps(graph))}}
        for _ in range(60):
            node = {"target": "t", "inputs": [{"name": "", "arg": argument}], "outputs": [], "metadata": {}}
            inner = {"inputs": [], "outputs": [], "nodes": [node], "tensor_values": {}, "sym_int_values": {}}
            argument = {"as_graph": {"name": "g", "graph": inner}}
        graph["nodes"][0]["inputs"][0]["arg"] = argument

    with pytest.raises(pd.CompileError, match=r"model\.pt2"):
        written(changed("mlp", MODEL, nest))


@pytest.mark.parametrize("name", SMALL)
def test_damaged_bytes_are_errors(name: str) -> None:
    """Whatever a few wrong bytes make of a file, it compiles or it is a CompileError."""
    data = (FOLDER / f"{name}.pt2").read_bytes()
    chance = random.Random(name)
    for _ in range(40):
        damaged = bytearray(data)
        for _ in range(chance.choice([1, 1, 2, 20])):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        if chance.random() < 0.1:
            del damaged[chance.randrange(len(damaged)) :]
        _read(bytes(damaged))


def _read(data: bytes) -> None:
    try:
        written(data)
    except pd.CompileError as error:
        assert "model.pt2" in str(error)


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [p for key, inner in items for p in [(*path, key), *_places(inner, (*path, key))]]


_ODD = [None, 0, -1, 1, 3, 2**31, 2**63 - 1, -(2**63), 2**64, 1.5, -0.0, "", "x", "Infinity", True, [], {}, [0],
        {"a": 1}]  # fmt: skip


@pytest.mark.parametrize("member", [MODEL, WEIGHTS])
@pytest.mark.parametrize("name", SMALL)
def test_other_values_are_errors(name: str, member: str) -> None:
    """Whatever stands at a place of the JSON, it compiles or it is a CompileError."""
    content = members(name)
    value = json.loads(content[member])
    places = _places(value)
    chance = random.Random(name + member)
    for _ in range(60):
        other = json.loads(content[member])
        for path in [chance.choice(places) for _ in range(chance.choice([1, 1, 1, 3]))]:
            at = other
            try:
                for key in path[:-1]:
                    at = at[key]
                if chance.random() < 0.2:
                    del at[path[-1]]
                elif chance.random() < 0.3:
                    source: Any = value
                    for key in chance.choice(places):
                        source = source[key]
                    at[path[-1]] = source
                else:
                    at[path[-1]] = chance.choice(_ODD)
            except (KeyError, IndexError, TypeError):
                continue
        _read(packed({**content, member: json.dumps(other).encode()}))


# -- what is right


@pytest.mark.parametrize("name", ["arranged", "selected", "sampled"])
def test_programs_verify(name: str) -> None:
    ir.verify(written((FOLDER / f"{name}.pt2").read_bytes()))


def test_weights_are_views_of_the_file_and_keep_their_names() -> None:
    model = archive.read(FOLDER / "mlp.pt2")
    assert list(model.weights) == ["0.weight", "0.bias", "2.weight", "2.bias"]
    array = model.weights["0.weight"].array
    assert array.shape == (16, 8) and not array.flags.owndata and not array.flags.writeable
    assert array.ctypes.data % 64 == 0


def test_tied_weights_are_one_global() -> None:
    module = module_of(archive.read(FOLDER / "encoder.pt2"), "encoder.pt2", ReadOptions())
    names = [op.sym_name.data for op in module.body.block.ops if isinstance(op, util.GlobalOp)]
    assert sum(name.endswith(("embedding.weight", "head.weight")) for name in names) == 1


def test_operations_know_their_layer() -> None:
    module = module_of(archive.read(FOLDER / "residual.pt2"), "residual.pt2", ReadOptions())
    layers = {getattr(op.location, "layer", "") for op in module.walk()}
    assert any(layer.startswith("block.0.conv") for layer in layers), layers
    assert any(layer.startswith("stem.1.") for layer in layers), layers


def test_arguments_and_results_have_the_names_of_the_model() -> None:
    text = str(module_of(archive.read(FOLDER / "encoder.pt2"), "encoder.pt2", ReadOptions()))
    assert 'pyd.name = "tokens"' in text and 'pyd.name = "kept"' in text


def test_weights_can_stay_outside() -> None:
    artifact = pd.compile(FOLDER / "mlp.pt2", weights="external")
    model = archive.read(FOLDER / "mlp.pt2")
    given = {name: np.array(weight.array) for name, weight in model.weights.items()}
    program = pd.device("local-sync").load(artifact, parameters={"model": given})
    with np.load(FOLDER / "mlp.npz") as file:
        np.testing.assert_allclose(program.main(file["0.in.0"]), file["0.out.0"], rtol=1e-5, atol=1e-5)


# -- sizes that the file has ranges for


def _called(change: Callable[[Any], None], folder: Path, rows: int) -> Any:
    """The model "symbols", whose argument is float32[s21, 4], with other ranges."""
    path = folder / "model.pt2"
    path.write_bytes(changed("symbols", MODEL, change))
    return pd.device("cpu").load(pd.compile(path)).main(np.ones((rows, 4), np.float32))


@pytest.mark.parametrize("least, most, rows, message", [
    (4, None, 4, None), (4, None, 3, "at least 4"), (4, 9, 9, None), (2, 9, 10, "at least 2 and at most 9"),
    (None, 5, 6, "at least 0 and at most 5"), (2, None, 2, None), (6, 6, 6, None),
    (6, 6, 7, "at least 6 and at most 6"), (9, 4, 9, "at least 9 and at most 4"),
    ((1 << 63) - 1, None, 9, "at least 9223372036854775807"),
    (-(1 << 63), (1 << 63) - 1, 4, None), (None, -5, 4, "at most -5"),
])  # fmt: skip
def test_ranges_of_sizes(least: int | None, most: int | None, rows: int, message: str | None, tmp_path: Path) -> None:
    change = set_at("range_constraints", "s21", value={"min_val": least, "max_val": most})
    if message is None:
        _called(change, tmp_path, rows)
        return
    text = rf"argument 'inputs_0' has {rows} elements along axis 0; the size s21 is .*{message} \(.*model\.pt2"
    with pytest.raises(pd.InvalidArgumentError, match=text):
        _called(change, tmp_path, rows)


def test_a_size_that_is_a_term_of_another(tmp_path: Path) -> None:
    """The first argument is [s21 + 2, 4] and the second [s21, 4]."""
    symbol = {"as_expr": {"expr_str": "Symbol('s21', integer=True)"}}
    term = {"as_expr": {"expr_str": "Add(Symbol('s21', integer=True), Integer(2))"}}

    def change(value: Any) -> None:
        graph, signature = value["graph_module"]["graph"], value["graph_module"]["signature"]
        meta = graph["tensor_values"]["inputs_0"]
        graph["tensor_values"]["first"] = {**meta, "sizes": [term, meta["sizes"][1]]}
        meta["sizes"][0] = symbol
        first = {"as_tensor": {"name": "first"}}
        graph["inputs"].insert(0, first)
        signature["input_specs"].insert(0, {"user_input": {"arg": first}})

    path = tmp_path / "model.pt2"
    path.write_bytes(changed("symbols", MODEL, change))
    main = pd.device("cpu").load(pd.compile(path)).main
    main(np.ones((7, 4), np.float32), np.ones((5, 4), np.float32))
    with pytest.raises(pd.InvalidArgumentError, match=r"'first' has 8 elements along axis 0, and 2 \+ s21 is 7"):
        main(np.ones((8, 4), np.float32), np.ones((5, 4), np.float32))


@pytest.mark.parametrize(
    ("number", "message"),
    [
        ({"as_float": -0.5}, r"arange with the step -0\.5 between .*must be whole numbers"),
        ({"as_int": 0}, r"arange with the step 0 between s21 and .*: it must be a number other than 0"),
    ],
)
def test_a_range_up_to_a_dynamic_size_needs_a_whole_step_other_than_0(number: dict[str, Any], message: str) -> None:
    def change(value: Any) -> None:
        nodes = value["graph_module"]["graph"]["nodes"]
        (step,) = (i for node in nodes for i in node["inputs"] if i["name"] == "step")
        step["arg"] = number

    with pytest.raises(pd.CompileError, match=message):
        written(changed("symbols", MODEL, change))


def test_a_range_whose_step_is_the_size_of_an_empty_axis_fails_the_call() -> None:
    main = pd.device("cpu").load(pd.compile(FOLDER / "ranges_by_sizes.pt2")).main
    with pytest.raises(pd.InvalidArgumentError, match=r"arange between 0 and .*: its step s\d+ is 0"):
        main(np.ones((3, 0), np.int64), np.ones((5, 2), np.float32))


@pytest.mark.parametrize(("operator", "arguments"), [("sym_stride.int", (0,)), ("sym_storage_offset.default", ())])
def test_strides_and_offsets_are_those_in_the_file(operator: str, arguments: tuple[int, ...], tmp_path: Path) -> None:
    """Here both are the size of axis 1 of `inputs_0`, and replace the node of that size."""

    def change(value: Any) -> None:
        graph = value["graph_module"]["graph"]
        meta = graph["tensor_values"]["inputs_0"]
        meta["storage_offset"] = meta["sizes"][1]
        size = graph["nodes"][1]
        size["target"] = f"torch.ops.aten.{operator}"
        size["inputs"][1:] = [{"name": "dim", "arg": {"as_int": n}, "kind": 1} for n in arguments]

    path = tmp_path / "model.pt2"
    path.write_bytes(changed("ranges_by_sizes", MODEL, change))
    results = pd.device("cpu").load(pd.compile(path)).main(np.ones((2, 3), np.int64), np.ones((5, 2), np.float32))
    np.testing.assert_array_equal(results[1], [0, 3])


def _with_guards(name: str, guards: list[str], path: Path) -> Any:
    """The function of a model whose guards are others."""
    path.write_bytes(changed(name, MODEL, set_at("guards_code", value=guards)))
    return pd.device("cpu").load(pd.compile(path)).main


SIZE = "L['inputs'][0].size()[0]"


@pytest.mark.parametrize(("guard", "rows"), [
    (f"({SIZE} % 5) == 0", 9), (f"{SIZE} < 10", 10), (f"-1*{SIZE} >= -10 + 1", 10),
    (f"max(3, {SIZE} - 5, 1) <= 4", 10), (f"{SIZE} > 9 and 6 >= {SIZE} - {SIZE} % 2 - 4", 9),
])  # fmt: skip
def test_guards_are_checked_in_calls(guard: str, rows: int, tmp_path: Path) -> None:
    main = _with_guards("split_by_sizes", [guard], tmp_path / "model.pt2")
    shown = r"do not satisfy .*inputs\[0\]\.size\(\)\[0\].*, which PyTorch's export has assumed"
    with pytest.raises(pd.InvalidArgumentError, match=shown):
        main(np.ones((rows, 4), np.float32))
    main(np.ones((19 - rows, 4), np.float32))


@pytest.mark.parametrize("guard", [
    f"{SIZE} != 10", f"{SIZE} > 11 or {SIZE} < 2", f"{SIZE} >= 2", f"math.trunc(0.1*{SIZE}) > 8", f"{SIZE} % 0 > 8",
    "L['x'].size()[0] > 30", "L['inputs'][0].size()[7] > 30", f"{SIZE} > {'9' * 40}", "1 > 3", "(", "(" * 9000,
    "a" * 5000, f"3 * ({SIZE} // 3) >= {SIZE}", f"{SIZE} // {SIZE} == 7",
    f"{SIZE} % -3 == 1",
])  # fmt: skip
def test_guards_that_are_not_checked(guard: str, tmp_path: Path) -> None:
    main = _with_guards("split_by_sizes", [guard], tmp_path / "model.pt2")
    main(np.ones((10, 4), np.float32))


def test_a_call_has_as_many_parts_as_the_model(tmp_path: Path) -> None:
    main = _with_guards("split_by_sizes", [], tmp_path / "model.pt2")
    message = r"f32\[s\d+, 4\] is split along axis 0 into 4 parts; the model has 3"
    with pytest.raises(pd.InvalidArgumentError, match=message):
        main(np.ones((13, 4), np.float32))


def test_a_number_of_parts_that_nothing_states_is_refused() -> None:
    def change(value: Any) -> None:
        next(n for n in value["graph_module"]["graph"]["nodes"] if "split" in n["target"])["outputs"] = []

    with pytest.raises(pd.CompileError, match=r"(?s)a number of parts that depends on its size.*torch\.tensor_split"):
        written(changed("split_by_sizes", MODEL, change))


def test_a_grouped_product_without_the_ends_of_its_groups_is_refused() -> None:
    def change(value: Any) -> None:
        node = next(n for n in value["graph_module"]["graph"]["nodes"] if "_grouped_mm" in n["target"])
        node["inputs"] = [i for i in node["inputs"] if i["name"] != "offs"]

    with pytest.raises(pd.CompileError, match=r"_grouped_mm: operands are bf16\[16, 8\] and bf16\[3, 8, 8\]; expected"):
        written(changed("grouped", MODEL, change))
