"""`torch.compile(model, backend="pydispatch")`."""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

import pydispatch as pd
from pydispatch.integrations import torch as integration
from pydispatch.integrations.torch import backend


class Counting:
    """The backend, with the number of graphs that it compiled."""

    def __init__(self) -> None:
        self.graphs = 0

    def __call__(self, module: Any, inputs: Sequence[Any], **options: Any) -> Any:
        self.graphs += 1
        return backend(module, inputs, **options)


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


def check(model: nn.Module, *inputs: Tensor, **options: Any) -> None:
    """A compiled model gives what the model gives."""
    found = torch.compile(copy.deepcopy(model), backend=backend, **options)
    with torch.no_grad():
        torch.testing.assert_close(found(*inputs), model(*inputs), rtol=1e-5, atol=1e-5)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, int]:
        return F.gelu(self.layer(x)) + x, x.shape[0]


def test_the_backend_goes_by_its_name() -> None:
    model = Block().eval()
    found = torch.compile(model, backend="pydispatch")
    x = torch.randn(3, 4)
    with torch.no_grad():
        torch.testing.assert_close(found(x), model(x))


@pytest.mark.parametrize(
    "model",
    [
        nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(1)),
        nn.TransformerEncoderLayer(16, 2, 32, batch_first=True),
        nn.Sequential(nn.Embedding(20, 8), nn.LayerNorm(8)),
    ],
    ids=["convolution", "transformer", "embedding"],
)
def test_models(model: nn.Module) -> None:
    inputs = {"C": torch.randn(2, 3, 8, 8), "T": torch.randn(2, 5, 16), "E": torch.randint(0, 20, (2, 5))}
    first = next(iter(model.children())) if isinstance(model, nn.Sequential) else model
    check(model.eval(), inputs[type(first).__name__[0]])


def test_sizes_become_symbols_and_graphs_are_few() -> None:
    counting, model = Counting(), Block().eval()
    found = torch.compile(model, backend=counting)
    with torch.no_grad():
        for n in (4, 4, 5, 6, 9, 17):
            x = torch.randn(n, 4)
            torch.testing.assert_close(found(x), model(x))
    assert counting.graphs == 2  # the first size, then any


def test_any_size_from_the_beginning() -> None:
    counting, model = Counting(), Block().eval()
    found = torch.compile(model, backend=counting, dynamic=True)
    with torch.no_grad():
        for n in (5, 7, 3):  # not 4: sizes that are equal at first are taken to be one
            torch.testing.assert_close(found(torch.ones(n, 4)), model(torch.ones(n, 4)))
    assert counting.graphs == 1


def test_parts_of_an_axis_of_any_size() -> None:
    def model(x: Tensor) -> Tensor:
        return torch.cat(x.chunk(2, 1)[::-1], 1)

    compiled = torch.compile(model, backend=backend)
    for n in (6, 8, 7):
        x = torch.randn(4, n)
        assert torch.equal(compiled(x), model(x))


def test_a_graph_break_gives_two_graphs() -> None:
    class Broken(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            y = x * 2
            torch._dynamo.graph_break()
            return y + 1

    counting = Counting()
    x = torch.randn(3, 4)
    torch.testing.assert_close(torch.compile(Broken(), backend=counting)(x), x * 2 + 1)
    assert counting.graphs == 2


def test_buffers_and_arguments_that_are_written() -> None:
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.zeros(4))

        def forward(self, x: Tensor) -> Tensor:
            self.total += x.sum(0)
            x.mul_(2)
            return x + self.total

    plain = Counter()
    ours = copy.deepcopy(plain)
    compiled = torch.compile(ours, backend=backend)
    for _ in range(3):
        a = torch.randn(3, 4)
        b = a.clone()
        torch.testing.assert_close(compiled(a), plain(b))
        torch.testing.assert_close(a, b)
    torch.testing.assert_close(ours.total, plain.total)


def test_views_are_given_as_they_are_meant() -> None:
    check(Block().eval(), torch.randn(4, 3).t())


