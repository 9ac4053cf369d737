"""Hints for kernels of the user that no operator of a model has the name of."""

from __future__ import annotations

from collections.abc import Mapping

from pydispatch.suggestions import close_matches


def missing_operator(name: str, layers: Mapping[str, str]) -> str:
    """Return the reason why a kernel matches nothing: the model has no operator `name`.

    The text lists up to three operators with similar names, each with a layer that uses it. If no name is similar, it
    lists all operators. For the kernel "com.acme::Norms" it may be "the model has no operator of this name; near are
    com.acme::Norm of layer 'norm_0'".

    Args:
        name: The name, as the model would spell it.
        layers: Operator of the model → name of the first layer that uses it.
    """
    # Name in lower case without domain → operator: neither case nor domain affects the similarity.
    folded = {operator.rpartition("::")[2].lower(): operator for operator in layers}
    similar = [folded[match] for match in close_matches(name.rpartition("::")[2].lower(), folded, most=3, cutoff=0.7)]
    if similar:
        alternatives = "near are " + ", ".join(f"{operator} of layer '{layers[operator]}'" for operator in similar)
    else:
        alternatives = f"it has {', '.join(sorted(layers)) or 'none'}"
    return f"the model has no operator of this name; {alternatives}"
