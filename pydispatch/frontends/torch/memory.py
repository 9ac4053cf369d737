"""Memory of the tensors of a graph, which in-place operators may write to, also through views.

The emitted program is in SSA form and has no memory to write to. A write therefore rebinds the memory to another SSA
tensor. A write through a view updates the base tensor, and other views of that base are rematerialized when they are
next read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pydispatch.graph.values import Tensor

if TYPE_CHECKING:
    from pydispatch.errors import CompileError
    from pydispatch.frontends.torch.schema import TensorMeta

Take = Callable[[Tensor], Tensor]
"""Function that returns a view of a base tensor."""
Put = Callable[[Tensor, Tensor], Tensor]
"""Function that writes through a view: put(base, new contents of the view) -> base after the write."""


class TensorMemory:
    """Memory of one tensor in the traced program: its current SSA value and the number of writes so far.

    The tracer creates one for each tensor of a graph, and writes the results of in-place operators to it. For
    `x.add_(1)`, the memory of x contains %0 before and %1 = add %0, 1 after: later nodes that read x use %1.
    """

    def __init__(self, tensor: Tensor) -> None:
        """Begin with the value `tensor`, no writes, and row-major layout."""
        self._tensor = tensor
        self._writes = 0
        self.layout: TensorMeta | None = None
        """Strides and offset in PyTorch's storage; None means row-major from offset 0."""

    @property
    def write_count(self) -> int:
        """Return how often the memory was written; views compare it to find out whether their contents are outdated."""
        return self._writes

    @property
    def tensor(self) -> Tensor:
        """Return the current contents."""
        return self._tensor

    @property
    def whole(self) -> TensorMemory:
        """Return the memory that owns the elements: this memory. `TensorView` overrides this for views."""
        return self

    def write(self, tensor: Tensor) -> None:
        """Replace the contents by a tensor of the same type and shape."""
        self._tensor = tensor
        self._writes += 1


class TensorView(TensorMemory):
    """Memory of a tensor that is a view of another one, such as a slice: writes reach the other one, the base.

    The contents of the view are cached, and taken from the base again after it was written.

    Example: for v = x[2:5], take(x) is the slice x[2:5], and put(x, v) is x with v in place of elements 2 to 4.

    Args:
        base: Memory that the view is part of; may be a view itself.
        tensor: Contents of the view.
        take: take(contents of the base) returns the contents of the view.
        put: put(contents of the base, new contents of the view) returns the contents of the base after a write through
            the view. None if PyTorch decides by the strides whether the operator returns a view or a copy, as for
            `reshape` of a tensor that is not row-major; an access whose result depends on this raises the error that
            `ambiguous()` returns.
        ambiguous: Returns the error for such an access.
    """

    def __init__(
        self, base: TensorMemory, tensor: Tensor, take: Take, put: Put | None, ambiguous: Callable[[], CompileError]
    ) -> None:
        """Create a view with the cached contents `tensor`. The class describes the arguments."""
        super().__init__(tensor)
        self._base = base
        self._base_writes = base.write_count  # number of writes to the base that the cached contents include
        self._take = take
        self._put = put
        self._ambiguous = ambiguous

    @property
    def write_count(self) -> int:
        """Return how often the base was written, which includes writes through this view."""
        return self._base.write_count

    @property
    def whole(self) -> TensorMemory:
        """Return the memory that owns the elements of the view: that of its base, through all views.

        It is this object itself if PyTorch, depending on the strides, may have made a copy instead of a view.
        """
        return self if self._put is None else self._base.whole  # without `put` the view may be a copy

    @property
    def tensor(self) -> Tensor:
        """Return the current contents. If the base was written since they were cached, take them from the base again.

        Raises CompileError if the base was written and this view may be a copy, which has the old contents.
        """
        if self._base_writes != self._base.write_count:
            if self._put is None:  # PyTorch may have returned a copy, which a write to the base does not change
                raise self._ambiguous()
            self._tensor, self._base_writes = self._take(self._base.tensor), self._base.write_count
        return self._tensor

    def write(self, tensor: Tensor) -> None:
        """Write through the view to its base. Raises CompileError if the view may be a copy (`put` is None)."""
        if self._put is None:
            raise self._ambiguous()
        self._base.write(self._put(self._base.tensor, tensor))
        self._tensor, self._base_writes = tensor, self._base.write_count
