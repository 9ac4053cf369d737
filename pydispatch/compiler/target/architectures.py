"""Objects by target: which an executable has for a target, and which architectures it is compiled for.

Code for one architecture of a GPU may run on others, so that keys of objects need not be equal to a target: a target
that names no architecture becomes one variant for each that the objects name, and a target that names one takes the
objects of the newest that runs on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xdsl.dialects.builtin import ArrayAttr, ModuleOp
from xdsl.ir import Attribute, Operation

from pydispatch.compiler.target.backend import architecture, backend_of
from pydispatch.compiler.target.select import key_matches
from pydispatch.ir.dialects.hal import dialect as hal


class StatedObjects(NamedTuple):
    """Objects that an executable states.

    Attributes:
        shared: Objects for every target.
        by_target: Objects for the targets of its keys; None if there are none.
    """

    shared: list[Attribute]
    by_target: hal.ExecutableObjectsAttr | None


def stated_objects(op: Operation) -> StatedObjects:
    """Return the objects of an executable, in any of its spellings.

    They are a list for every target, `[objects]`, or lists by target, `#hal.executable.objects<{#target = [objects]}>`,
    which may also be one element of the list for every target.
    """
    attribute = op.properties.get("objects") or op.attributes.get("hal.executable.objects")
    attribute = attribute or op.attributes.get("objects")
    if isinstance(attribute, hal.ExecutableObjectsAttr):
        return StatedObjects([], attribute)
    listed = list(attribute.data) if isinstance(attribute, ArrayAttr) else []
    by_target = next((entry for entry in listed if isinstance(entry, hal.ExecutableObjectsAttr)), None)
    return StatedObjects([entry for entry in listed if entry is not by_target], by_target)


def chosen_targets(op: Operation, targets: Sequence[hal.ExecutableTargetAttr]) -> list[hal.ExecutableTargetAttr]:
    """Return the targets that one executable is compiled for, without repetitions.

    A target that names no architecture becomes one for each architecture that the executable lists objects under. If
    the executable consists of objects, without code to compile, a target that names an architecture becomes that of the
    best-fitting objects. For an executable with objects for sm_80 and sm_90

    - the target `cuda` becomes two, sm_80 and sm_90
    - the target sm_86 remains sm_86 if the executable has code to compile, and becomes sm_80 if it consists of objects

    Args:
        op: The executable.
        targets: The targets that the program is compiled for.
    """
    chosen: list[hal.ExecutableTargetAttr] = []
    by_target = stated_objects(op).by_target
    for target in targets:
        # Architectures in the keys of the objects that match the target.
        backend, listed = backend_of(target), _listed_architectures(by_target, target)
        architectures = None if backend is None else backend.architectures
        names_architecture = architecture(target) != ""
        if architectures is None or names_architecture or not listed:
            chosen.append(target)
        else:
            # "": the objects are listed under a key without an architecture, so that the target remains without one.
            chosen += [architectures.target(target, name) if name else target for name in listed]
    if any(isinstance(inner, ModuleOp) for inner in op.regions[0].block.ops):
        return list(dict.fromkeys(chosen))
    # Without a module, the objects are all kernels of the executable: the architectures are those of the objects,
    # whatever was requested.
    return list(dict.fromkeys(_with_best_architecture(target, by_target) for target in chosen))


def _with_best_architecture(
    target: hal.ExecutableTargetAttr, by_target: hal.ExecutableObjectsAttr | None
) -> hal.ExecutableTargetAttr:
    """Return the target with the best-fitting architecture of the objects `by_target`; unchanged if none fits."""
    name, backend = _best_architecture(target, by_target), backend_of(target)
    if not name or backend is None or backend.architectures is None:
        return target
    return backend.architectures.target(target, name)


def _best_architecture(target: hal.ExecutableTargetAttr, by_target: hal.ExecutableObjectsAttr | None) -> str | None:
    """Return the architecture, of those that objects are listed under, that fits a target best.

    Return None if the target states no architecture, or if it runs the code of none of them.
    """
    wanted, backend = architecture(target), backend_of(target)
    if not wanted or backend is None or backend.architectures is None:
        return None
    return backend.architectures.best(_listed_architectures(by_target, target), wanted)


def _listed_architectures(by_target: hal.ExecutableObjectsAttr | None, target: hal.ExecutableTargetAttr) -> list[str]:
    """Return the architectures, in order, that are stated by the keys in the objects `by_target` that match a target.

    Return [""] if keys match, but none of them states an architecture.
    """
    if by_target is None:
        return []
    keys = [k for k in by_target.targets.data if isinstance(k, hal.ExecutableTargetAttr) and key_matches(k, target)]
    names = dict.fromkeys(architecture(key) for key in keys)
    return [name for name in names if name] or list(names)


def objects_for(attribute: hal.ExecutableObjectsAttr, target: hal.ExecutableTargetAttr) -> list[Attribute]:
    """Return the objects of all keys that match a target, in order.

    A key matches if it states no architecture, or the one that fits the target best.
    """
    best = _best_architecture(target, attribute)
    architectures = {""} if best is None else {"", best}  # "": a key that states none
    matching: list[Attribute] = []
    for key, objects in zip(attribute.targets.data, attribute.objects.data, strict=True):
        assert isinstance(key, hal.ExecutableTargetAttr) and isinstance(objects, ArrayAttr)
        if key_matches(key, target) and architecture(key) in architectures:
            matching += objects.data
    return matching
