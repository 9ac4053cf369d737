"""ResNet-50 of JAX and flax with a C kernel for one of its activations, compiled and compared with JAX.

python examples/models/resnet50.py [--small] [--device cpu] [--write FOLDER]

The last activation of the network is a custom call, `mylib.hard_swish`: JAX lowers it by name, and `kernels=` gives the
C function that computes it. Weights are random, of a fixed seed.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

import pydispatch as pd

HERE = Path(__file__).parent
KERNELS = {"mylib.hard_swish": pd.CFunction(HERE / "hard_swish.c", "hard_swish", "in0", "scale", "out", "count")}
"""Custom call of JAX -> C function."""


def custom_hard_swish(x: Any) -> Any:
    """The activation by its name alone."""
    call = jax.ffi.ffi_call("mylib.hard_swish", jax.ShapeDtypeStruct(x.shape, x.dtype))
    return call(x, scale=np.float32(1))


class Bottleneck(nn.Module):
    """Three convolutions with a shortcut. features: of the inner ones, a quarter of the result's."""

    features: int
    stride: int

    @nn.compact
    def __call__(self, x: Any) -> Any:
        """Compute the block for images `x`, [batch, height, width, channels]."""
        y = nn.relu(nn.BatchNorm(use_running_average=True)(nn.Conv(self.features, (1, 1), use_bias=False)(x)))
        y = nn.Conv(self.features, (3, 3), (self.stride, self.stride), use_bias=False)(y)
        y = nn.relu(nn.BatchNorm(use_running_average=True)(y))
        y = nn.BatchNorm(use_running_average=True)(nn.Conv(4 * self.features, (1, 1), use_bias=False)(y))
        if x.shape != y.shape:  # the shortcut needs the size and the features of the result
            x = nn.Conv(4 * self.features, (1, 1), (self.stride, self.stride), use_bias=False)(x)
            x = nn.BatchNorm(use_running_average=True)(x)
        return nn.relu(x + y)


class ResNet(nn.Module):
    """A residual network. blocks: how many in each stage. features: of the first stage, doubled in each later one."""

    blocks: Sequence[int]
    features: int
    classes: int
    activation: Callable[[Any], Any]

    @nn.compact
    def __call__(self, x: Any) -> Any:
        """Compute the scores of the classes for images `x`, [batch, height, width, 3]."""
        x = nn.Conv(self.features, (7, 7), (2, 2), [(3, 3), (3, 3)], use_bias=False)(x)
        x = nn.relu(nn.BatchNorm(use_running_average=True)(x))
        x = nn.max_pool(x, (3, 3), (2, 2), [(1, 1), (1, 1)])
        for stage, count in enumerate(self.blocks):
            for block in range(count):
                stride = 2 if stage > 0 and block == 0 else 1  # all stages but the first halve the size
                x = Bottleneck(self.features << stage, stride)(x)
        return nn.Dense(self.classes)(self.activation(jnp.mean(x, (1, 2))))


def main() -> None:
    """Compile and run the network, and compare its result with JAX's."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="two stages of one block, 8 features, 32 x 32 pixels")
    parser.add_argument("--device", default="cpu", help="cpu, vulkan, ...")
    parser.add_argument("--write", type=Path, help="write the program, an input and its result into a folder")
    arguments = parser.parse_args()
    blocks, features, classes, pixels = ([1, 1], 8, 10, 32) if arguments.small else ([3, 4, 6, 3], 64, 1000, 224)
    model = ResNet(blocks, features, classes, custom_hard_swish)
    reference = ResNet(blocks, features, classes, jax.nn.hard_swish)
    image = np.random.default_rng(0).random((1, pixels, pixels, 3), np.float32)
    variables = reference.init(jax.random.PRNGKey(0), image)
    began = time.perf_counter()
    artifact = pd.from_jax(model.apply, image, params=variables, kernels=KERNELS)
    print(f"compiled in {time.perf_counter() - began:.1f} s")
    program = pd.device(arguments.device).load(artifact)
    result = np.asarray(program.main(image))
    wanted = np.asarray(jax.jit(reference.apply)(variables, image))
    error = np.abs(result - wanted).max() / np.abs(wanted).max()
    print(f"largest difference to JAX: {error:.1e} of the largest result")
    assert error < 1e-4
    if arguments.write:
        arguments.write.mkdir(parents=True, exist_ok=True)
        lowered = jax.jit(lambda x: model.apply(variables, x)).lower(image)
        (arguments.write / "resnet.mlir").write_text(lowered.as_text())
        np.savez(arguments.write / "resnet.npz", image=image, result=wanted)


if __name__ == "__main__":
    main()
