"""Explanations for `inspect --dispatches`: why operations do not share a dispatch, and what would have to change.

In these texts, `{}` is the name of an operation, unless a description states another meaning.
"""

from __future__ import annotations

# -- of every group


def cycle(location: str) -> str:
    """Return the reason that merging would close a cycle through the operation at `location`."""
    return f"a value would leave the dispatch for {location} and come back into it; that would have to join, too"


def too_many_operations(most: int) -> str:
    """Explain that a dispatch would exceed its maximum, `most`, of operations."""
    return f"the dispatch would hold more than {most} operations; the limit keeps compile times short"


def too_many_scalars(most: int) -> str:
    """Explain that a dispatch would exceed its maximum, `most`, of scalars and dynamic sizes."""
    return f"the dispatch would take more than {most} scalars and sizes; fewer sizes would have to be dynamic"


def too_many_tensors(most: int) -> str:
    """Explain that a dispatch would exceed its maximum, `most`, of bindings."""
    return f"the dispatch would read and write more than {most} tensors; fewer would fit"


TOO_FAR = "too many operations lie between them; the limit keeps compile times of long programs short"
STATED = "the program states this dispatch; formation joins only operations that it finds outside of dispatches"
CONTROL = "{} lies between them; both would have to be on one side of this control flow"
"""{}: the loop or branch of the host, with its location."""
HOST = "the host runs {} between them; one of the dispatches would have to compute it"
"""{}: the operation of the host, with its location."""
UNTRIED = "formation has not tried to join them"
ELEMENT = (
    "all of the dispatch reads one element, and cannot begin before that is known; "
    "each workgroup would have to compute it"
)
"""Reason for a dispatch that reads one element by `tensor.extract`: the dispatch that computes the tensor of the
element must be complete before."""
DESTINATION = "the destination of {} must be in memory before the dispatch begins; another dispatch has to write it"
"""{}: an update, such as `tensor.insert_slice`, whose destination an operation of the same group computes."""
WRITTEN = (
    "{} writes into its destination, nothing follows it in its dispatch; what reads it would have to read its source"
)
"""Reason for an update, such as `tensor.insert_slice`, whose result an operation of the same group reads.

An update ends its dispatch. To share the dispatch, the reader would have to read the tensor that the update inserts,
not its result. {}: the update."""
OVERWRITTEN = "{} overwrites a tensor in place; what else reads that tensor has to be in a dispatch before it"
ORDERED = (
    "{} computes its elements in order, nothing follows it in its dispatch; what follows would have to be in its body"
)
"""Reason for an operation such as a recurrence (`OrderedOp`), whose elements in a row depend on each other, if another
operation of the same group reads its result. {}: the operation."""

# -- of rows

NO_ROW = "{} of a reduced tensor would reduce again for each element; it would have to be elementwise"
"""{}: an operation that reads the result of a reduction; neither elementwise, nor a nest of loops or an update."""
RESHAPED_ROWS = "a reduced tensor is seen through another shape; the reshape would have to come before the reduction"
WINDOW_OF_ROWS = "a reduced tensor is read through a window; each row would have to read its own value"
"""Reason for an operation that reads a reduction's result at an index that is neither a loop index nor a constant, such
as i + j."""
REDUCED_AGAIN = "a reduction of reduced values would reduce again for each element; one reduction would have to do both"
ONE_ROW = "one value for all rows: every workgroup would reduce everything; there would have to be few elements"
"""Reason for an operation with rows that all read the result of a reduction to one value. One workgroup can do all the
work if there are few elements."""
INNER = "the reduced dimensions are not the inner ones of what uses the result; a transpose would have to make them so"
"""Reason for an operation that reads a reduction's result, but whose outer loops are not over the rows of that result.
A workgroup, which computes whole rows, would need results of other workgroups."""


def different_rows(spaces: str) -> str:
    """Explain that reductions have results of different sizes. spaces: these sizes, in words."""
    return f"reductions into different spaces: {spaces}; they would have to keep the same dimensions"


def other_rows(rows: str, space: str) -> str:
    """Explain that a result of the dispatch does not have one row for each element that a reduction computes.

    rows: shape of the reduction's result, such as "4x?". space: shape of the other result, not beginning with it.
    """
    return f"rows of {rows} are not the outer dimensions of {space}; a transpose would have to make them so"


def different_sizes(sizes: str) -> str:
    """Explain that the results of one dispatch have several shapes. sizes: these shapes, as text.

    A dispatch may return tensors of one shape and, beside them, results of reductions whose shape is that of the outer
    dimensions: one element for each row.
    """
    return f"results of different sizes: {sizes}; only one size, and rows of it, may leave a dispatch"


# -- of elements that would be computed several times

REREAD = "{} may read an element several times, and it is expensive to compute; it would have to be cheap"
"""{}: an operation several of whose elements may read the same element of an operand (`Rule.rereads`)."""
WINDOWS = "windows read an element several times, and it is expensive to compute; it would have to be cheap"
BROADCAST = (
    "a broadcast would compute expensive elements several times; its new dimensions would have to be the inner ones"
)
"""Reason for an operation with loops that an expensive operand does not depend on, unless these are the inner loops,
outside of which each element is computed once."""

# -- of contractions

UNKNOWN_CONTRACTION = (
    "a contraction of this form is a dispatch of its own; it would have to be a product or a convolution"
)
TWO_CONTRACTIONS = "a dispatch holds one contraction; another has loops and tiles of its own"
OTHER_PLACES = (
    "{} does not compute its elements from those of the contraction's result in the same places; it would have to"
)
SECOND_RESULT = "{} is a result besides that of the contraction; nothing else would have to read it"
"""{}: an operation that does not depend on the contraction, and that operations outside of the group read, too."""
REDUCED_FOR_TILES = "a reduction that a contraction reads would be computed for each tile; it has to be stored"
EXPENSIVE_FOR_TILES = (
    "elements that a contraction reads are computed for each tile, and these are expensive; they would have to be cheap"
)
TRANSPOSED_FOR_TILES = "a transposed image that a convolution reads would be copied for each tile of its channels"
TRANSPOSED_AFTER_BYTES = "sums of byte products are scaled as vectors of filters; a transposition would prevent that"
"""Reason for a copy that transposes the i32 sums of a byte product. Kernels rescale these sums in vectors, whose lanes
are adjacent filters."""
NOT_FOR_TILES = "{} that a contraction reads would be computed for each tile; only copies and cheap elements may be"
"""{}: an operation that computes a factor of the contraction: no `linalg.generic`, copy or inexpensive elementwise
operation."""
REORDERED_FOR_TILES = "columns that a contraction reads would be brought into their order {} times; once is enough"
"""{}: how many times."""
REDUCED_BESIDE = (
    "a reduction that is read with a contraction's result would be computed for each tile; it has to be stored"
)
"""Reason for a reduction beside the contraction, that is, one that neither depends on it nor computes its factors. An
operation after the contraction reads both results."""
EXPENSIVE_BESIDE = (
    "elements that are read with a contraction's result are computed for each of its elements, and are expensive; "
    "they would have to be cheap, or of the columns"
)
"""Reason for an expensive operation beside the contraction. It could join if it had as many elements as the result of
the contraction, or if operations after the contraction read one of its elements for each column."""
