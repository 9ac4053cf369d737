"""`pydispatch.parameters` on an export: the parameters of its CUDA kernel, if not all bindings and then all constants.

The attribute is a list with a string for each scalar parameter, and a list of such elements for each struct:
`["constant(0)", ["binding(0)", "binding(1)"]]`. docs/cuda.md has the forms of the strings, which
`formats/ptx/parameters.py` reads.
"""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import VerifyException

PARAMETERS = "pydispatch.parameters"  # attribute of an export


def described_parameters(export: Operation) -> list[Any] | None:
    """Return the parameter descriptions of an export; None if it has none.

    A description is a string, or a list of descriptions for a struct. Raises VerifyException for other attributes; the
    text of the strings is not checked.
    """
    stated = export.attributes.get(PARAMETERS)
    if stated is None:
        return None
    if not isinstance(stated, ArrayAttr):
        raise VerifyException(f'{PARAMETERS} is a list of parameters, such as ["constant(0)", "binding(0)"]')
    return [_python_value(parameter) for parameter in stated.data]


def _python_value(parameter: Attribute) -> Any:
    """Convert an attribute to a string, or to a list of such values."""
    if isinstance(parameter, StringAttr):
        return parameter.data
    if isinstance(parameter, ArrayAttr):
        return [_python_value(member) for member in parameter.data]
    raise VerifyException(f"{PARAMETERS}: a parameter is a string, or a list of strings for a struct, got {parameter}")
