"""A program whose kernel calls a function of an index, which tests write in the language of a device."""

from __future__ import annotations

from typing import Any

import numpy as np

_PROGRAM = """
module {
  func.func @f(%x: tensor<64xTYPE>) -> tensor<64xTYPE> {
    %r = flow.dispatch @executable::@halves(%x) : (tensor<64xTYPE>) -> tensor<64xTYPE>
    return %r : tensor<64xTYPE>
  }
  stream.executable private @executable {
    stream.executable.export public @halves workgroups() -> (index, index, index) {
      %one = arith.constant 1 : index
      stream.return %one, %one, %one : index, index, index
    }
    builtin.module {
      func.func private @halved(index) -> index
      func.func @halves(%b0: !stream.binding, %b1: !stream.binding) {
        %zero = arith.constant 0 : index
        %one = arith.constant 1 : index
        %n = arith.constant 64 : index
        %in = stream.binding.subspan %b0[%zero] : !stream.binding -> memref<64xTYPE>
        %out = stream.binding.subspan %b1[%zero] : !stream.binding -> memref<64xTYPE>
        scf.parallel (%i) = (%zero) to (%n) step (%one) {
          %x = memref.load %in[%i] : memref<64xTYPE>
          %index = arith.index_cast %x : TYPE to index
          %half = func.call @halved(%index) : (index) -> index
          %y = arith.index_cast %half : index to TYPE
          memref.store %y, %out[%i] : memref<64xTYPE>
          scf.reduce
        }
        return
      }
    }
  }
}
"""


def halving(type_: str) -> str:
    """A program of integers of a type: `@f` applies `@halved` to each. `@executable` has no objects yet."""
    return _PROGRAM.replace("TYPE", type_)


def check_halving(program: Any, type_: str) -> None:
    """The loaded program halves negative and positive integers, rounded to 0."""
    x = np.arange(-32, 32).astype(type_.replace("i", "int"))
    np.testing.assert_array_equal(np.asarray(program.f(x)), np.trunc(x / 2))
