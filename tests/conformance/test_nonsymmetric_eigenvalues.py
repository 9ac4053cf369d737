"""Eigenvalues of general matrices on every backend, by their residual."""

from __future__ import annotations

import numpy as np
from backends import Backend

EIG = """func.func @main(%x: tensor<2x4x4xf32>)
    -> (tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4x4xcomplex<f32>>, tensor<2x4x4xcomplex<f32>>, tensor<2xi32>) {
  %0:5 = stablehlo.custom_call @lapack_sgeev_ffi(%x)
    {mhlo.backend_config = {compute_left = 78 : ui8, compute_right = 86 : ui8}} : (tensor<2x4x4xf32>)
    -> (tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4x4xcomplex<f32>>, tensor<2x4x4xcomplex<f32>>, tensor<2xi32>)
  return %0#0, %0#1, %0#2, %0#3, %0#4
    : tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4x4xcomplex<f32>>, tensor<2x4x4xcomplex<f32>>, tensor<2xi32>
}"""


def test_eigenvalues_and_vectors(backend: Backend) -> None:
    x = np.random.default_rng(9).standard_normal((2, 4, 4)).astype(np.float32)
    real, imag, _, vectors, _ = map(np.asarray, backend.load(EIG).main(x))
    values = real + 1j * imag
    np.testing.assert_allclose(x @ vectors, vectors * values[:, None], atol=2e-5)
    np.testing.assert_allclose(np.sort_complex(values), np.sort_complex(np.linalg.eigvals(x)), atol=2e-5)
