"""Memory that names of a graph refer to: tensors that in-place operators may write, also through views.

A program is in SSA form and has no memory to write. A write therefore rebinds the name to another tensor. A write to a
view updates its base tensor, and other views of that base are rematerialized when they are read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pydispatch.frontends.graph.values import Tensor

if TYPE_CHECKING:
    from pydispatch.errors import CompileError
    from pydispatch.frontends.torch.schema import TensorMeta

Take = Callable[[Tensor], Tensor]
"""The view of a tensor."""
Put = Callable[[Tensor, Tensor], Tensor]
"""put(tensor, written): the tensor after a view of it was written."""


class TensorMemory:
    """The memory of one tensor."""

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = tensor
        self._writes = 0
        self.layout: TensorMeta | None = None
        """Strides and offset in PyTorch; row by row from the first element on where None."""

    @property
    def writes(self) -> int:
        """How often it was written."""
        return self._writes

    @property
    def tensor(self) -> Tensor:
        """What is there now."""
        return self._tensor

    @property
    def whole(self) -> TensorMemory:
        """The memory that this is surely a view of, or itself."""
        return self

    def write(self, tensor: Tensor) -> None:
        """Put another tensor of the same type and shape there."""
        self._tensor = tensor
        self._writes += 1


class TensorView(TensorMemory):
    """View of a part of another tensor's memory.

    `put` is None where PyTorch decides by the strides whether the operator returns a view or a copy. An access for
    which the difference matters raises unclear().
    """

    def __init__(
        self, base: TensorMemory, tensor: Tensor, take: Take, put: Put | None, unclear: Callable[[], CompileError]
    ) -> None:
        super().__init__(tensor)
        self._base = base
        self._seen = base.writes
        self._take = take
        self._put = put
        self._unclear = unclear

    @property
    def writes(self) -> int:
        return self._base.writes

    @property
    def whole(self) -> TensorMemory:
        return self if self._put is None else self._base.whole

    @property
    def tensor(self) -> Tensor:
        if self._seen != self._base.writes:
            if self._put is None:
                raise self._unclear()
            self._tensor, self._seen = self._take(self._base.tensor), self._base.writes
        return self._tensor

    def write(self, tensor: Tensor) -> None:
        if self._put is None:
            raise self._unclear()
        self._base.write(self._put(self._base.tensor, tensor))
        self._tensor, self._seen = tensor, self._base.writes
