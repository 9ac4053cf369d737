"""Kernels in Python whose static parameters are chosen by measurement."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from pydispatch.bench.measure import measure
from pydispatch.errors import InvalidArgumentError
from pydispatch.integrations.called_kernels import Kernel, are_traced
from pydispatch.kernels.annotations import Parameter
from pydispatch.kernels.kernel import Grid
from pydispatch.patterns.types import DType
from pydispatch.programs.functions.common import dtype_from
from pydispatch.runtime.buffer import Buffer
from pydispatch.tuning.database import Database, Measurement

Config = Mapping[str, Any]
"""Values of static parameters by name, and of `workgroup`."""
SECONDS = 0.05
"""Time for which each configuration is measured. Less makes the choice less certain; more delays the first call."""


class TunedKernel(Kernel):
    """Kernel with several configurations. Calls with arrays choose one; everything else uses the first.

    For each device and each value of its key, the first call measures the configurations on copies of its arrays. The
    fastest is stored in the database of docs/tuning.md.
    """

    def __init__(
        self, function: Callable[..., Any], workgroup: Sequence[int] | int, grid: Grid, configs: Sequence[Config],
        key: Sequence[str],
    ) -> None:  # fmt: skip
        """Create the kernels of all configurations, without compiling them.

        Args:
            function: The function that a kernel is created from.
            workgroup: Invocations of a workgroup along each axis, for configurations that do not set it.
            grid: Numbers of workgroups, or a function of the kernel's parameters that returns them; None to cover the
                first view that the kernel writes.
            configs: The configurations, at least one.
            key: Names of sizes and of arguments that are numbers; their values decide which configuration is used.

        Raises:
            InvalidArgumentError: There are no configurations.
        """
        if not configs:
            raise InvalidArgumentError(f"kernel '{function.__name__}': configs: expected one or more, got none")
        self.configs = tuple(dict(config) for config in configs)
        self.kernels = tuple(_kernel(function, workgroup, grid, config) for config in self.configs)
        # As a kernel, this is the first configuration: uses that measure nothing, such as compiling it, take that one.
        super().__init__(function, self.kernels[0].workgroup, grid, self.kernels[0].statics)
        self.key = tuple(key)
        # Position of an argument, and the axis of its size or None for the argument's value.
        self._key_parts = tuple(map(self._locate_key, self.key))
        self._chosen: dict[tuple[Any, ...], Kernel] = {}  # (device, values that decide) → the fastest configuration

    def __call__(self, /, *args: Any, **named: Any) -> None:
        """Call the kernel with the fastest configuration; arguments and errors are those of the kernel.

        In a traced program, whose arrays have no data to measure with, call it with the first configuration.
        """
        if named:
            args = self.arranged(args, named)
        kernel = self.kernels[0] if are_traced(args) else self.best(*args)
        kernel(*args)

    def best(self, *args: Any, measures: bool = True) -> Kernel:
        """Return the kernel with the fastest configuration for such arguments, which are not modified.

        The configuration depends on the device and on the values of the kernel's key: an argument, or the size of one.
        If the database does not have it, all configurations are measured if `measures`, else the first is returned. The
        fastest one is stored in `_chosen` for later calls.
        """
        self.kernels[0].check_count(args)
        values = tuple(
            args[position] if axis is None else args[position].shape[axis] for position, axis in self._key_parts
        )
        # Without a buffer, all arrays are in the memory of the CPU.
        device = next((argument.device for argument in args if type(argument) is Buffer), "cpu")
        fastest = self._chosen.get((device, values))
        if fastest is None:
            fastest = self._select(device, values, args, measures)
            if fastest is None:  # unknown and not measured
                return self.kernels[0]
            self._chosen[device, values] = fastest
        return fastest

    def for_shapes(self, shapes: Mapping[str, Sequence[Any]], measures: bool) -> Kernel:
        """Return the kernel with the fastest configuration on the CPU for arguments of these shapes.

        Example: for a kernel of the views x: f32["n"] and y: f32["n"], the shapes {"x": (4096,)} say that n is 4096,
        and so the shape of y. Measurements use arrays of ones; the arguments that are numbers are 1, in the key too.

        Args:
            shapes: Shape of each view by name. Views whose sizes are all numbers, or names that other shapes give, may
                be omitted.
            measures: Whether to measure all configurations if the database does not have the fastest. If not, the first
                one is returned then.

        Raises:
            InvalidArgumentError: The shapes do not give a value for a size.
        """
        sizes: dict[str, int] = {}  # name of a dynamic size → its value
        views = [parameter for parameter in self.kernels[0].passed if parameter.is_view]
        for parameter in views:
            # Of (n, 4) with the shape (4096, 4), only n has a name. A view whose shape is omitted gives no sizes.
            stated = shapes.get(parameter.name, ())
            sizes |= {s: n for s, n in zip(_annotated_sizes(parameter), stated, strict=False) if isinstance(s, str)}
        # All sizes that need a value: those of the annotations that are no numbers.
        needed = {str(s) for parameter in views for s in _annotated_sizes(parameter) if not isinstance(s, int)}
        missing = sorted(name for name in needed if not isinstance(sizes.get(name), int))
        if missing:
            raise InvalidArgumentError(
                f"kernel '{self.name}': its configurations cannot be measured: size {missing[0]} is not known; give "
                f"inputs={{'{views[0].name}': (4096,)}}, or compile {self.name}.best(x, ...)"
            )
        return self.best(*(self._example(parameter, sizes) for parameter in self.kernels[0].passed), measures=measures)

    @staticmethod
    def _example(parameter: Parameter, sizes: Mapping[str, int]) -> Any:
        """Return an argument for measurements: 1, or an array of ones with the sizes that `sizes` has by name."""
        assert parameter.type is not None
        if parameter.type.shape is None:
            return 1
        shape = [n if isinstance(n, int) else sizes[str(n)] for n in parameter.type.shape]
        return np.ones(shape, dtype_from(DType(parameter.type.dtype)).numpy)

    def _locate_key(self, name: str) -> tuple[int, int | None]:
        """Return where calls find the value of an entry of `key`: the position of an argument, and an axis or None.

        `name` is the argument's own name, for a number, or the name of its size along the axis.
        """
        for index, parameter in enumerate(self.kernels[0].passed):
            if parameter.type is None:  # a static parameter, which calls do not pass
                continue
            if parameter.name == name and not parameter.is_view:
                return index, None
            annotated = _annotated_sizes(parameter)
            if name in annotated:
                return index, annotated.index(name)
        raise InvalidArgumentError(
            f"kernel '{self.name}': key: '{name}' is neither a number among its parameters nor the name of a size"
        )

    def _select(
        self, device: str, values: tuple[Any, ...], args: tuple[Any, ...], measures: bool
    ) -> Kernel | None:  # fmt: skip
        """Return the fastest configuration from the database, or else by measurement, which is stored there.

        Args:
            device: Name of the device.
            values: Values of the key, in order.
            args: Arguments of the call; measurements use copies.
            measures: Whether to measure. If not, the result is None for a configuration that the database lacks.
        """
        database = Database(_machine(device), note=lambda text: None)
        # The key of the entry: the code of all configurations, and the values that decide.
        text = "\0".join((*(item.mlir() for item in self.kernels), repr(values)))
        entry = database.load(text)
        names = [_config_name(config) for config in self.configs]
        if entry is None or entry.chosen not in names:
            if not measures:
                return None
            entry = self._measure(names, args)
            database.store(text, entry)
        return self.kernels[names.index(entry.chosen)]

    def _measure(self, names: Sequence[str], args: tuple[Any, ...]) -> Measurement:
        """Measure all configurations on copies of the arguments, and return the fastest one and its time.

        `names` has the names of the configurations in the order of `self.kernels`; the first is the default.
        """
        calls = {
            name: functools.partial(kernel, *map(_copied, args))
            for name, kernel in zip(names, self.kernels, strict=True)
        }
        times = dict(zip(names, microseconds(calls), strict=True))
        chosen = min(times, key=lambda name: times[name])
        return Measurement(chosen, times[chosen], default=names[0], default_us=times[names[0]], complete=True)

    def __repr__(self) -> str:
        """Return the name, the number of configurations and the key."""
        by = f" for each {', '.join(self.key)}" if self.key else ""
        return f"<pydispatch kernel {self.name} with {len(self.configs)} configurations{by}>"


def _kernel(function: Callable[..., Any], workgroup: Sequence[int] | int, grid: Grid, config: Config) -> Kernel:
    """Return the kernel of one configuration; `workgroup` is for configurations without one."""
    statics = {name: value for name, value in config.items() if name != "workgroup"}
    return Kernel(function, config.get("workgroup", workgroup), grid, statics)


def _annotated_sizes(parameter: Parameter) -> tuple[Any, ...]:
    """Return the sizes in the annotation of a view: numbers, or names of dynamic sizes. A number has none."""
    if parameter.type is None or parameter.type.shape is None:
        return ()
    return tuple(parameter.type.shape)


def _config_name(config: Config) -> str:
    """Return a configuration as text, by which the database names it: "tile=8, workgroup=64"."""
    return ", ".join(f"{name}={value}" for name, value in sorted(config.items())) or "as it is"


def _machine(device: str) -> str:
    """Return the text by which the database identifies a device and its properties."""
    import pydispatch

    about = pydispatch.device(device).describe()
    return f"{device}: {sorted(about.items())}"


def _copied(value: Any) -> Any:
    """Return a copy of an array or of a buffer on its device; any other argument unchanged."""
    if type(value) is Buffer:
        import pydispatch

        opened: Any = pydispatch.device(value.device)
        return opened.upload(np.asarray(value))
    is_array = hasattr(value, "__array__") and np.ndim(value) > 0  # NumPy's numbers have no axes
    return np.array(value) if is_array else value


def microseconds(calls: Mapping[str, Callable[[], object]]) -> list[float]:
    """Return the least time of each call in microseconds, in the order of `calls`, which are measured in turns."""
    return [1e6 * timing.least for timing in measure(calls, SECONDS, warm_up=SECONDS / 4)]
