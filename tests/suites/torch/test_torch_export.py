"""Exported programs run as PyTorch runs them: operators with and without decomposition, and whole models."""

from __future__ import annotations

import copy
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import pydispatch as pd

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "frontends" / "torch")]

from cases import CASES, exported, flat  # noqa: E402
from operators import OPERATORS, Call  # noqa: E402

LOOSE = {torch.float16: 2e-3, torch.bfloat16: 2e-2}


def array(tensor: Tensor) -> Any:
    """A tensor as an argument: arrays where NumPy has the type."""
    return tensor if tensor.dtype == torch.bfloat16 else tensor.detach().numpy()


def tensor_of(result: Any) -> Tensor:
    values = np.asarray(result)
    if values.dtype.kind == "V":
        return torch.from_numpy(values.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(values.copy())


def check(program: Any, inputs: Sequence[Tensor], expected: Sequence[Tensor]) -> None:
    """A loaded program gives what is expected, in types too."""
    made = program.main(*(array(x.clone()) for x in inputs))
    found = list(made) if isinstance(made, (tuple, list)) else [made]
    assert len(found) == len(expected)
    for number, (result, wanted) in enumerate(zip(found, expected, strict=True)):
        loose = LOOSE.get(wanted.dtype, 3e-5)
        torch.testing.assert_close(
            tensor_of(result), wanted, rtol=loose, atol=loose, equal_nan=True,
            msg=lambda text, number=number: f"result {number}: {text}",
        )  # fmt: skip


RUNS = [(name, True) for name in OPERATORS] + [(name, False) for name, (_, _, raw) in OPERATORS.items() if raw]
"""Every operator as it is exported and decomposed, but for those of which only the decomposition is supported."""


@pytest.mark.parametrize(("name", "decomposed"), RUNS)
def test_operators(name: str, decomposed: bool) -> None:
    model, inputs, _ = OPERATORS[name]
    model = model.eval()
    with torch.no_grad():
        program = torch.export.export(model, inputs)
        expected = flat(model(*inputs))
    if decomposed:
        artifact = pd.from_torch(program)
    else:
        artifact = pd.compile(program)
    check(pd.device("local-sync").load(artifact), inputs, expected)


@pytest.mark.parametrize("name", CASES)
def test_a_model_exported_by_this_version(name: str) -> None:
    """What the committed files show, with the files that the PyTorch of this machine writes."""
    case = CASES[name]
    model, program = exported(case)
    loaded = pd.device("local-sync").load(pd.compile(program))
    for make in [case.inputs] * case.calls + ([case.more] if case.more else []):
        inputs = make()
        with torch.no_grad():
            expected = [x.clone() for x in flat(model(*inputs))]
        check(loaded, inputs, expected)


def test_from_torch_exports_a_module() -> None:
    model = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval()
    batch = torch.export.Dim("batch", min=2, max=32)
    artifact = pd.from_torch(model, (torch.randn(3, 5, 16),), dynamic_shapes=({0: batch},))
    program = pd.device("local-sync").load(artifact)
    for n in (2, 7):
        x = torch.randn(n, 5, 16)
        with torch.no_grad():
            check(program, [x], [model(x)])


class _Scaled(nn.Module):
    def forward(self, x: Tensor, pair: tuple[Tensor, Tensor], *, offsets: dict[str, Tensor]) -> Tensor:
        return x @ pair[0] + pair[1] + offsets["row"]


def test_sizes_have_the_names_of_dims() -> None:
    rows, columns = torch.export.Dim("rows", min=2, max=9), torch.export.Dim("columns", min=3)
    x, pair, offsets = torch.randn(4, 6), (torch.randn(6, 5), torch.randn(5)), {"row": torch.randn(4, 5)}
    by_name = {
        "x": {0: rows}, "pair": ({1: columns}, (columns,)), "offsets": {"row": {0: rows, 1: columns}},
    }  # fmt: skip
    for sizes in (by_name, tuple(by_name.values())):
        artifact = pd.from_torch(_Scaled(), (x, pair), {"offsets": offsets}, dynamic_shapes=sizes)
        program = pd.device("local-sync").load(artifact)
        shapes = [value.shape for value in program.main.inputs]
        assert shapes == [("rows", 6), (6, "columns"), ("columns",), ("rows", "columns")]
        check(program, [x, *pair, offsets["row"]], [_Scaled()(x, pair, offsets=offsets)])
        x10, row10 = np.ones((10, 6), np.float32), np.ones((10, 5), np.float32)
        with pytest.raises(pd.InvalidArgumentError, match="the size rows is at least 2 and at most 9"):
            program.main(x10, *map(np.asarray, pair), row10)
    unnamed = pd.from_torch(nn.Linear(6, 3), (x,), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))
    assert re.fullmatch(r"s\d+", str(pd.device("local-sync").load(unnamed).main.inputs[0].shape[0]))
    taken = pd.from_torch(nn.Linear(6, 3), (x,), dynamic_shapes=({0: torch.export.Dim("input")},))
    assert pd.device("local-sync").load(taken).main.inputs[0].shape[0] != "input", "the name of the argument"


