"""Conversions of the attention operators of com.microsoft, with their projections, masks and key-value caches."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pydispatch.frontends.onnx.call import NodeCall
from pydispatch.frontends.onnx.operators import products
from pydispatch.frontends.onnx.operators.attention import rotate_any, static_size
from pydispatch.frontends.onnx.operators.microsoft.quantized import integer_product, scaled
from pydispatch.frontends.onnx.registry import MICROSOFT
from pydispatch.graph.dtypes import BOOL, I64
from pydispatch.graph.sizes import Expr, Size
from pydispatch.graph.values import Tensor
from pydispatch.operations import attention, elementwise, reductions, shapes, slicing
from pydispatch.operations.formulas import formula


def _packed_attention(
    call: NodeCall, x: Tensor, weights: Tensor, bias: Tensor | None, mask: Tensor | None, past: Tensor | None,
    added: Tensor | None, project: Callable[[], Tensor] | None = None,
) -> Sequence[Tensor]:  # fmt: skip
    """Return attention over x, and the updated cache of keys and values [2, batch, heads, length, size].

    Args:
        call: The node.
        x: [batch, length, inputs].
        weights: [inputs, size of queries + size of keys + size of values], all of which one product with x computes.
        bias: Bias of that product; None for none.
        mask: Lengths of the sequences [batch], or 0 for keys that are left out, [batch, keys] or [batch, queries,
            keys]; None for all keys.
        past: The cache before the call; None if it is empty.
        added: Bias of the scores, such as relative positions; None for none.
        project: Computes the product of x and `weights`; None for a plain matrix product.
    """
    b = call.b
    heads = call.integer("num_heads")
    call.ignore("past_present_share_buffer", "rotary_embedding_dim")
    if call.flag("do_rotary"):
        raise call.fail("do_rotary is not supported")

    projected = project() if project is not None else products.matmul(call, x, weights)
    if bias is not None:
        projected = elementwise.binary(b, "add", projected, bias)
    parts = slicing.split(b, projected, axis=2, sizes=_sizes_of_projections(call, weights))
    query, key, value = (attention.split_heads(call.b, t, heads) for t in parts)

    # The cache is extended by the new keys and values, and attention runs over all of them.
    if past is not None:
        old = [
            shapes.reshape(b, slicing.slice_axis(b, past, axis=0, start=n, limit=n + 1), past.shape[1:]) for n in (0, 1)
        ]
        key, value = slicing.concat(b, [old[0], key], axis=2), slicing.concat(b, [old[1], value], axis=2)
    masks = _masks(call, query, key, mask, added)
    scale = call.real("scale", 0.0)  # 0 stands for the usual scale, which is None for `attend`
    filler = call.real("mask_filter_value", -10000.0)  # score of a key that a mask leaves out
    result, _ = attention.attend(b, query, key, value, masks, scale=scale or None, filler=filler)
    return [attention.join_heads(call.b, result), slicing.stack(b, [key, value], axis=0)]


def _sizes_of_projections(call: NodeCall, weights: Tensor) -> list[int]:
    """Return the number of columns of `weights` that compute the queries, the keys and the values."""
    total = weights.shape[1]
    if isinstance(total, Expr):
        raise call.fail(f"the size of its weights {weights} must be known")
    sizes = call.maybe_integers("qkv_hidden_sizes") or [total // 3] * 3
    if sum(sizes) != total or len(sizes) != 3:
        raise call.fail(
            f"its qkv_hidden_sizes are {sizes}; expected three, whose sum is the number of columns of {weights}"
        )
    return sizes


def _masks(call: NodeCall, query: Tensor, key: Tensor, mask: Tensor | None, added: Tensor | None) -> list[Tensor]:
    """Return the masks and biases of the scores, which broadcast to [batch, heads, queries, keys].

    `mask` is the length of each sequence [batch], or is 0 for keys that are left out, [batch, keys] or [batch, queries,
    keys]. `added` is a bias of the scores. The attribute `unidirectional` adds a causal mask. `query` and `key` are
    [batch, heads, length, size].
    """
    b = call.b
    masks = [] if added is None else [added]
    if mask is not None:
        if mask.rank == 1:
            if mask.shape[0] != query.shape[0]:
                raise call.fail(
                    f"its mask is {mask}; expected a length for each of {query.shape[0]}, or a mask of 2 or 3 axes"
                )
            masks.append(attention.length_mask(call.b, mask, key.shape[2]))
        elif mask.rank in (2, 3):
            middle = [1, 1] if mask.rank == 2 else [1, mask.shape[1]]
            broadcast = shapes.reshape(b, mask, [mask.shape[0], *middle, mask.shape[-1]])
            masks.append(elementwise.convert(b, broadcast, BOOL))
        else:
            raise call.fail(f"its mask is {mask}; expected 1 to 3 axes")
    if call.flag("unidirectional"):
        # The queries are the last positions of the keys.
        masks.append(attention.causal_mask(call.b, query.shape[2], key.shape[2], key.shape[2] - query.shape[2]))
    return masks


@MICROSOFT.converts("Attention")
def _attention(
    call: NodeCall, x: Tensor, weights: Tensor, bias: Tensor | None = None, mask: Tensor | None = None,
    past: Tensor | None = None, added: Tensor | None = None,
) -> Sequence[Tensor]:  # fmt: skip
    """Lower com.microsoft Attention; the operands are those of `_packed_attention`."""
    return _packed_attention(call, x, weights, bias, mask, past, added)


@MICROSOFT.converts("QAttention")
def _qattention(
    call: NodeCall,
    x: Tensor,
    weights: Tensor,
    bias: Tensor,
    x_scale: Tensor,
    w_scale: Tensor,
    mask: Tensor | None = None,
    x_zero: Tensor | None = None,
    w_zero: Tensor | None = None,
    past: Tensor | None = None,
) -> Sequence[Tensor]:
    """Lower QAttention: attention over quantized x, whose projection is a product with quantized weights.

    Return the attention, and the updated cache of keys and values [2, batch, heads, length, size].

    Args:
        call: The node.
        x: Integers [batch, length, inputs].
        weights: Integers [inputs, size of queries + size of keys + size of values].
        bias: Bias of the product, in floats.
        x_scale: Scale of x.
        w_scale: Scale of the weights.
        mask: Lengths of the sequences [batch], or 0 for keys that are left out; None for all keys.
        x_zero: Zero point of x; None for 0.
        w_zero: Zero point of the weights; None for 0.
        past: The cache before the call; None if it is empty.
    """

    def project() -> Tensor:
        """Return the projections of x to queries, keys and values: the integer product, times both scales."""
        # `_packed_attention` adds the bias.
        return scaled(call, integer_product(call, x, weights, x_zero, w_zero), [x_scale, w_scale], bias=None)

    return _packed_attention(call, x, weights, bias, mask, past, added=None, project=project)


@MICROSOFT.converts("MultiHeadAttention")
def _multi_head_attention(
    call: NodeCall, query: Tensor, key: Tensor | None = None, value: Tensor | None = None, bias: Tensor | None = None,
    mask: Tensor | None = None, score_bias: Tensor | None = None, past_key: Tensor | None = None,
    past_value: Tensor | None = None,
) -> Sequence[Tensor]:  # fmt: skip
    """Return attention of projected queries, keys and values [batch, length, heads * size], and the keys and values.

    The results are attention in the form of `query`, and the keys and values [batch, heads, length, size] with those of
    the past prepended.

    Args:
        call: The node.
        query: Projected queries, [batch, length, heads * size].
        key: Projected keys in the form of `query`, or [batch, heads, length, size], as of an encoder.
        value: Projected values in the form of `key`; their size may differ.
        bias: Biases of queries, keys and values, one after the other; None for none.
        mask: Lengths of the sequences [batch], or 0 for keys that are left out, [batch, keys] or [batch, queries,
            keys]; None for all keys.
        score_bias: Bias of the scores; None for none.
        past_key: Keys of earlier calls, [batch, heads, length, size].
        past_value: Values of earlier calls, in that form.
    """
    b = call.b
    heads = call.integer("num_heads")
    if key is None or value is None or query.rank != 3:
        raise call.fail("queries, keys and values that are packed into one tensor are not supported")
    if bias is not None:
        # Queries and keys are of one size; the rest of the bias is that of the values.
        size = query.shape[2]
        biases = slicing.split(b, bias, axis=0, sizes=[size, size, bias.shape[0] - size - size])
        query = elementwise.binary(b, "add", query, biases[0])
        if key.rank == 3:  # keys and values of 4 axes were computed before, with their biases
            key, value = (elementwise.binary(b, "add", t, o) for t, o in ((key, biases[1]), (value, biases[2])))
    queries = attention.split_heads(call.b, query, heads)
    keys, values = (t if t.rank == 4 else attention.split_heads(call.b, t, heads) for t in (key, value))
    if past_key is not None and past_value is not None:
        keys, values = slicing.concat(b, [past_key, keys], axis=2), slicing.concat(b, [past_value, values], axis=2)
    masks = _masks(call, queries, keys, mask, score_bias)
    scale = call.real("scale", 0.0)  # 0 stands for the usual scale, which is None for `attend`
    filler = call.real("mask_filter_value", -10000.0)  # score of a key that a mask leaves out
    result, _ = attention.attend(b, queries, keys, values, masks, scale=scale or None, filler=filler)
    return [attention.join_heads(call.b, result), keys, values]


def _rotated_after_past(
    call: NodeCall, new_states: Sequence[tuple[Tensor, int]], past_length: Size, cosines: Tensor, sines: Tensor
) -> list[Tensor]:
    """Apply the rotary embedding to new queries and keys; the keys of the past have it already.

    Args:
        call: The node.
        new_states: Pairs (queries or keys [batch, length, heads * size], number of heads).
        past_length: Position of the first of them.
        cosines: Table of cosines, with a column for each pair of elements that is rotated.
        sines: Table of sines, in that form.
    """
    b, length = call.b, new_states[0][0].shape[1]
    position_ids = shapes.iota(b, [1, length], axis=1, dtype=I64)
    position_ids = formula(b, lambda i, n: i + n, position_ids, reductions.size_as(b, past_length, I64))
    interleaved = call.flag("rotary_interleaved")
    width = 2 * static_size(call, cosines.shape[1])
    return [rotate_any(call, x, cosines, sines, position_ids, n, interleaved, width) for x, n in new_states]


@MICROSOFT.converts("GroupQueryAttention")
def _group_query_attention(
    call: NodeCall, query: Tensor, key: Tensor | None, value: Tensor | None, past_key: Tensor | None,
    past_value: Tensor | None, lengths: Tensor, total: Tensor, cosines: Tensor | None = None,
    sines: Tensor | None = None,
) -> Sequence[Tensor]:  # fmt: skip
    """Return causal attention whose query heads share key-value heads, and the keys and values with those of the past
    prepended.

    Args:
        call: The node. Its attribute local_window_size limits each query to the last keys up to its own position; -1
            for no limit.
        query: Queries [batch, length, heads * size]. If key and value are omitted, the last axis has the queries, keys
            and values of all heads, in this order.
        key: Keys of this call, [batch, length, kv_heads * size].
        value: Values of this call, in the form of `key`.
        past_key: Keys of earlier calls, [batch, kv_heads, length, size]; None for none.
        past_value: Values of earlier calls, in that form.
        lengths: For each sequence the number of valid keys minus 1, past keys included; later keys are masked out.
        total: Number of keys; not used, because the shapes of the past and the key also state it.
        cosines: Table of cosines of the rotary embedding, [positions, size / 2], for do_rotary=1. Positions start at
            the length of the past.
        sines: Table of sines, in that form.
    """
    b = call.b
    heads, kv_heads = call.integer("num_heads"), call.integer("kv_num_heads")
    scale, softcap = call.real("scale", 0.0), call.real("softcap", 0.0)  # 0: the usual scale, and no limit of scores
    window = call.integer("local_window_size", -1)
    if call.integer("smooth_softmax", 0) == 1:
        raise call.fail("softmax with 1 added to its sums (smooth_softmax=1) is not supported")
    if key is None or value is None:
        query, key, value = _split_packed(call, query, heads, kv_heads)
    past_length: Size = past_key.shape[2] if past_key is not None else 0

    if call.flag("do_rotary"):
        if cosines is None or sines is None:
            raise call.fail("its tables of cosines and sines are missing")
        query, key = _rotated_after_past(call, ((query, heads), (key, kv_heads)), past_length, cosines, sines)
    call.ignore("rotary_interleaved")  # without effect unless `do_rotary` is set

    # Attention over the keys and values of the past and of this call.
    queries, keys, values = (
        attention.split_heads(call.b, t, n) for t, n in ((query, heads), (key, kv_heads), (value, kv_heads))
    )
    if past_key is not None and past_value is not None:
        keys, values = slicing.concat(b, [past_key, keys], axis=2), slicing.concat(b, [past_value, values], axis=2)
    counts = formula(b, lambda n: n + 1, lengths)  # numbers of valid keys
    causal = attention.causal_mask(b, queries.shape[2], keys.shape[2], past_length, window)
    masks = [causal, attention.length_mask(b, counts, keys.shape[2])]
    result, _ = attention.attend(b, queries, keys, values, masks, scale=scale or None, softcap=softcap)
    return [attention.join_heads(call.b, result), keys, values]


def _split_packed(call: NodeCall, packed: Tensor, heads: int, kv_heads: int) -> list[Tensor]:
    """Split the last axis of a tensor [batch, length, ...] into the queries, keys and values of all heads."""
    width = packed.shape[2]
    if isinstance(width, Expr) or width % (heads + 2 * kv_heads):
        raise call.fail(f"{packed} cannot be divided among {heads} + 2 * {kv_heads} heads")
    head_size = width // (heads + 2 * kv_heads)
    sizes = [heads * head_size, kv_heads * head_size, kv_heads * head_size]
    return slicing.split(call.b, packed, axis=2, sizes=sizes)


@MICROSOFT.converts("RotaryEmbedding")
def _rotary_embedding(call: NodeCall, x: Tensor, positions: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    """Rotate x by the angles in the tables of cosines and sines.

    `positions` is the position of the first element, or one position for each element of [batch, length]. The
    attribute is_packed_batching has no effect.
    """
    b = call.b
    interleaved = call.flag("interleaved")
    width, heads = (call.integer(name, 0) for name in ("rotary_embedding_dim", "num_heads"))
    call.ignore("is_packed_batching")
    if call.real("scale", 1.0) != 1.0:
        raise call.fail("its scale is not supported")
    if positions.rank == 1:  # of the first element: [n] becomes [[n, n + 1, ...]]
        length = x.shape[1] if x.rank == 3 else x.shape[2]
        positions = formula(
            b, lambda i, n: i + n, shapes.iota(b, [1, length], axis=1, dtype=positions.dtype), positions
        )
    if not heads and x.rank == 3:
        # A node without num_heads rotates all elements of a head, in pairs: the tables have a column for each pair.
        head_size = 2 * static_size(call, cosines.shape[1])
        heads = static_size(call, x.shape[2]) // head_size
    return rotate_any(call, x, cosines, sines, positions, heads, interleaved, width)