def test_constants_of_a_function_are_part_of_the_program() -> None:
    def model(x: Tensor) -> Tensor:
        half = torch.tensor([0.5, -1.0, 2.0, 0.25, 8.0], dtype=torch.bfloat16)
        picked = x[torch.tensor([0, 2, 0])] * half + torch.tensor(2.5)
        return torch.where(torch.tensor([True, False, True])[:, None], picked, torch.arange(2000.0).sum())

    x = torch.rand(3, 5)
    for dynamic in (False, True):
        torch.testing.assert_close(torch.compile(model, backend=backend, dynamic=dynamic)(x), model(x))
    table = torch.randn(50, 40)  # more elements than are written into the text of a program

    def lookup(x: Tensor) -> Tensor:
        return torch.nn.functional.embedding(x.argmax(1), torch.tensor(rows)) + 1

    rows = table.tolist()
    torch.testing.assert_close(torch.compile(lookup, backend=backend)(x), lookup(x))


def test_results_are_written_into_views() -> None:
    def model(x: Tensor, given: Tensor) -> tuple[Tensor, Tensor]:
        made = torch.zeros(3, 4)
        torch.add(x, 1, out=made[1])
        torch.arange(1, 5, out=made[2])
        torch.mul(x[:3], 2, out=made[:, 3])
        torch.sum(x, 0, out=given[0, 1])
        return made, given + 1

    x, given = torch.rand(4), torch.zeros(2, 3)
    ours = given.clone()
    found = torch.compile(model, backend=backend)(x, ours)
    torch.testing.assert_close(found, model(x, given))
    torch.testing.assert_close(ours, given)


@pytest.mark.parametrize("dynamic", [False, True])
def test_results_that_share_memory_in_pytorch_share_it(dynamic: bool) -> None:
    def model(x: Tensor) -> tuple[Tensor, ...]:
        made, other = x * 2, x + 1
        return made[1], made.t(), made, other.view(-1), other[:2], other[1:], *x.sin().split([1, 3], 1), x.sum()

    found = torch.compile(model, backend=backend, dynamic=dynamic)
    for n in (3, 5):
        x = torch.rand(n, 4)
        given, expected = found(x), model(x)
        torch.testing.assert_close(given, expected)
        for results in (given, expected):
            for number, each in enumerate(results):
                each.mul_(number + 2)
        torch.testing.assert_close(given, expected)
        assert [each.stride() for each in given] == [each.stride() for each in expected]


def test_training() -> None:
    """Forward and backward graphs are compiled; gradients are PyTorch's."""
    plain = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2))
    ours = copy.deepcopy(plain)
    x = torch.randn(5, 4)
    plain(x).square().sum().backward()
    torch.compile(ours, backend=backend)(x).square().sum().backward()
    for a, b in zip(ours.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-5)


def test_training_with_strides_of_dynamic_sizes() -> None:
    """The gradient of circular padding reads the strides of the padded tensor."""
    padded = nn.Conv2d(3, 4, (1, 3), padding=(0, 1), padding_mode="circular")
    plain = nn.Sequential(nn.Conv2d(3, 3, 3), padded)
    ours = copy.deepcopy(plain)
    compiled = torch.compile(ours, backend=backend, dynamic=True)
    for shape in ((2, 3, 6, 7), (3, 3, 5, 9)):
        x = torch.randn(shape)
        plain(x).square().sum().backward()
        compiled(x).square().sum().backward()
    for a, b in zip(ours.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-4)


