"""Makes computed.npz: models whose sizes, axes and positions are inputs, and what onnxruntime computes for several.

python tests/frontends/onnx/make_computed.py
"""

# ruff: noqa: E501 (graphs are one text each)

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
from onnx import checker, parser

HERE = Path(__file__).resolve().parent
rng = np.random.default_rng(11)


def f32(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def i64(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


def one(number: int) -> np.ndarray:
    return np.array(number, np.int64)


X, IMAGE = f32(3, 4, 5), f32(1, 2, 5, 4)

# name: (opset, graph, inputs of each call)
CASES: dict[str, tuple] = {
    "reshape": (19, "(float[3, 4, 5] x, int64[3] s) => (float[a, b, c] y) { y = Reshape(x, s) }",
                [{"x": X, "s": s} for s in (i64(5, 4, 3), i64(-1, 2, 3), i64(0, -1, 1), i64(1, 0, 15))]),
    "expand": (13, "(float[3, 1] x, int64[3] s) => (float[a, b, c] y) { y = Expand(x, s) }",
               [{"x": f32(3, 1), "s": s} for s in (i64(2, 3, 4), i64(1, 1, 1), i64(0, 1, 5), i64(2, 1, 0))]),
    "tile": (13, "(float[2, 3] x, int64[2] r) => (float[a, b] y) { y = Tile(x, r) }",
             [{"x": f32(2, 3), "r": r} for r in (i64(2, 3), i64(1, 1), i64(0, 2))]),
    "pad": (18, "(float[3, 4, 5] x, int64[6] p, float v) => (float[a, b, c] y) { y = Pad(x, p, v) }",
            [{"x": X, "p": p, "v": np.float32(2.5)} for p in (i64(0, 1, 2, 3, 0, 1), i64(-1, 2, -2, 0, -3, 1), i64(0, 0, 0, 0, 0, 0))]),
    "pad_axes": (18, "(float[3, 4, 5] x, int64[4] p, int64[2] a) => (float[a, b, c] y) { y = Pad(x, p,, a) }",
                 [{"x": X, "p": p, "a": a} for p, a in ((i64(1, 2, 3, 0), i64(0, 2)), (i64(-1, 1, 2, -2), i64(-1, 1)))]),
    "pad_reflect": (18, "(float[3, 4, 5] x, int64[6] p) => (float[a, b, c] y) { y = Pad<mode=\"reflect\">(x, p) }",
                    [{"x": X, "p": p} for p in (i64(2, 1, 0, 1, 3, 4), i64(0, 0, 0, 0, 0, 0))]),
    "slice": (13, "(float[3, 4, 5] x, int64[2] s, int64[2] e, int64[2] a, int64[2] t) => (float[a, b, c] y) { y = Slice(x, s, e, a, t) }",
              [{"x": X, "s": s, "e": e, "a": a, "t": t} for s, e, a, t in (
                  (i64(0, 1), i64(3, 4), i64(0, 1), i64(1, 2)), (i64(-1, 4), i64(-100, 0), i64(2, 0), i64(-2, 1)),
                  (i64(1, 0), i64(2**63 - 1, 1), i64(-1, -3), i64(3, 2**62)), (i64(4, 2), i64(-(2**63), 0), i64(2, 1), i64(-1, -3)))]),
    "slice_axes": (13, "(float[3, 4, 5] x, int64[1] s, int64[1] e, int64[1] a) => (float[a, b, c] y) { y = Slice(x, s, e, a) }",
                   [{"x": X, "s": s, "e": e, "a": a} for s, e, a in ((i64(1), i64(3), i64(0)), (i64(-2), i64(9), i64(2)), (i64(3), i64(1), i64(1)))]),
    "squeeze": (13, "(float[n, m, k, l] x, int64[2] a) => (float[a, b] y) { y = Squeeze(x, a) }",
                [{"x": f32(1, 3, 1, 4), "a": i64(0, 2)}, {"x": f32(2, 1, 3, 1), "a": i64(-1, 1)}]),
    "unsqueeze": (13, "(float[2, 3] x, int64[2] a) => (float[a, b, c, d] y) { y = Unsqueeze(x, a) }",
                  [{"x": f32(2, 3), "a": a} for a in (i64(0, 1), i64(3, 1), i64(-1, -4))]),
    "reduce_sum": (13, "(float[3, 4, 5] x, int64[2] a) => (float[a] y) { y = ReduceSum<keepdims=0>(x, a) }",
                   [{"x": X, "a": a} for a in (i64(0, 1), i64(2, 0), i64(-1, -2))]),
    "reduce_kinds": (18, """(float[3, 4, 5] x, int64[1] a) => (float[a, b, c] y, float[a, b] u, float[a, b, c] v, float[a, b] w) {
                        y = ReduceMax(x, a) u = ReduceMean<keepdims=0>(x, a) v = ReduceLogSumExp(x, a) w = ReduceL2<keepdims=0>(x, a) }""",
                     [{"x": X, "a": a} for a in (i64(0), i64(1), i64(-1))]),
    "reduce_all": (18, "(float[3, 4, 5] x, int64[0] a) => (float[a, b, c] y, float[d, e, f] z) { y = ReduceMin(x, a) z = ReduceMin<noop_with_empty_axes=1>(x, a) }",
                   [{"x": X, "a": i64()}]),
    "cumsum": (14, "(float[3, 4, 5] x, int64 a) => (float[3, 4, 5] y, float[3, 4, 5] z) { y = CumSum(x, a) z = CumSum<exclusive=1, reverse=1>(x, a) }",
               [{"x": X, "a": one(a)} for a in (0, 1, -1)]),
    "split": (18, "(float[2, 7] x, int64[3] s) => (float[a, b] y, float[c, d] z, float[e, f] w) { y, z, w = Split<axis=1>(x, s) }",
              [{"x": f32(2, 7), "s": s} for s in (i64(1, 2, 4), i64(5, 1, 1), i64(0, 7, 0))]),
    "range": (13, "(int64 f, int64 l, int64 d) => (int64[n] y) { y = Range(f, l, d) }",
              [{"f": one(f), "l": one(n), "d": one(d)} for f, n, d in ((0, 10, 3), (5, -4, -2), (3, 3, 1), (4, 0, 1))]),
    "range_of_floats": (13, "(float f, float l, float d) => (float[n] y) { y = Range(f, l, d) }",
                        [{"f": np.float32(f), "l": np.float32(n), "d": np.float32(d)} for f, n, d in ((0, 1, 0.25), (2, -1, -0.5), (1, 0, 1))]),
    "constant_of_shape": (13, "(int64[2] s) => (float[a, b] y) { y = ConstantOfShape(s) }", [{"s": s} for s in (i64(2, 3), i64(0, 4), i64(1, 1))]),
    "top_k": (11, "(float[3, 6] x, int64[1] k) => (float[a, b] y, int64[a, b] i) { y, i = TopK(x, k) }",
              [{"x": f32(3, 6), "k": k} for k in (i64(2), i64(6), i64(0))]),
    "one_hot": (11, "(int64[2, 2] i, int64 d, float[2] v) => (float[a, b, c] y) { y = OneHot(i, d, v) }",
                [{"i": np.array([[0, 2], [-1, 1]]), "d": one(d), "v": f32(2)} for d in (3, 5, 1)]),
    "trilu": (14, "(float[4, 5] x, int64 k) => (float[4, 5] y, float[4, 5] z) { y = Trilu(x, k) z = Trilu<upper=0>(x, k) }",
              [{"x": f32(4, 5), "k": one(k)} for k in (0, 2, -3, 9)]),
    "resize_scales": (18, "(float[1, 2, 5, 4] x, float[2] s) => (float[a, b, c, d] y, float[a, b, c, d] z) { y = Resize<mode=\"linear\", axes=[2, 3]>(x,, s) z = Resize<axes=[2, 3], nearest_mode=\"floor\", coordinate_transformation_mode=\"asymmetric\">(x,, s) }",
                      [{"x": IMAGE, "s": np.array(s, np.float32)} for s in ((2, 2), (0.5, 0.75), (1, 1), (1.5, 3.25))]),
    "resize_cubic": (18, "(float[1, 2, 5, 4] x, int64[4] s) => (float[a, b, c, d] y, float[a, b, c, d] z) { y = Resize<mode=\"cubic\", coordinate_transformation_mode=\"align_corners\">(x,,, s) z = Resize<mode=\"cubic\", exclude_outside=1>(x,,, s) }",
                     [{"x": IMAGE, "s": s} for s in (i64(1, 2, 9, 9), i64(1, 2, 3, 4), i64(1, 2, 5, 2))]),
    "resize_antialias": (18, "(float[1, 2, 5, 4] x, float[2] s) => (float[a, b, c, d] y) { y = Resize<mode=\"linear\", antialias=1, axes=[2, 3]>(x,, s) }",
                         [{"x": IMAGE, "s": np.array(s, np.float32)} for s in ((0.6, 0.5), (2, 0.25), (0.4, 1))]),
    "resize_region": (18, "(float[1, 2, 5, 4] x, float[8] r, int64[4] s) => (float[a, b, c, d] y) { y = Resize<mode=\"linear\", coordinate_transformation_mode=\"tf_crop_and_resize\", extrapolation_value=9.0>(x, r,, s) }",
                      [{"x": IMAGE, "r": np.array(r, np.float32), "s": s} for r, s in (
                          ((0, 0, 0.2, 0.3, 1, 1, 0.8, 0.9), i64(1, 2, 4, 6)), ((0, 0, -0.25, 0.5, 1, 1, 0.75, 1.5), i64(1, 2, 3, 3)))]),
    "center_crop_pad": (18, "(float[3, 4, 5] x, int64[2] s) => (float[a, b, c] y) { y = CenterCropPad<axes=[1, 2]>(x, s) }",
                        [{"x": X, "s": s} for s in (i64(2, 8), i64(7, 3), i64(4, 5))]),
    "col2im": (18, "(float[1, 12, w] x, int64[2] i, int64[2] b) => (float[a, b, c, d] y) { y = Col2Im<pads=[1, 0, 1, 0]>(x, i, b) }",
               [{"x": f32(1, 12, 18), "i": i64(5, 5), "b": i64(2, 3)}, {"x": f32(1, 12, 18), "i": i64(3, 6), "b": i64(3, 1)}]),
    "affine_grid": (20, "(float[2, 2, 3] t, int64[4] s) => (float[a, b, c, d] y, float[a, b, c, d] z) { y = AffineGrid(t, s) z = AffineGrid<align_corners=1>(t, s) }",
                    [{"t": f32(2, 2, 3), "s": s} for s in (i64(2, 3, 4, 5), i64(2, 1, 2, 3))]),
    "dft": (20, "(float[2, 4, 6, 1] x, int64 n, int64 a) => (float[a, b, c, d] y) { y = DFT<onesided=1>(x, n, a) }",
            [{"x": f32(2, 4, 6, 1), "n": one(n), "a": one(a)} for n, a in ((4, 1), (6, 2), (3, -3), (9, -2))]),
    "stft": (17, "(float[1, 24, 1] x, int64 h, int64 n) => (float[a, b, c, d] y) { y = STFT(x, h,, n) }",
             [{"x": f32(1, 24, 1), "h": one(h), "n": one(n)} for h, n in ((4, 8), (5, 6), (8, 16))]),
    "mel_weights": (17, "(int64 c, int64 n, int64 r, float l, float h) => (float[a, b] y) { y = MelWeightMatrix(c, n, r, l, h) }",
                    [{"c": one(c), "n": one(n), "r": one(r), "l": np.float32(lo), "h": np.float32(hi)} for c, n, r, lo, hi in ((8, 64, 8000, 0, 4000), (5, 32, 16000, 125, 7000))]),
}  # fmt: skip


def main() -> None:
    """Write all cases."""
    found: dict[str, np.ndarray] = {}
    for name, (opset, text, calls) in CASES.items():
        model = parser.parse_model(f'<ir_version: 9, opset_import: ["": {opset}]> main {text}')
        checker.check_model(model)
        session = onnxruntime.InferenceSession(model.SerializeToString())
        found[f"{name}/model"] = np.frombuffer(model.SerializeToString(), np.uint8)
        for number, inputs in enumerate(calls):
            arrays = {key: np.asarray(value) for key, value in inputs.items()}
            found |= {f"{name}/{number}/in/{key}": value for key, value in arrays.items()}
            results = zip(session.get_outputs(), session.run(None, arrays), strict=True)
            found |= {f"{name}/{number}/out/{output.name}": value for output, value in results}
    np.savez_compressed(HERE / "computed.npz", **found)
    print(f"{len(CASES)} models, {(HERE / 'computed.npz').stat().st_size} bytes")


if __name__ == "__main__":
    main()
