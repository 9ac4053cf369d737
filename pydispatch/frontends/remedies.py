"""Remedies for sources that no frontend reads, for the messages that refuse them."""

from __future__ import annotations

_PLAIN = (
    "a plain function; decorate it with @pydispatch.program or @pydispatch.kernel, or trace it with JAX: "
    "pydispatch.jax_source(function, *arguments)"
)

_OF_CLASSES = {
    ("pydispatch", "Artifact"): "an artifact, which is compiled already; device.load(artifact) takes it",
    ("torch", "ScriptModule"): (
        "a module of TorchScript; give the module that it was made from to pydispatch.from_torch(module, arguments)"
    ),
    ("torch", "ScriptFunction"): "a function of TorchScript; give torch.export.export(module, arguments)",
    ("torch", "Module"): (
        "a module of PyTorch; call pydispatch.from_torch(module, arguments), or give "
        "torch.export.export(module, arguments)"
    ),
    ("jaxlib", "PjitFunction"): (
        "a function of JAX; give pydispatch.jax_source(function, *arguments), or function.lower(*arguments)"
    ),
    ("builtins", "function"): _PLAIN,
    ("builtins", "method"): _PLAIN,
}
"""Top-level package and name of a class → the kind of its instances, and what to do. Derived classes come first."""


def remedy_of_object(source: object) -> str | None:
    """Return the kind of an object and what to do instead of compiling it, or None. No framework is imported."""
    classes = {(base.__module__.partition(".")[0], base.__name__) for base in type(source).__mro__}
    return next((remedy for key, remedy in _OF_CLASSES.items() if key in classes), None)