def test_from_torch_says_what_it_takes() -> None:
    with pytest.raises(pd.InvalidArgumentError, match=r"expected a torch\.nn\.Module or an ExportedProgram, got int"):
        pd.from_torch(3)
    model, x = nn.Linear(3, 3), torch.ones(1, 3)
    for args in ((), (x, x)):
        with pytest.raises(pd.InvalidArgumentError, match=r"do not fit Linear\.forward: .*; give a tuple of them"):
            pd.from_torch(model, args)
    with pytest.raises(pd.InvalidArgumentError, match="keywords: expected a dict of example arguments by name, got Te"):
        pd.from_torch(model, (), x)


@pytest.mark.parametrize("shape", [(), (0, 3), (1, 3), (1, 1, 3), (2, 3), (3,)])
def test_from_torch_refuses_tensors_that_are_not_in_a_tuple(shape: tuple[int, ...]) -> None:
    """Also a tensor of one row, which would be unpacked into one argument."""
    model, x = nn.Linear(3, 3), torch.ones(1, 3)
    for module in (model, torch.export.export(model, (x,))):
        for args in (torch.ones(shape), np.ones(shape, np.float32)):
            with pytest.raises(pd.InvalidArgumentError, match=r"args: expected a tuple .*, got (Tensor|ndarray)"):
                pd.from_torch(module, args)


def test_a_result_that_is_not_converted_is_named() -> None:
    def weights(x: Tensor, w: Tensor, v: Tensor) -> Tensor:
        given = (x, x, x, 4, 2, w, w[:, 0], v, v[0])
        return torch.ops.aten._native_multi_head_attention(*given)[1]

    given = (torch.randn(1, 3, 4), torch.randn(12, 4), torch.randn(4, 4))
    says = r"result 1 of aten\._native_multi_head_attention\.default is used, and it is not converted"
    with pytest.raises(pd.CompileError, match=says):
        pd.from_torch(torch.export.export(Call(weights), given))


def test_softmax_of_f16_in_f32() -> None:
    """PyTorch exports `softmax(dtype=torch.float32)` on a GPU as one operator, which it does not run on CPUs."""
    x = torch.randn(3, 4).half()
    operators = torch.ops.aten._softmax, torch.ops.aten._log_softmax
    program = torch.export.export(Call(lambda x: tuple(operator(x, 1, True) for operator in operators)), (x,))
    loaded = pd.device("local-sync").load(pd.compile(program))
    check(loaded, [x], [torch.softmax(x.float(), 1), torch.log_softmax(x.float(), 1)])


def test_a_program_that_pytorch_cannot_save_is_refused() -> None:
    values = np.zeros((0, 4), np.float32)
    program = torch.export.export(Call(lambda x: x[:, 1:1] @ torch.from_numpy(values)), (torch.randn(2, 1),))
    with pytest.raises(
        pd.CompileError, match=r"torch\.export\.save cannot write it: RuntimeError: numel.*\n.*pass these"
    ):
        pd.compile(program)


def test_writes_to_what_only_the_sizes_of_a_call_make_a_view_are_refused() -> None:
    """`contiguous` of a transposed tensor is a copy, but for tensors of one row."""

    def write(x: Tensor) -> Tensor:
        y = x * 2
        y.t().contiguous().add_(1)
        return y

    rows = ({0: torch.export.Dim("rows", min=2)},)
    program = torch.export.export(Call(write), (torch.randn(3, 4),), dynamic_shapes=(rows,))
    with pytest.raises(pd.CompileError, match=r"add_: .* another tensor may or may not share.*\n.*run_decomp"):
        pd.compile(program)
    loaded = pd.device("local-sync").load(pd.compile(program.run_decompositions()))
    x = torch.randn(5, 4)
    np.testing.assert_array_equal(loaded.main(x.numpy()), x.numpy() * 2)


def test_flash_attention_gives_the_logarithms_of_sums() -> None:
    def attention(x: Tensor) -> Any:
        return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(x, x, x, 0.0, True)

    x = torch.randn(1, 2, 4, 8)
    program = pd.device("local-sync").load(pd.from_torch(Call(attention), (x,)))
    check(program, [x], attention(x))


def test_results_in_a_structure_that_files_cannot_describe() -> None:
    x = torch.randn(3, 4)
    program = pd.device("local-sync").load(pd.from_torch(Call(torch.sort), (x,)))
    check(program, [x], list(torch.sort(x)))


class Statistics(nn.Module):
    """A normalization in training, and its running mean and variance after it."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        result = self.norm(x)
        return result, self.norm.running_mean + 0, self.norm.running_var + 0


@pytest.mark.parametrize("decomposed", [False, True])
@pytest.mark.parametrize("norm", [nn.BatchNorm2d, nn.InstanceNorm2d])
def test_running_statistics_are_updated(norm: Any, decomposed: bool) -> None:
    model = Statistics(norm(3, affine=True, track_running_stats=True, momentum=0.3)).train()
    x = torch.randn(2, 3, 4, 5) * 2 + 1
    program = torch.export.export(copy.deepcopy(model), (x,))
    loaded = pd.device("local-sync").load(pd.compile(program.run_decompositions() if decomposed else program))
    for inputs in ((x,), (x - 3,)):
        check(loaded, inputs, [y.detach() for y in model(*inputs)])
