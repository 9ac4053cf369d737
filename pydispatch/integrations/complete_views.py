"""Check, after a call of a checked kernel, that it has written all elements of its views."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pydispatch.errors import KernelError
from pydispatch.kernels.module import Lowered
from pydispatch.kernels.races import STAMPS
from pydispatch.kernels.source import Source


class CompleteViews:
    """Wrapper of the compiled function of a checked kernel: raises KernelError if a call leaves elements of its views
    unwritten.

    `Kernel._load` creates it for a CPU. It is called like the function, with the written views as `out`. The function
    has further results, which this wrapper allocates and reads: for each view that must be written whole, its race
    stamps, which say which invocations have accessed an element (`kernels/races.py`). The stamps of a view are an i64
    array with one more axis, the first, of STAMPS elements: stamps[0] has the last write of each element, 0 for none.

    Example: `scale(x, y)` must fill the view y, f32[3]. A call with out=y calls the function with out=(y, stamps),
    where stamps is i64[STAMPS, 3]. If stamps[0, 2] is 0 after the call, y[2] was not written, and the error names it.

    function: the compiled function. lowered: the kernel, whose `complete` has the indices of the arguments that are
    views which it must fill. source: its Python function, for errors.
    """

    def __init__(self, function: Callable[..., Any], lowered: Lowered, source: Source) -> None:
        """Wrap the compiled function of a checked kernel. For the arguments see the class."""
        self._function, self._lowered, self._source = function, lowered, source

    @property
    def is_usable(self) -> bool:
        """Whether the function can still be called: its device is open."""
        return getattr(self._function, "is_usable", True)

    def __call__(self, *args: Any, out: Any) -> None:
        """Call the function. Raise KernelError if it has left elements of a view unwritten that the kernel must fill.

        The function has further results for this: the race stamps of these views. The first stamp of an element is that
        of its last write, 0 if it was not written.

        args: arguments of the kernel. out: arrays for its results, those of the views that it writes: one array, or a
        tuple.
        """
        views = out if isinstance(out, tuple) else (out,)
        complete = self._lowered.complete
        stamps = [np.empty((STAMPS, *args[index].shape), np.int64) for index in complete]
        self._function(*args, out=(*views, *stamps))
        for index, (last_write, *_) in zip(complete, stamps, strict=True):
            untouched = np.flatnonzero(last_write == 0)
            if untouched.size:
                raise self._error(self._lowered.arguments[index][0], last_write.shape, untouched)

    def _error(self, view: str, shape: tuple[int, ...], untouched: np.ndarray[Any, Any]) -> KernelError:
        """Return the error for unwritten elements of a view.

        view: name of the view. shape: its shape. untouched: indices of these elements in the flattened view, ascending.
        """
        name, location = self._source.name, self._source.location(self._source.tree)
        first = ", ".join(str(int(index)) for index in np.unravel_index(untouched[0], shape))
        return KernelError(
            f"{location.file}:{location.line}:{location.column}: kernel '{name}' leaves {untouched.size} of "
            f"{np.prod(shape, dtype=np.int64)} elements of '{view}' unwritten, the first is {view}[{first}]; let its "
            f"grid cover the view, or write {view}: Annotated[pydispatch.View, ..., pydispatch.partial] for a view "
            "that it writes in part"
        )
