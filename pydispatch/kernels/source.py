"""The source of a Python function: its syntax tree, the location of each node, and the meaning of names in it."""

from __future__ import annotations

import ast
import builtins
import inspect
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pydispatch.errors import CompileError, InvalidArgumentError, Location
from pydispatch.faults import innermost, internal_error, is_fault
from pydispatch.kernels.annotations import Parameter, Static, count_of, is_partial, type_of
from pydispatch.locations import characters
from pydispatch.patterns.closures import closure_of

MISSING = object()
"""Result of `Source.meaning` for an undefined name."""


class Source:
    """Python function with its source text. Raise InvalidArgumentError for a function without source, or a lambda.

    Attributes:
        function: The function.
        name: Its name.
        what: What errors call the function: "kernel" or "function".
        file: Path of the file that defines it.
        tree: Syntax tree of its definition. Positions of nodes are those in `text`, whose first line is 1.
    """

    def __init__(self, function: Callable[..., Any], what: str = "kernel") -> None:
        """Read the source text of `function` and parse it.

        what: what errors call the function, "kernel" or "function". Raise InvalidArgumentError for anything but a
        function under `def` whose source text can be read.
        """
        if not inspect.isfunction(function):
            raise InvalidArgumentError(
                f"{what}: expected a function, got {function!r}; write @pydispatch.kernel over one"
            )
        try:
            lines, first = inspect.getsourcelines(function)
        except (OSError, TypeError):
            raise InvalidArgumentError(
                f"{what} '{function.__name__}': its source cannot be read: write it in a file or in a notebook's cell"
            ) from None
        text = "".join(lines)
        dedented = textwrap.dedent(text)
        self.function, self.name, self.what = function, function.__name__, what
        self.file = function.__code__.co_filename
        self._lines, self._first = lines, first  # lines with their indentation; number of the first one in the file
        self._indent = len(lines[0]) - len(dedented.splitlines(keepends=True)[0])  # columns that dedent removes
        try:
            tree, *_ = ast.parse(dedented).body
        except SyntaxError:  # for a lambda, the lines are those around it, which may be no complete statement
            tree = ast.Pass()  # reported below
        if not isinstance(tree, ast.FunctionDef):
            raise InvalidArgumentError(
                f"{what} '{self.name}': expected a function under def, not a lambda or a coroutine"
            )
        self.tree = tree

    @property
    def first_line(self) -> int:
        """Number of the first line of `text` in its file."""
        return self._first

    @property
    def text(self) -> str:
        """Source of the function, with its decorators, without the indentation that all lines have."""
        return textwrap.dedent("".join(self._lines))

    @property
    def body(self) -> Sequence[ast.stmt]:
        """Statements of the function without its docstring."""
        statements = self.tree.body
        first = statements[0]
        is_docstring = (
            isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
        )
        return statements[1:] if is_docstring else statements

    def location(self, node: ast.AST) -> Location:
        """Return the location of a node in its file; that of a node of several lines ends with its first line."""
        line = getattr(node, "lineno", 1)
        text = self._lines[line - 1].rstrip("\n") if line <= len(self._lines) else ""
        # Offsets of nodes are counted in bytes, without the indentation. `start` and `end` count characters, with it.
        start = characters(text, getattr(node, "col_offset", 0) + self._indent)
        end_offset = getattr(node, "end_col_offset", None)
        is_on_one_line = getattr(node, "end_lineno", line) == line
        if is_on_one_line and end_offset is not None:
            end = characters(text, end_offset + self._indent)
        else:
            end = len(text)
        return Location(self.file, self._first + line - 1, column=start + 1, text=text, length=max(1, end - start))

    def error(self, node: ast.AST, message: str, note: str) -> CompileError:
        """Return a CompileError that points at a node. note: the remedy."""
        return CompileError(message, self.location(node), note)

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """The names of the parameters, in order."""
        code = self.function.__code__
        return code.co_varnames[: code.co_argcount]

    @contextmanager
    def located(self) -> Iterator[None]:
        """Add locations to errors of the `with` block.

        A RecursionError becomes a CompileError at the function. A fault (an exception that is no error of the user)
        becomes an InternalError at the innermost node that was being compiled.
        """
        try:
            yield
        except RecursionError:
            raise self.error(
                self.tree, f"'{self.name}' is nested too deeply, or its functions call each other without end",
                "split long expressions over several statements: y = a + b, then z = y + c",
            ) from None  # fmt: skip
        except Exception as error:
            if not is_fault(error):
                raise
            # A syntax node in a local variable of the frames that the exception left; an expression is more exact.
            node = innermost(error, ast.expr) or innermost(error, ast.stmt)
            where = self.location(node or self.tree)
            raise internal_error(error, f"kernel '{self.name}'", where) from error

    def meaning(self, name: str) -> Any:
        """Return the value of a free name of the function: of an enclosing function, the module or the builtins.

        Return MISSING if the name is undefined.
        """
        if name in self.function.__code__.co_freevars:
            return closure_of(self.function).get(name, MISSING)
        return self.function.__globals__.get(name, getattr(builtins, name, MISSING))

    def parameters(self) -> tuple[Parameter, ...]:
        """Return the parameters of a kernel in order; a tuple of n views is n parameters.

        Raise CompileError for a parameter without a type, and for `*`, `/` and `**`.
        """
        arguments = self.tree.args
        unwanted = self.unwanted()
        if unwanted is not None:
            raise self.error(
                unwanted,
                f"parameter '{unwanted.arg}' of kernel '{self.name}' is not a plain one",
                "name each parameter: no *, / and **",
            )
        # Python's tree has the defaults of the last parameters only.
        defaults = [None] * (len(arguments.args) - len(arguments.defaults)) + list(arguments.defaults)
        signature = inspect.signature(self.function)
        return tuple(
            parameter
            for node, default in zip(arguments.args, defaults, strict=True)
            for parameter in self._parameters(node, default, signature.parameters[node.arg].default)
        )

    def unwanted(self) -> ast.arg | None:
        """Return the first parameter of a kind that kernels and their functions refuse; None if there is none.

        These are positional-only, keyword-only, `*` and `**` parameters.
        """
        arguments = self.tree.args
        every = (*arguments.posonlyargs, arguments.vararg, *arguments.kwonlyargs, arguments.kwarg)
        return next((parameter for parameter in every if parameter is not None), None)

    def _parameters(self, node: ast.arg, default: ast.expr | None, value: object) -> list[Parameter]:
        """Return a parameter of a kernel as a list of one; of a tuple of views, a parameter for each view.

        A tuple `xs` of two views gives the parameters "xs.0" and "xs.1". Raise CompileError for a missing or wrong
        type, and for a default of a parameter that is not static.

        Args:
            node: The parameter.
            default: Expression of its default; None without one.
            value: The value of the default; of no meaning without one.
        """
        note = f"write {node.arg}: pydispatch.f32['n'] for an array, {node.arg}: pydispatch.f32 for a number"
        # The type.
        if node.annotation is None:
            raise self.error(node, f"parameter '{node.arg}' of kernel '{self.name}' has no type", note)
        try:
            annotation = self._annotation(node.annotation)
            type = type_of(annotation)
        except (NameError, AttributeError, TypeError, SyntaxError, InvalidArgumentError) as error:
            raise self.error(node.annotation, f"the type of parameter '{node.arg}' is wrong: {error}", note) from None
        if type is None:
            text = ast.unparse(node.annotation)
            raise self.error(node.annotation, f"'{text}' is no type of a parameter of a kernel", note)
        # A parameter that is known when the kernel is compiled; only these have defaults.
        if type is Static:
            return [Parameter(node.arg, None, value, default is not None)]
        if default is not None:
            raise self.error(
                default,
                f"parameter '{node.arg}' has a value by default, and is no pydispatch.static",
                "leave the value out, or give it in calls",
            )
        # A number, a view or a tuple of views.
        assert not isinstance(type, builtins.type)
        if type.shape is not None and type.dtype == "index":
            raise self.error(
                node.annotation, "memory has no elements of type index", "write pydispatch.i32 or pydispatch.i64"
            )
        # The number of views in a tuple, None for a single one; whether the kernel writes only a part of the elements.
        count, partial = count_of(annotation), is_partial(annotation)
        if count is None:
            return [Parameter(node.arg, type, is_partial=partial)]
        if type.shape is None or count < 1:
            text = ast.unparse(node.annotation)
            raise self.error(node.annotation, f"'{text}' is no tuple of views",
                             "write Annotated[tuple[pydispatch.View, ...], pydispatch.f32['n'], 3]")  # fmt: skip
        return [Parameter(f"{node.arg}.{i}", type, is_partial=partial, tuple_name=node.arg) for i in range(count)]

    def _annotation(self, node: ast.expr) -> object:
        """Return the object that an annotation evaluates to, also under `from __future__ import annotations`."""
        # An annotation that is no string was evaluated when the function was defined. Its names may be variables of an
        # enclosing function that the function itself does not use, so that its closure lacks them.
        parameter = next((a.arg for a in self.tree.args.args if a.annotation is node), "")
        value = self.function.__annotations__.get(parameter, "")
        if not isinstance(value, str):
            return value
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node = ast.parse(node.value, mode="eval").body
        expression = compile(ast.Expression(ast.fix_missing_locations(node)), self.file, "eval")
        return eval(expression, self.function.__globals__, closure_of(self.function))
