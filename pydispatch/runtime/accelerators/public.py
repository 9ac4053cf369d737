"""Public attributes of the functions of a program on a device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydispatch.errors import ArtifactError, DeviceUnavailableError

if TYPE_CHECKING:
    import inspect

    from typing_extensions import Self

    from pydispatch._core.arrays import ElementType
    from pydispatch._core.batching import Batched
    from pydispatch._core.interface import ValueInfo
    from pydispatch._core.public import PublicFunction
    from pydispatch.runtime.program.program import Origin


class _Documentation:
    """Descriptor of `__doc__`: the docstring of a class, or the help text of a function object."""

    def __init__(self, text: str) -> None:
        """Record the docstring of the class. The docstring of an instance is computed."""
        self._text = text

    def __get__(self, instance: Callee | None, owner: type) -> str:
        """Return the docstring of the class if there is no instance, else the help text of the function."""
        return self._text if instance is None else instance._public.help()


class Callee:
    """Function of a program as its callers see it: names, types and sizes of its arguments and results."""

    _context: Any  # the open device, which subclasses set
    origin: Origin
    """Origin of the program, which pickles the function."""

    def __init__(self, public: PublicFunction, device_name: str) -> None:
        """Take the function in the C core, which has its names, types and help text. device_name: for repr()."""
        self._public, self._device_name = public, device_name
        self.name, self.signature, self.__name__ = public.name, public.signature, public.name

    def __init_subclass__(cls) -> None:
        """Replace the docstring of a new subclass by a `_Documentation`."""
        super().__init_subclass__()
        # help() of a function shows that function's own arguments and results.
        cls.__doc__ = _Documentation(cls.__doc__ or "")  # type: ignore[assignment]

    @property
    def is_usable(self) -> bool:
        """Whether the device is open: calls raise DeviceUnavailableError otherwise."""
        try:
            self._context.require_usable()
        except DeviceUnavailableError:
            return False
        return True

    @property
    def arguments(self) -> list[tuple[str, ElementType, tuple[int, ...] | None]]:
        """(name or "", element type, sizes) of each argument. A size is -1 if callers choose it. A number has None
        instead of sizes.
        """
        return self._public.arguments

    @property
    def inputs(self) -> tuple[ValueInfo, ...]:
        """The arguments: name, NumPy type and shape of each, where a size that callers choose has a name."""
        return self._public.inputs

    @property
    def outputs(self) -> tuple[ValueInfo, ...]:
        """Results, described like `inputs`."""
        return self._public.outputs

    @property
    def __signature__(self) -> inspect.Signature:
        """Signature of the function for `inspect.signature`."""
        return self._public.described().signature()

    def batched(self, max_batch: int = 64, max_delay: float = 0.001, **options: Any) -> Batched:
        """Return an object that combines requests of threads and coroutines into calls with up to `max_batch` rows.

        Its results are arrays. max_delay: seconds after which a call begins with fewer rows. options: further keyword
        arguments of `Batched` in `pydispatch._core.batching`.
        """
        return self._public.batched(max_batch, max_delay, **options, caller=self)

    def _arranged(self, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
        """Return all arguments in order, with `named` ones inserted.

        Raise InvalidArgumentError if they do not match.
        """
        return self._public.arranged(args, named) if named else args

    def __copy__(self) -> Self:
        """Return the function itself, which cannot be changed."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the program with the name of the function."""
        return self.origin.reduce_function(self.name)

    def __repr__(self) -> str:
        """Return the function's signature and device."""
        try:
            text = self._public.text()
        except ArtifactError:  # the manifest does not fit the program
            text = self.name + self.signature
        return f"<function @{text} on {self._device_name}>"
