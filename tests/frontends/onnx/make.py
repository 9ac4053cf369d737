"""Makes cases.npz: small models, inputs, and what onnxruntime computes. Needs onnx and onnxruntime.

python tests/frontends/onnx/make.py [NAME ...]
"""

# ruff: noqa: E501 (graphs are one text each)

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper, parser

HERE = Path(__file__).resolve().parent
rng = np.random.default_rng(7)


def f32(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def i64(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


# name: (opset, graph, weights, inputs)
CASES: dict[str, tuple] = {
    "mlp_any_batch": (
        17, "(float[n, 8] x) => (float[n, 4] y) { a = Gemm(x, w, b) r = Relu(a) c = MatMul(r, v) y = Softmax(c) }",
        {"w": f32(8, 16), "b": f32(16), "v": f32(16, 4)}, {"x": f32(3, 8)}),
    "gemm_transposed": (
        13, "(float[4, 3] x) => (float[3, 5] y) { y = Gemm<transA=1, transB=1, alpha=0.5, beta=2.0>(x, w, b) }",
        {"w": f32(5, 4), "b": f32(3, 1)}, {"x": f32(4, 3)}),
    "cnn": (
        17, """(float[n, 3, 9, 9] x) => (float[n, 6] y) {
            a = Conv<pads=[1,1,1,1], strides=[2,2]>(x, w, b) c = BatchNormalization(a, s, o, m, v) d = Relu(c)
            e = MaxPool<kernel_shape=[2,2], strides=[2,2]>(d) g = GlobalAveragePool(e) y = Flatten(g) }""",
        {"w": f32(6, 3, 3, 3), "b": f32(6), "s": f32(6), "o": f32(6), "m": f32(6), "v": f32(6) ** 2}, {"x": f32(2, 3, 9, 9)}),
    "depthwise": (
        13, "(float[1, 4, 7, 5] x) => (float[a, b, c, d] y) { y = Conv<group=4, strides=[2,1], auto_pad=\"SAME_LOWER\">(x, w) }",
        {"w": f32(4, 1, 3, 2)}, {"x": f32(1, 4, 7, 5)}),
    "conv_1d_groups": (
        13, "(float[2, 4, 11] x) => (float[a, b, c] y) { y = Conv<group=2, pads=[2,1], strides=[3]>(x, w) }",
        {"w": f32(6, 2, 4)}, {"x": f32(2, 4, 11)}),
    "conv_transpose": (
        13, "(float[1, 4, 5, 4] x) => (float[a, b, c, d] y) { y = ConvTranspose<group=2, strides=[2,3], pads=[1,0,1,2], output_padding=[1,0]>(x, w) }",
        {"w": f32(4, 3, 3, 3)}, {"x": f32(1, 4, 5, 4)}),
    "pools": (
        17, """(float[1, 2, 7, 8] x) => (float[a, b, c, d] y, float[e, f, g, h] z, int64[e, f, g, h] i) {
            y = AveragePool<kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1], ceil_mode=1>(x)
            z, i = MaxPool<kernel_shape=[3,2], strides=[2,1], dilations=[1,2], pads=[1,0,1,1]>(x) }""",
        {}, {"x": f32(1, 2, 7, 8)}),
    "power": (
        15, "(int64[4] x, float[4] y, int32[4] z) => (int64[4] a, int32[4] b) { a = Pow(x, y) b = Pow(z, y) }",
        {}, {"x": i64(11, -11, 2, 3), "y": np.array([7, 7, 2, 0.5], np.float32), "z": np.array([11, 11, -7, 9], np.int32)}),
    "softmax_before_13": (
        11, "(float[2, 3, 4] x) => (float[2, 3, 4] y, float[2, 3, 4] z) { y = Softmax(x) z = LogSoftmax<axis=2>(x) }",
        {}, {"x": f32(2, 3, 4)}),
    "norms": (
        17, """(float[2, 4, 6] x) => (float[2, 4, 6] y, float[2, 4, 6] z, float[2, 4, 6] u) {
            y = LayerNormalization<axis=-1>(x, s, b) z = InstanceNormalization(x, t, o) u = LpNormalization<axis=1>(x) }""",
        {"s": f32(6), "b": f32(6), "t": f32(4), "o": f32(4)}, {"x": f32(2, 4, 6)}),
    "lstm_both_ways": (
        14, "(float[5, 3, 4] x) => (float[a, b, c, d] y, float[e, f, g] h, float[e, f, g] k) { y, h, k = LSTM<hidden_size=2, direction=\"bidirectional\">(x, w, r, b) }",
        {"w": f32(2, 8, 4), "r": f32(2, 8, 2), "b": f32(2, 16)}, {"x": f32(5, 3, 4)}),
    "gru_lengths": (
        14, "(float[4, 2, 3] x, int32[2] n) => (float[a, b, c, d] y, float[e, f, g] h) { y, h = GRU<hidden_size=5, linear_before_reset=1, direction=\"reverse\">(x, w, r, b, n) }",
        {"w": f32(1, 15, 3), "r": f32(1, 15, 5), "b": f32(1, 30)}, {"x": f32(4, 2, 3), "n": np.array([4, 2], np.int32)}),
    "rnn_any_length": (
        14, "(float[t, 2, 3] x) => (float[t, 1, 2, 4] y, float[1, 2, 4] h) { y, h = RNN<hidden_size=4>(x, w, r) }",
        {"w": f32(1, 4, 3), "r": f32(1, 4, 4)}, {"x": f32(6, 2, 3)}),
    "shape_arithmetic": (
        13, """(float[n, m, 4] x) => (float[a, b] y) { s = Shape(x) z = Constant<value_ints=[0]>() n0 = Gather(s, z)
            k = Constant<value_ints=[-1]>() t = Concat<axis=0>(n0, k) y = Reshape(x, t) }""",
        {}, {"x": f32(2, 3, 4)}),
    "reshape_by_operand": (13, "(float[2, 6] x, int64[3] s) => (float[a, b, c] y) { y = Reshape(x, s) }", {},
                           {"x": f32(2, 6), "s": i64(3, -1, 2)}),
    "slices": (
        13, """(float[6, n] x) => (float[a, b] y, float[c, d] z) { y = Slice(x, s, e, a, t) z = Slice(x, s2, e2) }""",
        {"s": i64(-1, 1), "e": i64(-100, 1 << 40), "a": i64(0, 1), "t": i64(-2, 2), "s2": i64(1), "e2": i64(-1)}, {"x": f32(6, 7)}),
    "slice_by_operands": (13, "(float[6] x, int64[1] s, int64[1] e) => (float[a] y) { y = Slice(x, s, e) }", {},
                          {"x": f32(6), "s": i64(-4), "e": i64(5)}),
    "pads": (
        18, """(float[3, 5] x) => (float[a, b] y, float[c, d] z, float[e, f] u) { y = Pad<mode="reflect">(x, p)
            z = Pad<mode="edge">(x, p) u = Pad(x, q, v) }""",
        {"p": i64(1, 2, 2, 3), "q": i64(-1, 1, 0, 2), "v": np.float32(7)}, {"x": f32(3, 5)}),
    "expand_tile_where": (
        13, """(float[3, 1] x, bool[3, 4] c) => (float[3, 4] y, float[6, 2] z) { e = Expand(x, s) y = Where(c, e, h) z = Tile(x, r) }""",
        {"s": i64(1, 4), "h": f32(4), "r": i64(2, 2)}, {"x": f32(3, 1), "c": rng.random((3, 4)) > 0.5}),
    "gathers": (
        13, """(float[4, 3, 2] x, int64[2, 2] i) => (float[a, b, c, d] y, float[e, f] z, float[g, h, k] u) {
            y = Gather<axis=1>(x, i) z = GatherND(x, j) u = GatherElements<axis=2>(x, l) }""",
        {"j": np.array([[0, 1], [3, -1]], np.int64), "l": np.zeros((4, 3, 1), np.int64)},
        {"x": f32(4, 3, 2), "i": np.array([[0, -1], [2, 1]], np.int64)}),
    "scatters": (
        18, """(float[5, 3] x, int64[2, 3] i, float[2, 3] u) => (float[5, 3] y, float[5, 3] z) {
            y = ScatterElements<reduction="add">(x, i, u) z = ScatterND(x, j, u) }""",
        {"j": np.array([[4], [1]], np.int64)}, {"x": f32(5, 3), "i": np.array([[0, 1, 4], [0, 3, -1]], np.int64), "u": f32(2, 3)}),
    "top_k": (11, "(float[3, 6] x) => (float[3, 2] y, int64[3, 2] i) { y, i = TopK<largest=0>(x, k) }", {"k": i64(2)}, {"x": f32(3, 6)}),
    "non_zero": (13, "(float[3, 4] x) => (int64[2, n] y) { y = NonZero(x) }", {}, {"x": (f32(3, 4) > 0.3).astype(np.float32)}),
    "one_hot": (11, "(int64[4] x) => (float[4, 5] y) { y = OneHot(x, d, v) }", {"d": np.int64(5), "v": np.array([-1, 2], np.float32)},
                {"x": i64(0, 4, -1, 2)}),
    "reductions": (
        18, """(float[2, 3, 4] x) => (float[a, b, c] y, float[d, e] z, float u, int64[f, g] v, float[h, i] w) {
            y = ReduceSum(x, s) z = ReduceMean<keepdims=0>(x, t) u = ReduceMax<keepdims=0>(x)
            v = ArgMin<axis=1, keepdims=0>(x) w = ReduceLogSumExp<keepdims=0>(x, t) }""",
        {"s": i64(1), "t": i64(-1)}, {"x": f32(2, 3, 4)}),
    "cumulative": (14, "(float[3, 5] x) => (float[3, 5] y) { y = CumSum<exclusive=1, reverse=1>(x, a) }", {"a": np.int64(1)}, {"x": f32(3, 5)}),
    "einsum": (12, "(float[2, 3, 4] x, float[2, 5, 4] y) => (float[2, 5, 3] z) { z = Einsum<equation=\"bij,bkj->bki\">(x, y) }", {},
               {"x": f32(2, 3, 4), "y": f32(2, 5, 4)}),
    "resizes": (
        13, """(float[1, 2, 4, 5] x) => (float[a, b, c, d] y, float[e, f, g, h] z, float[i, j, k, l] u) {
            y = Resize<mode="linear">(x, , s) z = Resize<mode="cubic", coordinate_transformation_mode="align_corners">(x, , , t)
            u = Resize<mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor">(x, , s) }""",
        {"s": np.array([1, 1, 2, 1.5], np.float32), "t": i64(1, 2, 7, 3)}, {"x": f32(1, 2, 4, 5)}),
    "resize_any_size": (
        13, "(float[1, 2, h, w] x) => (float[1, 2, a, b] y) { y = Resize<mode=\"linear\">(x, , s) }",
        {"s": np.array([1, 1, 2, 2], np.float32)}, {"x": f32(1, 2, 3, 4)}),
    "quantized": (
        19, """(float[2, 3, 5, 5] x) => (float[a, b, c, d] y) {
            q = QuantizeLinear(x, sx, zx) d0 = DequantizeLinear(q, sx, zx) dw = DequantizeLinear<axis=0>(w, sw, zw) y = Conv(d0, dw) }""",
        {"sx": np.float32(0.05), "zx": np.uint8(120), "w": rng.integers(-9, 9, (4, 3, 3, 3)).astype(np.int8),
         "sw": np.array([0.1, 0.2, 0.3, 0.4], np.float32), "zw": np.zeros(4, np.int8)}, {"x": f32(2, 3, 5, 5)}),
    "quantized_dynamically": (
        13, """(float[3, 8] x) => (float[3, 4] y) { q, s, z = DynamicQuantizeLinear(x) i = MatMulInteger(q, w, z)
            f = Cast<to=1>(i) y = Mul(f, s) }""",
        {"w": rng.integers(-99, 99, (8, 4)).astype(np.int8)}, {"x": f32(3, 8)}),
    "qlinear": (
        13, "(uint8[3, 8] x) => (uint8[3, 4] y) { y = QLinearMatMul(x, a, b, w, c, d, e, f) }",
        {"a": np.float32(0.02), "b": np.uint8(128), "w": rng.integers(0, 255, (8, 4)).astype(np.uint8), "c": np.float32(0.01),
         "d": np.uint8(110), "e": np.float32(0.05), "f": np.uint8(100)}, {"x": rng.integers(0, 255, (3, 8)).astype(np.uint8)}),
    "casts": (
        13, """(float[6] x) => (int32[6] a, bool[6] b, float16[6] c, double[6] d, uint8[6] e) { a = Cast<to=6>(x) b = Cast<to=9>(x)
            c = Cast<to=10>(x) d = Cast<to=11>(x) n = Abs(x) e = Cast<to=2>(n) }""",
        {}, {"x": np.array([0, 1.5, -2.7, 3, 100.2, -0.4], np.float32)}),
    "integers": (
        18, """(int32[5] x, int32[5] y) => (int32[5] a, int32[5] b, int32[5] c, int32[5] d) {
            a = Mod(x, y) b = Div(x, y) c = BitwiseXor(x, y) d = Max(x, y) }""",
        {}, {"x": np.array([7, -7, 7, -7, 6], np.int32), "y": np.array([3, 3, -3, -3, 2], np.int32)}),
    "activations": (
        20, """(float[7] x) => (float[7] a, float[7] b, float[7] c, float[7] d, float[7] e, float[7] f) { a = Gelu(x) b = Mish(x)
            c = HardSwish(x) d = Elu<alpha=0.5>(x) e = Softplus(x) f = Selu(x) }""",
        {}, {"x": np.array([-100, -3, -0.5, 0, 0.5, 3, 100], np.float32)}),
    "choice": (
        16, """(float[4] x, bool c) => (float[4] y) { y = If (c) <then_branch = g1 () => (float[4] t) { t = Neg(x) },
            else_branch = g2 () => (float[4] e) { e = Exp(x) }> }""",
        {}, {"x": f32(4), "c": np.array(True)}),
    "loop_with_rows": (
        16, """(float[2] x, int64 m) => (float[2] y, float[n, 2] z) { t = Constant<value_int=1>() c = Cast<to=9>(t)
            y, z = Loop (m, c, x) <body = g (int64 i, bool k, float[2] a) => (bool ko, float[2] b, float[2] r) {
                ko = Identity(k) b = Add(a, w) r = Mul(b, w) }> }""",
        {"w": f32(2)}, {"x": f32(2), "m": np.array(5, np.int64)}),
    "loop_until": (
        16, """(float x) => (float y) { t = Constant<value_int=1>() c = Cast<to=9>(t)
            y = Loop ( , c, x) <body = g (int64 i, bool k, float a) => (bool ko, float b) { b = Add(a, a) ko = Less(b, w) }> }""",
        {"w": np.float32(100)}, {"x": np.array(1.5, np.float32)}),
    "scan": (
        16, """(float[3] s, float[5, 3] x) => (float[3] y, float[5, 3] z) { y, z = Scan <num_scan_inputs=1,
            body = g (float[3] a, float[3] b) => (float[3] c, float[3] d) { c = Add(a, b) d = Mul(c, c) }> (s, x) }""",
        {}, {"s": f32(3), "x": f32(5, 3)}),
    "grid_sample": (
        16, "(float[1, 2, 4, 4] x, float[1, 3, 3, 2] g) => (float[1, 2, 3, 3] y) { y = GridSample<padding_mode=\"border\">(x, g) }", {},
        {"x": f32(1, 2, 4, 4), "g": f32(1, 3, 3, 2)}),
    "space_to_depth": (
        13, "(float[1, 8, 2, 4] x) => (float[1, 2, 4, 8] y, float[1, 8, 2, 4] z) { y = DepthToSpace<blocksize=2, mode=\"CRD\">(x) z = SpaceToDepth<blocksize=2>(y) }",
        {}, {"x": f32(1, 8, 2, 4)}),
    "scan_of_batches": (
        8, """(float[2, 3] s, float[2, 4, 3] x) => (float[2, 3] y, float[2, 4, 3] z) { y, z = Scan <num_scan_inputs=1, directions=[1],
            body = g (float[3] a, float[3] b) => (float[3] c, float[3] d) { c = Add(a, b) d = Mul(c, b) }> ( , s, x) }""",
        {}, {"s": np.arange(6, dtype=np.float32).reshape(2, 3), "x": np.arange(24, dtype=np.float32).reshape(2, 4, 3) / 8}),
    "grams": (
        9, """(int64[2, 7] x) => (float[2, 5] y, float[2, 5] z) {
            y = TfIdfVectorizer<mode="TF", min_gram_length=1, max_gram_length=2, max_skip_count=2, ngram_counts=[0, 2], ngram_indexes=[0, 3, 1, 4, 2], pool_int64s=[2, 5, 2, 5, 5, 5, 7, 2]>(x)
            z = TfIdfVectorizer<mode="TFIDF", min_gram_length=2, max_gram_length=2, max_skip_count=1, ngram_counts=[0, 2], ngram_indexes=[0, 3, 1, 4, 2], weights=[1.0, 2.0, 0.5, 3.0, 4.0], pool_int64s=[2, 5, 2, 5, 5, 5, 7, 2]>(x) }""",
        {}, {"x": np.array([[2, 5, 5, 7, 2, 2, 5], [7, 2, 7, 5, 2, 2, 2]])}),
    "masked_attention": (
        24, """(float[2, 2, 3, 8] q, float[2, 2, 4, 8] k, bool[3, 4] m, float[3, 4] a, int64[2] n) =>
            (float[2, 2, 3, 8] x, float[2, 2, 3, 8] y, float[2, 2, 3, 8] z) {
            x = Attention(q, k, k, m) y = Attention(q, k, k, a) z = Attention<is_causal=1>(q, k, k, , , , n) }""",
        {}, {"q": f32(2, 2, 3, 8), "k": f32(2, 2, 4, 8), "m": np.tri(3, 4, -1, bool),
             "a": np.where(np.tri(3, 4, -1, bool), 0, -np.inf).astype(np.float32), "n": i64(2, 4)}),
    "pools_any_size": (
        22, """(float[1, 2, w] x, float[n, 1, h, 9] z) => (float[1, 2, a] y0, float[1, 2, a] y1, float[1, 2, a] y2,
            float[n, 1, b, d] z0, int64[n, 1, b, d] z1, float[n, 1, e, g] z2, int64[n, 1, e, g] z3, float[n, 1, i, j] z4) {
            y0 = MaxPool<kernel_shape=[2], strides=[3], ceil_mode=1>(x)
            y1 = AveragePool<kernel_shape=[2], strides=[3], ceil_mode=1>(x)
            y2 = LpPool<kernel_shape=[2], strides=[3], auto_pad="SAME_UPPER">(x)
            z0, z1 = MaxPool<kernel_shape=[2, 2], strides=[2, 2]>(z)
            z2, z3 = MaxPool<kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1], storage_order=1, ceil_mode=1>(z)
            z4 = AveragePool<kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_LOWER", count_include_pad=1>(z) }""",
        {}, {"x": f32(1, 2, 9), "z": f32(2, 1, 8, 9)}),
    "reductions_of_no_axis": (
        18, """(float[2, 3] x) => (float[2, 3] a, float[2, 3] b, float[2, 3] c, float[2, 3] d, float[2, 3] e) {
            a = ReduceL1<noop_with_empty_axes=1>(x) b = ReduceL2<noop_with_empty_axes=1>(x)
            n = Abs(x) c = ReduceLogSum<noop_with_empty_axes=1>(n) d = ReduceSumSquare<noop_with_empty_axes=1, keepdims=0>(x, s)
            e = ReduceMean<noop_with_empty_axes=1>(x) }""",
        {"s": np.zeros(0, np.int64)}, {"x": f32(2, 3)}),
    "slices_from_far_below": (
        13, """(float[4, w] x) => (float[a, w] y, float[4, b] z, float[c, d] u) {
            y = Slice(x, s, e, q, t) z = Slice(x, s, e, r, t) u = Slice(x, s2, e2, qr, t2) }""",
        {"s": i64(-(1 << 62)), "e": i64(-(1 << 62)), "q": i64(0), "r": i64(1), "t": i64(-1), "s2": i64(-9, 2), "e2": i64(-7, -9),
         "qr": i64(0, 1), "t2": i64(-2, -1)}, {"x": f32(4, 5)}),
    "loop_without_runs": (
        16, """(float[3] x) => (float[3] y, float[n, 3] z, int64[n, 1] k) { t = Constant<value_int=1>() c = Cast<to=9>(t)
            y, z, k = Loop (m, c, x) <body = g (int64 i, bool k, float[3] a) => (bool ko, float[3] b, float[3] r, int64[1] s) {
                ko = Identity(k) b = Add(a, a) r = Mul(b, b) s = Reshape(i, one) }> }""",
        {"m": np.array(0, np.int64), "one": i64(1)}, {"x": f32(3)}),
    "grid_sample_cubic": (
        20, """(float[1, 2, 5, 4] x, float[1, 3, 4, 2] g) => (float[1, 2, 3, 4] y, float[1, 2, 3, 4] z) {
            y = GridSample<mode="cubic", padding_mode="border">(x, g)
            z = GridSample<mode="cubic", padding_mode="border", align_corners=1>(x, g) }""", {},
        {"x": f32(1, 2, 5, 4), "g": 2 * f32(1, 3, 4, 2)}),
    "loops_without_limit": (
        16, """(float[n] x, bool t, bool f) => (float[n] a, float[ka, n] p, float[n] b, float[kb, n] q, float[n] c, int64[kc, 1] r) {
            a, p = Loop (m, t, x) <body = g1 (int64 i1, bool k1, float[n] u1) => (bool g1, float[n] v1, float[n] w1) {
                v1 = Add(u1, u1) s1 = ReduceSum<keepdims=0>(v1) g1 = Less(s1, limit) w1 = Mul(u1, half) }>
            b, q = Loop ( , t, a) <body = g2 (int64 i2, bool k2, float[n] u2) => (bool g2, float[n] v2, float[n] w2) {
                v2 = Mul(u2, half) s2 = ReduceSum<keepdims=0>(v2) g2 = Less(one, s2) w2 = Add(u2, half) }>
            c, r = Loop (m, f, x) <body = g3 (int64 i3, bool k3, float[n] u3) => (bool g3, float[n] v3, int64[1] w3) {
                v3 = Add(u3, u3) g3 = Identity(k3) w3 = Reshape(i3, length) }> }""",
        {"m": np.array(2**63 - 1), "limit": np.float32(1000), "half": np.float32(0.5), "one": np.float32(1), "length": i64(1)},
        {"x": np.array([1, 2], np.float32), "t": np.array(True), "f": np.array(False)}),
    "capped_attention": (
        23, """(float[1, 2, 3, 8] q, float[1, 2, 4, 8] k, bool[3, 4] m, float[3, 4] a) =>
            (float[1, 2, 3, 8] x, float[1, 2, 3, 4] s, float[1, 2, 3, 8] y, float[1, 2, 3, 4] t) {
            x, , , s = Attention<softcap=2.0, is_causal=1, qk_matmul_output_mode=1>(q, k, k, m)
            y, , , t = Attention<softcap=2.0, qk_matmul_output_mode=2>(q, k, k, a) }""",
        {}, {"q": 4 * f32(1, 2, 3, 8), "k": f32(1, 2, 4, 8), "m": np.tri(3, 4, 0, bool),
             "a": np.array([[0.5, -np.inf, 1, -3], [0, 0, 0, -np.inf], [2, -2, 4, 0]], np.float32)}),
}  # fmt: skip

# The same for models with operators of com.microsoft.
MICROSOFT: dict[str, tuple] = {
    "ms_attention": (
        "(float[2, 3, 8] x, int32[2] n) => (float[2, 3, 8] y) { y = com.microsoft.Attention<num_heads=2, unidirectional=1>(x, w, b, n) }",
        {"w": f32(8, 24), "b": f32(24)}, {"x": f32(2, 3, 8), "n": np.array([3, 2], np.int32)}),
    "ms_multi_head_attention": (
        """(float[2, 3, 8] q, float[2, 4, 8] k, float[2, 4, 8] v, int32[2, 4] m) => (float[2, 3, 8] y) {
            y = com.microsoft.MultiHeadAttention<num_heads=2>(q, k, v, b, m) }""",
        {"b": f32(24)}, {"q": f32(2, 3, 8), "k": f32(2, 4, 8), "v": f32(2, 4, 8), "m": np.array([[1, 1, 1, 0], [1, 0, 1, 1]], np.int32)}),
    "ms_group_query_attention": (
        """(float[1, 2, 64] q, float[1, 2, 32] k, float[1, 2, 32] v, float[1, 2, 3, 16] pk, float[1, 2, 3, 16] pv) =>
            (float[1, 2, 64] y, float[1, 2, 5, 16] nk, float[1, 2, 5, 16] nv) {
            y, nk, nv = com.microsoft.GroupQueryAttention<num_heads=4, kv_num_heads=2, do_rotary=1>(q, k, v, pk, pv, n, t, c, s) }""",
        {"n": np.array([4], np.int32), "t": np.array(5, np.int32), "c": np.cos(f32(16, 8)), "s": np.sin(f32(16, 8))},
        {"q": f32(1, 2, 64), "k": f32(1, 2, 32), "v": f32(1, 2, 32), "pk": f32(1, 2, 3, 16), "pv": f32(1, 2, 3, 16)}),
    "ms_group_query_attention_capped": (
        """(float[1, 3, 32] q, float[1, 3, 16] k, float[1, 3, 16] v, float[1, 1, 0, 16] pk, float[1, 1, 0, 16] pv) =>
            (float[1, 3, 32] y, float[1, 1, 3, 16] nk, float[1, 1, 3, 16] nv) {
            y, nk, nv = com.microsoft.GroupQueryAttention<num_heads=2, kv_num_heads=1, softcap=2.0>(q, k, v, pk, pv, n, t) }""",
        {"n": np.array([2], np.int32), "t": np.array(3, np.int32)},
        {"q": 5 * f32(1, 3, 32), "k": f32(1, 3, 16), "v": f32(1, 3, 16), "pk": f32(1, 1, 0, 16), "pv": f32(1, 1, 0, 16)}),
    "ms_norms": (
        """(float[2, 3, 8] x, float[2, 3, 8] k) => (float[2, 3, 8] y, float[2, 3, 8] z, float[2, 3, 8] t) {
            y, , , t = com.microsoft.SkipLayerNormalization<epsilon=1e-5>(x, k, g, b, c)
            z = com.microsoft.SkipSimplifiedLayerNormalization<epsilon=1e-5>(x, k, g) }""",
        {"g": f32(8), "b": f32(8), "c": f32(8)}, {"x": f32(2, 3, 8), "k": f32(2, 3, 8)}),
    "ms_embedding": (
        """(int32[2, 3] i, int32[2, 3] s, int32[2, 3] m) => (float[2, 3, 8] y, int32[2] n) {
            y, n = com.microsoft.EmbedLayerNormalization(i, s, w, p, t, g, b, m) }""",
        {"w": f32(10, 8), "p": f32(5, 8), "t": f32(2, 8), "g": f32(8), "b": f32(8)},
        {"i": np.array([[1, 2, 9], [0, 4, 4]], np.int32), "s": np.array([[0, 0, 1], [1, 1, 0]], np.int32),
         "m": np.array([[1, 1, 1], [1, 1, 0]], np.int32)}),
    "ms_products": (
        """(float[2, 4, 3] x, float[2, 4, 5] y) => (float[2, 3, 5] z, float[2, 3, 5] g, float[2, 3, 5] f) {
            z = com.microsoft.FusedMatMul<transA=1, alpha=0.5>(x, y) g = com.microsoft.BiasGelu(z, b) f = com.microsoft.FastGelu(z, b) }""",
        {"b": f32(5)}, {"x": f32(2, 4, 3), "y": f32(2, 4, 5)}),
    "ms_matmul_4_bits": (
        "(float[2, 40] x) => (float[2, 6] y) { y = com.microsoft.MatMulNBits<K=40, N=6, bits=4, block_size=16>(x, w, s, z) }",
        {"w": rng.integers(0, 255, (6, 3, 8)).astype(np.uint8), "s": f32(6 * 3), "z": rng.integers(0, 255, 6 * 2).astype(np.uint8)},
        {"x": f32(2, 40)}),
    "ms_quantized_products": (
        """(float[2, 8] x) => (float[2, 4] y) { y = com.microsoft.DynamicQuantizeMatMul(x, w, s, z, b) }""",
        {"w": rng.integers(0, 255, (8, 4)).astype(np.uint8), "s": np.array([0.02], np.float32), "z": np.array([120], np.uint8), "b": f32(4)},
        {"x": f32(2, 8)}),
    "ms_qlinear": (
        """(uint8[2, 3, 4] x, uint8[2, 3, 4] y) => (uint8[2, 3, 4] a, uint8[2, 3, 4] m) {
            a = com.microsoft.QLinearAdd(x, s, z, y, t, u, v, w) m = com.microsoft.QLinearMul(x, s, z, y, t, u, v, w) }""",
        {"s": np.float32(0.02), "z": np.uint8(128), "t": np.float32(0.03), "u": np.uint8(100), "v": np.float32(0.05), "w": np.uint8(120)},
        {"x": rng.integers(0, 255, (2, 3, 4)).astype(np.uint8), "y": rng.integers(0, 255, (2, 3, 4)).astype(np.uint8)}),
    "ms_qlinear_functions": (
        """(uint8[n, 4, 6] x, uint8[n, 4, 6] y, bool[4, 6] c) => (uint8[n, 4, 6] a, uint8[n, 4, 6] b, uint8[n, 4, 6] w) {
            a = com.microsoft.QLinearSoftmax<opset=17, axis=1>(x, s, z, p, o) b = com.microsoft.QLinearSoftmax<opset=11, axis=1>(x, s, , p, o)
            w = com.microsoft.QLinearWhere(c, x, s, z, y, t, u, v, z) }""",
        {"s": np.float32(0.02), "z": np.uint8(128), "t": np.float32(0.03), "u": np.uint8(100), "v": np.float32(0.04),
         "p": np.float32(2**-8), "o": np.uint8(0)},
        {"x": rng.integers(0, 255, (2, 4, 6)).astype(np.uint8), "y": rng.integers(0, 255, (2, 4, 6)).astype(np.uint8),
         "c": rng.integers(0, 2, (4, 6)).astype(bool)}),
    "ms_qlinear_windows": (
        """(int8[n, 3, 7, 6] x, int8[n, 7, 6, 3] y) => (int8[a, b, c, d] p, int8[e, f, g, h] q, int8[i, j, k, l] m, int8[o, r, v, w] f) {
            p = com.microsoft.QLinearAveragePool<kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1]>(x, s, z, t, u)
            q = com.microsoft.QLinearAveragePool<kernel_shape=[3, 2], pads=[1, 0, 1, 1], count_include_pad=1, channels_last=1>(y, s, z, t)
            m = com.microsoft.QLinearGlobalAveragePool<channels_last=1>(y, s, z, t, u)
            f = com.microsoft.QLinearConv<pads=[1, 1, 1, 1], strides=[2, 1], channels_last=1>(y, s, z, k0, ks, kz, cs, u, kb) }""",
        {"s": np.float32(0.03), "z": np.int8(-7), "t": np.float32(0.0217), "u": np.int8(5), "k0": rng.integers(-99, 99, (4, 3, 3, 3)).astype(np.int8),
         "ks": np.array([0.01, 0.02, 0.03, 0.015], np.float32), "kz": np.zeros(4, np.int8), "cs": np.float32(0.3), "kb": rng.integers(-999, 999, 4).astype(np.int32)},
        {"x": rng.integers(-128, 127, (2, 3, 7, 6)).astype(np.int8), "y": rng.integers(-128, 127, (2, 7, 6, 3)).astype(np.int8)}),
    "ms_qgemm": (
        """(uint8[n, 8] x, uint8[8, n] y) => (uint8[n, 4] a, float[n, 4] b) {
            a = com.microsoft.QGemm<transB=1, alpha=0.5>(x, s, z, w, ws, wz, c, t, u)
            b = com.microsoft.QGemm<transA=1, transB=1>(y, s, z, w, ws, wz) }""",
        {"s": np.float32(0.02), "z": np.uint8(128), "w": rng.integers(-99, 99, (4, 8)).astype(np.int8),
         "ws": np.array([0.01, 0.02, 0.03, 0.015], np.float32), "wz": np.array([0, 3, -5, 1], np.int8),
         "c": rng.integers(-999, 999, 4).astype(np.int32), "t": np.float32(0.05), "u": np.uint8(100)},
        {"x": rng.integers(0, 255, (3, 8)).astype(np.uint8), "y": rng.integers(0, 255, (8, 3)).astype(np.uint8)}),
    "ms_quantized_lstm": (
        """(float[t, n, 4] x) => (float[a, b, c, d] y, float[e, f, g] h, float[i, j, k] s, float[l, m, o, p] z) {
            y, h, s = com.microsoft.DynamicQuantizeLSTM<hidden_size=3, direction="bidirectional">(x, w, r, b0, , , , , ws, wz, rs, rz)
            z = com.microsoft.DynamicQuantizeLSTM<hidden_size=3, direction="reverse">(x, v, q, , , , , , vs, vz, qs, qz) }""",
        {"w": rng.integers(-99, 99, (2, 4, 12)).astype(np.int8), "r": rng.integers(-99, 99, (2, 3, 12)).astype(np.int8), "b0": f32(2, 24),
         "ws": np.array([0.01, 0.02], np.float32), "wz": np.array([0, 0], np.int8), "rs": np.array([0.02, 0.015], np.float32), "rz": np.array([0, 0], np.int8),
         "v": rng.integers(0, 255, (1, 4, 12)).astype(np.uint8), "q": rng.integers(0, 255, (1, 3, 12)).astype(np.uint8),
         "vs": np.full((1, 12), 0.01, np.float32) * np.arange(1, 13, dtype=np.float32) / 6, "vz": np.full((1, 12), 120, np.uint8),
         "qs": np.full((1, 12), 0.01, np.float32), "qz": np.full((1, 12), 130, np.uint8)},
        {"x": f32(5, 3, 4)}),
}  # fmt: skip

FUNCTION = """<ir_version: 9, opset_import: ["": 18, "mine": 1]>
main (float[n, 3] x) => (float[n, 3] y) { a = mine.scaled<factor=2.5>(x) y = mine.scaled(a) }
<opset_import: ["": 18], domain: "mine">
scaled <factor: float = 0.5>(u) => (v) { f = Constant<value_float: float = @factor>() w = Mul(u, f) v = Tanh(w) }
"""

OMITTED = """<ir_version: 9, opset_import: ["": 18, "mine": 1]>
main (float[4] x, bool c, float lo, float hi) => (float[4] y, float[4] z, float[4] w) {
    y = mine.limited(x, c, lo, hi) z = mine.limited(x, c, lo) w = mine.limited(x, c, , hi) }
<opset_import: ["": 18], domain: "mine">
limited (u, c, l, h) => (v) {
    v = If(c) <then_branch = t () => (float[4] a) { a = Clip(u, l, h) }, else_branch = e () => (float[4] b) { n = Neg(u) b = Clip(n, l, h) }> }
"""


def main() -> None:
    """Write the cases that the command names beside those that there are; without a name write all of them."""
    found: dict[str, np.ndarray] = {}
    for name, (opset, text, weights, inputs) in CASES.items():
        model = parser.parse_model(f'<ir_version: 9, opset_import: ["": {opset}]> main {text}')
        model.graph.initializer.extend(numpy_helper.from_array(np.asarray(v), k) for k, v in weights.items())
        keep(found, name, model, inputs)
    for name, (text, weights, inputs) in MICROSOFT.items():
        model = parser.parse_model(f'<ir_version: 9, opset_import: ["": 17, "com.microsoft": 1]> main {text}')
        model.graph.initializer.extend(numpy_helper.from_array(np.asarray(v), k) for k, v in weights.items())
        keep(found, name, model, inputs)
    keep(found, "function", parser.parse_model(FUNCTION), {"x": f32(2, 3)})
    bounds = {"lo": np.array(-2, np.float32), "hi": np.array(2, np.float32)}
    keep(found, "function_without_operands", parser.parse_model(OMITTED),
         {"x": np.array([-3, -1, 1, 4], np.float32), "c": np.array(True), **bounds})  # fmt: skip
    if names := sys.argv[1:]:
        with np.load(HERE / "cases.npz") as file:
            found = {**file, **{key: array for key, array in found.items() if key.partition("/")[0] in names}}
    np.savez_compressed(HERE / "cases.npz", **found)
    print(f"{len({key.partition('/')[0] for key in found})} models, {(HERE / 'cases.npz').stat().st_size} bytes")


def keep(found: dict[str, np.ndarray], name: str, model: onnx.ModelProto, inputs: dict[str, np.ndarray]) -> None:
    onnx.checker.check_model(model)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # each thread of DynamicQuantizeLSTM quantizes its sequences by their own range
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    found[f"{name}/model"] = np.frombuffer(model.SerializeToString(), np.uint8)
    for key, value in inputs.items():
        found[f"{name}/in/{key}"] = value
    for output, value in zip(session.get_outputs(), session.run(None, inputs), strict=True):
        found[f"{name}/out/{output.name}"] = value


if __name__ == "__main__":
    main()
