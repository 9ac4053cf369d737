"""State of a program: arrays that a loaded program retains between calls."""

from __future__ import annotations

from typing import Any

import numpy as np

from pydispatch.errors import InvalidArgumentError
from pydispatch.graph.dtypes import dtype_of_numpy
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise
from pydispatch.programs.array import Array
from pydispatch.programs.trace import Trace, current, is_frozen


class State:
    """Array that programs read and change through `value`, and its elements through indices; `pydispatch.state` creates
    it.

    Each loaded program has its own array, which it retains between calls. The initial elements are those of `first`,
    and the shape and type do not change. Runs in plain Python, outside of programs, share one NumPy array. For example,
    a program counts its calls by `count[0] = count[0] + 1`, after `count = pydispatch.state(numpy.zeros(1))` outside of
    it.
    """

    def __init__(self, first: Any) -> None:
        """Create a state variable. first: its initial elements, any argument of `numpy.asarray`.

        They are copied unless the array is frozen: it and all arrays that it is a view of are read-only.
        """
        array = np.asarray(first)
        # A new object also for a frozen array: a trace identifies arrays by their id, and two states with the same
        # initial array are two variables.
        self.first = array.view() if is_frozen(array) else array.copy()
        self._untraced: np.ndarray[Any, Any] | None = None

    @property
    def value(self) -> Any:
        """Current array: a traced one inside a program, else the NumPy array of runs in plain Python."""
        trace = current()
        if trace is not None:
            return states_of(trace).now(self)
        if self._untraced is None:
            self._untraced = self.first.copy()  # assignments to its elements do not change `first`
        return self._untraced

    @value.setter
    def value(self, new: Any) -> None:
        """Assign the array: in the program that is being traced, else for runs in plain Python."""
        trace = current()
        if trace is not None:
            with trace.here():
                states_of(trace).change(self, new)
            return
        array = np.array(new, self.first.dtype)  # a copy, as in a trace: its elements may be assigned
        if array.shape != self.first.shape:
            raise InvalidArgumentError(f"state: expected shape {self.first.shape}, got {array.shape}")
        self._untraced = array

    def __getitem__(self, index: Any) -> Any:
        """Return elements of the current array."""
        return self.value[index]

    def __setitem__(self, index: Any, new: Any) -> None:
        """Change elements of the current array, at any index that arrays take."""
        self.value[index] = new


class States:
    """Contents of the state variables (`State`) at one point of the program that is being traced.

    `now` returns the array that a variable has after the statements traced so far, `change` replaces it.
    """

    def __init__(self, trace: Trace) -> None:
        """Begin without variables; `trace` emits the stores of changed ones at the end of the function."""
        self.trace = trace
        self._first: dict[State, Tensor] = {}  # value of each variable used so far, at the beginning of the function
        self._now: dict[State, Array] = {}  # current value of each of them
        trace.at_end.append(self._store)

    def now(self, state: State) -> Array:
        """Return the current array of a state variable, which is added to the program on first use."""
        if state not in self._now:
            names = self.trace.state_names
            name = names.setdefault(state, f"state{len(names)}")
            # is_own: a variable of the program, whose initial elements are always stored in the artifact.
            tensor = self.trace.weight(name, state.first, dtype_of_numpy(state.first), is_own=True)
            self.trace.parts(tensor)  # emits the load now, at the beginning of the function, before any store
            self._first[state] = tensor
            # The variable may be read first in a branch or loop, but belongs to the function.
            self._now[state] = Array(self.trace, tensor, scope=self.trace.outermost_scope)
        return self._now[state]

    def change(self, state: State, new: Any) -> None:
        """Assign a state variable. Raise CompileError inside a branch or loop, or for another shape."""
        if self.trace.scope is not self.trace.outermost_scope:
            raise self.trace.fail(
                "state is changed in a branch or a loop", "give the new value back, and assign it after"
            )
        old = self.now(state).tensor
        tensor = elementwise.convert(self.trace, self.trace.tensor_of(new), old.dtype)
        if tensor.shape != old.shape:
            raise self.trace.fail(f"state of shape {old.shape} cannot become {tensor}", "state keeps its shape")
        self._now[state] = Array(self.trace, tensor)

    def _store(self) -> None:
        """Emit the stores of variables that the function has assigned, at its end."""
        for state, first in self._first.items():
            tensor = self._now[state].tensor
            if tensor is not first:  # assigned
                self.trace.store(first, tensor)


def states_of(trace: Trace) -> States:
    """Return the state variables of a trace, which are created on first use."""
    if trace.states is None:
        trace.states = States(trace)
    states: States = trace.states
    return states


def state(first: Any) -> State:
    """Create state of programs.

    Args:
        first: Initial elements of the state in each loaded program. The state has the type and shape of this array. A
            read-only array is not copied.
    """
    return State(first)
