"""The public interface of functions and procedures: names, types and sizes of arguments and results."""

cimport cython
from libc.stdint cimport uint32_t

from pydispatch._core.arrays cimport ElementType
from pydispatch._core.binding cimport type_text, value_type
from pydispatch._core.c_program cimport PYD_KIND_TENSOR
from pydispatch._core.c_program cimport pyd_program_function_t, pyd_program_value_t
from pydispatch._core.lock cimport pyd_flag, pyd_set_flag
from pydispatch._core.program cimport Module, text_of

from pydispatch._core.status import ArtifactError, InvalidArgumentError


cdef class PublicFunction:
    """Base of Function and Procedure: name, types and sizes of arguments and results, and errors about them."""

    cdef int describe(self, Module module, uint32_t index, const pyd_program_function_t* info) except -1:
        """Read the types, names and sizes of arguments and results from the program.

        index: of the function among the functions, or of the procedure among the procedures, of `module`.
        """
        cdef const pyd_program_value_t* value
        cdef uint32_t i
        self.module, self.index = module, index
        self.name, self.signature = text_of(info.name), text_of(info.signature)
        self.arg_count, self.result_count = info.arg_count, info.result_count
        types, names, dims = [], [], []
        for i in range(self.arg_count):
            value = &info.args[i]
            types.append(value_type(self.name, "argument", i, value.dtype))
            names.append(text_of(value.name))
            dims.append(tuple([value.dims[k] for k in range(value.rank)]) if value.kind == PYD_KIND_TENSOR else None)
        self.arg_types, self.arg_names, self.arg_dims = tuple(types), tuple(names), tuple(dims)
        types, names, ranks = [], [], []
        for i in range(self.result_count):
            value = &info.results[i]
            types.append(value_type(self.name, "result", i, value.dtype))
            names.append(text_of(value.name))
            ranks.append(value.rank if value.kind == PYD_KIND_TENSOR else None)
        self.result_types, self.result_names, self.result_ranks = tuple(types), tuple(names), tuple(ranks)
        return 0

    def __repr__(self):
        try:
            text = self.text()
        except ArtifactError:  # the manifest does not fit
            text = self.name + self.signature
        return f"<function @{text} of a program>"

    def __copy__(self):
        """Return the function itself, which cannot be changed."""
        return self

    def __reduce__(self):
        """Pickle the program with the name of the function."""
        return self.origin.reduce_function(self.name)

    @property
    def __name__(self):
        return self.name

    @property
    def __signature__(self):
        return self.described().signature()

    @property
    def arguments(self):
        """Return (name or "", element type, sizes) of each argument.

        sizes: -1 for a dynamic size; None for a number.
        """
        return list(zip(self.arg_names, self.arg_types, self.arg_dims))

    @property
    def results(self):
        """Return (element type, rank) of each result; the rank of a number is None."""
        return list(zip(self.result_types, self.result_ranks))

    @property
    def inputs(self):
        """Return the name, NumPy dtype and shape of each argument. A dynamic size is given by its name."""
        return self.described().inputs

    @property
    def outputs(self):
        """Return the name, NumPy dtype and shape of each result. A dynamic size is given by its name."""
        return self.described().outputs

    def described(self):
        """Return the Interface of the function. Raise ArtifactError if the manifest contradicts the program."""
        if pyd_flag(&self.is_described):
            return self.interface
        from pydispatch._core.interface import Interface

        entries = self.module.interfaces
        made = Interface.of(
            self.name, self.arguments, self.result_names, self.results,
            None if entries is None else entries.get(self.name))
        with cython.critical_section(self):
            if self.interface is None:
                self.interface = made
                pyd_set_flag(&self.is_described)
        return self.interface

    def check_fresh(self, fresh, out):
        """Raise InvalidArgumentError if `fresh` is no bool, or is True together with `out`.

        fresh: each run of a prepared call returns new arrays. out: the caller's arrays for results, or None.
        """
        if fresh not in (True, False):
            raise InvalidArgumentError(f"@{self.name}: fresh: expected True or False, got {fresh!r}")
        if fresh and out is not None:
            raise InvalidArgumentError(f"@{self.name}: fresh=True makes new results in each run; leave out= out")

    def help(self):
        """Return the text that `help` shows for the function."""
        return self.described().help()

    def text(self):
        """Return the signature as text, such as `f(x: float32[n, 4]) -> float32[n]`."""
        return self.described().text()

    cdef Py_ssize_t position_of(self, str name) except -1:
        """Return the position of the argument with this name. Raise InvalidArgumentError unless there is exactly one.

        The dict of positions is created for the first keyword and cached.
        """
        if not pyd_flag(&self.has_positions):
            positions = {}
            for i, argument in enumerate(self.arg_names):
                positions[argument] = None if argument in positions else i  # None: several arguments have the name
            with cython.critical_section(self):
                if self.positions is None:
                    self.positions = positions
                    pyd_set_flag(&self.has_positions)
        position = self.positions.get(name)
        if position is None:
            raise self.wrong_name(name, name in self.positions)
        return position

    def arranged(self, args, dict named not None):
        """Return all arguments in the function's order.

        args: the first ones, by position. named: the others, by name. Raise InvalidArgumentError for a name that is
        unknown or belongs to several arguments, and for an argument that is missing or given twice.
        """
        cdef Py_ssize_t position, count = len(args)
        values = list(args) + [None] * (<Py_ssize_t>self.arg_count - count)
        given = [i < count for i in range(len(values))]  # for each argument whether it has a value
        for name, value in named.items():
            if name == "out":  # handled by calls before they get here
                raise InvalidArgumentError(f"@{self.name}: 'out' is given to a call or to prepare, not here")
            position = self.position_of(name)
            if position < count:
                raise InvalidArgumentError(
                    f"@{self.name}: argument {position} '{name}' is given twice, by position and by name: "
                    + self.usage())
            values[position], given[position] = value, True
        if not all(given):
            missing = [
                f"'{self.arg_names[i]}'" if self.arg_names[i] else str(i) for i in range(len(given)) if not given[i]]
            raise InvalidArgumentError(
                f"@{self.name}: missing argument{'s' if len(missing) != 1 else ''} {', '.join(missing)}: "
                + self.usage())
        return tuple(values)

    def batched(self, max_batch=64, max_delay=0.001, *, constants=None, example=None, tolerance=0.0, caller=None):
        """Merge requests of threads and coroutines into calls with more rows (docs/batch-inference.md).

        Args:
            max_batch: Maximum number of rows of a call.
            max_delay: Seconds that the first request of a call waits for others.
            constants: Values of arguments that are the same in all requests, by name or position.
            example: Arguments of one request, used to check that rows do not depend on each other. Default: random
                numbers, or the first requests of a call where random numbers are not allowed.
            tolerance: Largest accepted difference that other rows of a call make, relative to the largest element of a
                result. 0: results must be bit-equal.
            caller: A function to call in place of this one, with the same arguments and results.

        Returns:
            A Batched.

        Raises:
            InvalidArgumentError: The function has no leading dimension for requests, or its rows depend on each other.
        """
        from pydispatch._core.batching import Batched

        return Batched(caller or self, max_batch, max_delay, constants, example, tolerance)

    cdef object wrong_name(self, str name, bint is_ambiguous):
        """Return the error for a keyword that names no argument, or several of them if `is_ambiguous`."""
        if is_ambiguous:
            positions = [str(i) for i in range(self.arg_count) if self.arg_names[i] == name]
            return InvalidArgumentError(
                f"@{self.name}: arguments {' and '.join(positions)} are all named '{name}'; give them by position: "
                + self.usage())
        import difflib

        near = difflib.get_close_matches(name, [each for each in self.arg_names if each], 1)  # at most one
        hint = f"; did you mean '{near[0]}'?" if near else ","
        return InvalidArgumentError(
            f"@{self.name}: unexpected keyword argument '{name}'{hint} it takes {self.usage()}, and 'out' for results")

    def usage(self):
        """Return the arguments as text for errors, such as `f(x: ?x4xf32, n: i32)`, where ? is a dynamic size."""
        arguments = [
            (f"{name}: " if name else "") + type_text(kind, dims)
            for name, kind, dims in zip(self.arg_names, self.arg_types, self.arg_dims)
        ]
        return f"{self.name}({', '.join(arguments)})"

    cdef int check_buffer(self, uint32_t i, object given) except -1:
        """Raise InvalidArgumentError if a device's buffer does not have the element type and rank of argument `i`.

        given: the buffer. Its sizes are compared later, when the plan for them is looked up.
        """
        cdef ElementType has = given.element, kind = self.arg_types[i]
        # Types with the same representation are interchangeable, such as i32 and si32.
        if has is kind or (has.dtype == kind.dtype and has.packed == kind.packed and has.bits == kind.bits):
            if len(given.shape) == len(self.arg_dims[i]):
                return 0
        name = f" '{self.arg_names[i]}'" if self.arg_names[i] else ""
        where = f"@{self.name}: argument {i}{name}"
        raise InvalidArgumentError(
            f"{where}: expected {type_text(kind, self.arg_dims[i])}, got a buffer of "
            f"{type_text(has, given.shape)}; give an array or a buffer of that type")

    cdef int check_count(self, Py_ssize_t count) except -1:
        """Raise InvalidArgumentError for a wrong number of arguments."""
        if count != self.arg_count:
            raise InvalidArgumentError(
                f"@{self.name}: expected {self.arg_count} argument{'s' if self.arg_count != 1 else ''}, got {count}: "
                + self.usage())
        return 0
