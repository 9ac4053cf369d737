"""What messages advise for sources that `pydispatch.compile` does not read."""

from __future__ import annotations

from typing import Any

import pytest

import pydispatch as pd

TEXT = "func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {\n  return %x : tensor<4xf32>\n}"


def instance(module: str, *names: str) -> Any:
    """Return an instance of the last class of a chain of derived classes of a module that need not be installed."""
    base: type = object
    for name in names:
        base = type(name, (base,), {"__module__": module})
    return base()


@pytest.mark.parametrize(
    ("source", "remedy"),
    [
        (pd.compile(TEXT), r"an artifact, which is compiled already; device\.load\(artifact\)"),
        (lambda x: x, r"a plain function; decorate it with @pydispatch\.program"),
        (instance("torch.nn.modules.module", "Module", "Linear"), r"a module of PyTorch; .*from_torch\(module"),
        (instance("torch.jit._script", "Module", "ScriptModule"), "a module of TorchScript; .*that it was made from"),
        (instance("torch.jit", "ScriptFunction"), r"a function of TorchScript; .*torch\.export\.export"),
        (instance("jaxlib._jax", "PjitFunction"), r"a function of JAX; .*jax_source\(function, \*arguments\)"),
    ],
)
def test_objects(source: Any, remedy: str) -> None:
    with pytest.raises(pd.InvalidArgumentError, match=f"^source: got {remedy}"):
        pd.compile(source)
    with pytest.raises(pd.InvalidArgumentError, match=rf"^source\['a'\]: got {remedy}"):
        pd.compile({"a": source})