def test_grouped_heads_of_dynamic_numbers() -> None:
    def model(query: Tensor, key: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(query, key, key, enable_gqa=True)

    compiled = torch.compile(model, backend=backend, dynamic=True)
    for heads, shared in ((4, 2), (6, 3), (6, 2)):
        inputs = torch.randn(2, heads, 6, 8, requires_grad=True), torch.randn(2, shared, 5, 8, requires_grad=True)
        found, expected = compiled(*inputs), model(*inputs)
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
        gradients = (torch.autograd.grad(made.square().sum(), inputs) for made in (found, expected))
        for a, b in zip(*gradients, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_half_types() -> None:
    for dtype in (torch.float16, torch.bfloat16):
        x = torch.randn(3, 4, dtype=dtype)
        found = torch.compile(lambda x: F.silu(x) * 2, backend=backend)(x)
        torch.testing.assert_close(found, F.silu(x) * 2, rtol=2e-2, atol=2e-2)
        torch._dynamo.reset()


def test_a_custom_operator_is_a_users_kernel(tmp_path: Path) -> None:
    @torch.library.custom_op("pydispatch_tests::swish", mutates_args=())
    def swish(x: Tensor, beta: float) -> Tensor:
        return x * torch.sigmoid(x * beta)

    @swish.register_fake
    def _(x: Tensor, beta: float) -> Tensor:
        return torch.empty_like(x)

    source = tmp_path / "swish.c"
    source.write_text(
        "#include <math.h>\n#include <stddef.h>\n"
        "void swish(const float *x, float *out, float beta, size_t count) {\n"
        "  for (size_t i = 0; i < count; i++) out[i] = x[i] / (1 + expf(-x[i] * beta));\n}\n"
    )
    kernel = pd.CFunction(source, "swish", "x", "out", "beta", "count")
    x = torch.randn(3, 4)

    def model(x: Tensor) -> Tensor:
        return swish(x + 1, 1.5) * 2

    kernels = {"pydispatch_tests::swish": kernel}
    with torch.no_grad():
        found = torch.compile(model, backend="pydispatch", options={"kernels": kernels})(x)
        torch.testing.assert_close(found, model(x), rtol=1e-5, atol=1e-5)
        torch._dynamo.reset()
        with pytest.raises(Exception, match=r"no kernel for the custom operation .pydispatch_tests::swish"):
            torch.compile(model, backend=backend)(x)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float8_e5m2, torch.float8_e4m3fn, torch.uint16])
@pytest.mark.parametrize("has_ml_dtypes", [True, False])
def test_results_have_the_type_of_pytorch(
    dtype: torch.dtype, has_ml_dtypes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_ml_dtypes:
        monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    x = torch.arange(12.0).reshape(3, 4)

    def convert(x: Tensor) -> Tensor:
        return (x * 2).to(dtype)

    made = torch.compile(convert, backend=backend)(x)
    assert made.dtype == dtype
    assert torch.equal(made.float(), convert(x).float())


def test_results_have_the_strides_of_pytorch() -> None:
    x = torch.arange(24.0).reshape(2, 3, 4)
    image = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)

    def transposed(x: Tensor) -> Tensor:
        return x.transpose(0, 2) * 2

    def repeated(x: Tensor) -> Tensor:
        return (x[:, :1] + 1).expand(2, 3, 4)

    for function, given in ((transposed, x), (repeated, x), (lambda x: torch.relu(x) + 1, image)):
        made = torch.compile(function, backend=backend)(given)
        assert made.stride() == function(given).stride()
        torch.testing.assert_close(made, function(given))
    flat = torch.compile(transposed, backend=backend)(x).as_strided((24,), (1,))
    assert torch.equal(flat, x.flatten() * 2)
    sized = torch.compile(transposed, backend=backend, dynamic=True)
    for n in (2, 5):
        assert sized(torch.ones(n, 3, 4)).stride() == transposed(torch.ones(n, 3, 4)).stride()


def test_a_fault_of_the_backend_is_an_internal_error(monkeypatch: pytest.MonkeyPatch) -> None:
    no_frame_of_the_test = dict[object, object]().__getitem__
    monkeypatch.setattr(integration, "_read_graph", no_frame_of_the_test)
    with pytest.raises(Exception, match="please report it") as caught:
        torch.compile(torch.sin, backend=backend)(torch.ones(4))
    error: BaseException | None = caught.value
    while error is not None and not isinstance(error, pd.InternalError):
        error = error.__cause__ or error.__context__
    assert error is not None and "please report it" in str(error)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"mode": "max-autotune"}, "mode='max-autotune': the backend 'pydispatch' has no modes; leave it out"),
        ({"options": {"devise": "cpu"}}, r"has no option 'devise'; did you mean 'device'\? device, targets, cpu, "),
        ({"options": {"target": "cpu"}}, r"torch\.compile has no option 'target'; did you mean 'targets'\?"),
    ],
)
def test_wrong_options(keywords: dict[str, Any], message: str) -> None:
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match=message):
        torch.compile(nn.Linear(3, 3), backend=backend, **keywords)(torch.ones(2, 3))


def test_the_default_mode() -> None:
    model, x = nn.Linear(3, 3), torch.ones(2, 3)
    torch.testing.assert_close(torch.compile(model, backend=backend, mode="default")(x), model(x))
