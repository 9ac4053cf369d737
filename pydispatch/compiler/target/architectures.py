"""Objects by target: which an executable has for a target, and which architectures of CUDA it is compiled for.

PTX for one architecture runs on all later ones, so that keys of objects are no walls here: a target that names no
architecture becomes one variant for each that the objects name, and a target that names one takes the objects of the
newest that runs on it.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, ModuleOp
from xdsl.ir import Attribute, Operation

from pydispatch.compiler.target.cuda import BACKEND, architecture, best, with_architecture
from pydispatch.compiler.target.select import key_matches
from pydispatch.ir.dialects.hal import dialect as hal


def objects_attribute(op: Operation) -> Attribute | None:
    """The objects of an executable, in any of its spellings."""
    found = op.properties.get("objects") or op.attributes.get("hal.executable.objects")
    return found or op.attributes.get("objects")


def chosen_targets(op: Operation, targets: Sequence[hal.ExecutableTargetAttr]) -> list[hal.ExecutableTargetAttr]:
    """The targets of one executable: see above. Two that would get the same whole kernels are one."""
    chosen: list[hal.ExecutableTargetAttr] = []
    attribute = objects_attribute(op)
    for target in targets:
        named = _architectures(attribute, target)
        if target.backend.data != BACKEND or architecture(target) or not named:
            chosen.append(target)
        else:
            chosen += [with_architecture(target, name) if name else target for name in named]
    if any(isinstance(inner, ModuleOp) for inner in op.regions[0].block.ops):
        return list(dict.fromkeys(chosen))
    # Whole kernels are for the architectures that they are listed under, whatever was asked for.
    fitting = ((best(_architectures(attribute, t), architecture(t)) if architecture(t) else None, t) for t in chosen)
    return list(dict.fromkeys(with_architecture(target, name) if name else target for name, target in fitting))


def _architectures(attribute: Attribute | None, target: hal.ExecutableTargetAttr) -> list[str]:
    """The architectures of the keys that match a target, in order; '' when a key names none."""
    if not isinstance(attribute, hal.ExecutableObjectsAttr):
        return []
    keys = [k for k in attribute.targets.data if isinstance(k, hal.ExecutableTargetAttr) and key_matches(k, target)]
    names = dict.fromkeys(architecture(key) for key in keys)
    return [name for name in names if name] or list(names)


def objects_for(attribute: hal.ExecutableObjectsAttr, target: hal.ExecutableTargetAttr) -> list[Attribute]:
    """The objects of all keys that match a target, in order; those of one architecture, and those of none."""
    wanted = architecture(target)
    fitting = best(_architectures(attribute, target), wanted) if wanted else None
    found: list[Attribute] = []
    for key, objects in zip(attribute.targets.data, attribute.objects.data, strict=True):
        assert isinstance(key, hal.ExecutableTargetAttr) and isinstance(objects, ArrayAttr)
        if key_matches(key, target) and architecture(key) in ("", fitting or ""):
            found += objects.data
    return found
