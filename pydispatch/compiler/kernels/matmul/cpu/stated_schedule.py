"""The attribute `pydispatch.schedule` of a dispatch function as a `Schedule`, and errors about it."""

from __future__ import annotations

from dataclasses import MISSING, fields

from xdsl.dialects import func
from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, i1
from xdsl.ir import Attribute

from pydispatch.compiler.kernels.matmul.cpu.schedule import SCHEDULE, Schedule
from pydispatch.errors import CompileError
from pydispatch.ir.core.locations import location_of


def stated_schedule(source: func.FuncOp) -> Schedule | None:
    """Return the schedule that the attribute of a dispatch function states; None without the attribute.

    The attribute is a dictionary of the fields of `Schedule`, of which `batch` may be missing:

        {mr = 14 : i64, nr = 32 : i64, mt = 112 : i64, nt = 256 : i64, kc = 784 : i64, pack_a = false, pack_b = true}

    Raises:
        CompileError: The attribute is malformed.
    """
    attribute = source.attributes.get(SCHEDULE)
    if attribute is None:
        return None
    names = [field.name for field in fields(Schedule)]
    flags = [name for name in names if name.startswith("pack")]  # the others are sizes
    required = [field.name for field in fields(Schedule) if field.default is MISSING]
    entries = attribute.data if isinstance(attribute, DictionaryAttr) else {}
    values = {name: _integer(value, is_flag=name in flags) for name, value in entries.items()}
    is_complete = values.keys() >= set(required)
    is_known = values.keys() <= set(names)
    have_right_types = None not in values.values()
    if not (is_complete and is_known and have_right_types):
        types = ", ".join(f"{name}: {'i1' if name in flags else 'i64'}" for name in names)
        raise schedule_error(source, f"it is not a dictionary of {types}")
    sizes = {name: value for name, value in values.items() if value is not None and name not in flags}
    return Schedule(**sizes, pack_a=bool(values["pack_a"]), pack_b=bool(values["pack_b"]))


def schedule_error(source: func.FuncOp, reason: str) -> CompileError:
    """Return the error for a schedule that cannot be used."""
    note = f"drop the attribute `{SCHEDULE}` for the default, or state another schedule"
    return CompileError(f"the schedule of '@{source.sym_name.data}': {reason}", location_of(source), note)


def _integer(attribute: Attribute, is_flag: bool) -> int | None:
    """Return the value of a flag (i1) or of a size (another integer type); None for an attribute of another type."""
    if not isinstance(attribute, IntegerAttr):
        return None
    has_right_type = (attribute.type == i1) == is_flag
    return attribute.value.data if has_right_type else None
