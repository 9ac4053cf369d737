"""Derivatives of our PyTorch operators in autograd and in its functional transforms."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

from pydispatch.errors import InvalidArgumentError

Backward = Callable[[Any, Sequence[Any]], tuple[Any, ...]]
"""Function backward(context, gradients of the results) -> for each argument its gradient, None if it has none."""


def make_differentiable(torch: Any, name: str, library: Any, backward: Backward) -> None:
    """Register a derivative that also works in functional transforms, unlike `torch.library.register_autograd`.

    A functional transform is `torch.func.grad`, `vjp`, `jacrev` and so on. Nested transforms have levels: in
    `grad(grad(f))`, a call of the operator is recorded for the inner and for the outer level.

    This registers the Python function `kernel` for the dispatch key Autograd of the operator, so that PyTorch calls it
    before the operator's own implementation. If an argument needs a gradient, `kernel` calls the operator through an
    `autograd.Function`, which records `backward` for the current level. Else it calls the operator below Autograd,
    where nothing is recorded.

    Args:
        torch: The module torch.
        name: Name of the operator, "library::operator".
        library: The `torch.library.Library` that has registered the operator.
        backward: The derivative, backward(context, gradients of the results) -> gradients of the arguments. The context
            has the arguments and then the results of the call: tensors in `saved_tensors`, other values in `others`.

    Raises:
        InvalidArgumentError: A call of the operator raises it for an argument in forward-mode differentiation.
    """
    namespace, _, operator = name.partition("::")
    op = getattr(getattr(torch.ops, namespace), operator).default

    def forward(*args: Any) -> Any:
        """Call the operator `op`, as autograd.Function calls it for the results."""
        # autograd.Function turns gradients off in `forward`; then outer levels of torch.func would not record the call.
        with torch._C._AutoDispatchBelowAutograd(), torch.set_grad_enabled(True):
            return op(*args)

    def differentiate(context: Any, *gradients: Any) -> tuple[Any, ...]:
        """Return the gradients of the arguments, which `backward` computes from the gradients of the results."""
        return backward(context, gradients)

    # Create the `autograd.Function` of the operator, a subclass with static methods. Functional transforms call
    # `kernel` once for each of their levels: each call is differentiated for one of them.
    methods = {"forward": forward, "setup_context": _save_arguments, "backward": differentiate}
    members = {key: staticmethod(value) for key, value in methods.items()}
    autograd_function: Any = type(operator, (torch.autograd.function._SingleLevelFunction,), members)
    single_level = importlib.import_module("torch._functorch.autograd_function").enable_single_level_autograd_function

    def kernel(*args: Any) -> Any:
        """Call the operator, and record its backward pass if an argument requires a gradient."""
        if any(_has_tangent(torch, arg) for arg in args):
            raise InvalidArgumentError(
                f"the operator {name} has no forward-mode derivative; use reverse mode (torch.func.vjp, "
                f"torch.func.jacrev, or jacrev of jacrev for second derivatives)"
            )
        needs_gradient = torch.is_grad_enabled() and any(getattr(arg, "requires_grad", False) for arg in args)
        if not needs_gradient:
            with torch._C._AutoDispatchBelowAutograd():
                return op(*args)
        # Only the current level of functional transforms records this call. Outer levels, as in torch.func.grad of
        # torch.func.grad, record the call of `op` in autograd_function.forward.
        with single_level():
            return autograd_function.apply(*args)

    library.impl(operator, kernel, "Autograd")


def _has_tangent(torch: Any, value: Any) -> bool:
    """Return whether a value is a tensor with a tangent, its derivative in forward-mode differentiation."""
    forward_ad = torch.autograd.forward_ad
    is_outside_of_forward_mode = forward_ad._current_level < 0
    if is_outside_of_forward_mode or not isinstance(value, torch.Tensor):
        return False
    return forward_ad.unpack_dual(value).tangent is not None


def let_users_differentiate(torch: Any, name: str) -> None:
    """Allow `torch.library.register_autograd` for the operator `name`, whose derivative only raises an error.

    PyTorch refuses to register another derivative for the same operator, so its record of the first one is removed.
    """
    torch.library._impls.discard(f"{name.replace('::', '/')}/Autograd")


def _save_arguments(ctx: Any, inputs: Sequence[Any], output: Any) -> None:
    """Save the arguments and then the results of a call in its context, for its derivative.

    Tensors are in `ctx.saved_tensors`. `ctx.others` has one entry per argument and result: None for a tensor, and any
    other value itself.
    """
    values = [*inputs, *(output if isinstance(output, (tuple, list)) else (output,))]
    are_tensors = [hasattr(value, "dtype") for value in values]
    ctx.save_for_backward(*(value for value, is_tensor in zip(values, are_tensors, strict=True) if is_tensor))
    ctx.others = [None if is_tensor else value for value, is_tensor in zip(values, are_tensors, strict=True)]
