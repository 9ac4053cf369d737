"""Host functions for the kernels of data/kernels.cu, which tests with and without a GPU use."""

SCALE = """func.func @scale(%a: tensor<?xi64>, %k: i64, %x: f64, %s: i16) -> tensor<?xi64> {
    %c0 = arith.constant 0 : index
    %d = tensor.dim %a, %c0 : tensor<?xi64>
    %n = arith.index_cast %d : index to i32
    %r = flow.dispatch @executable::@scale[%d](%k, %x, %s, %n, %a)
      : (i64, f64, i16, i32, tensor<?xi64>{%d}) -> tensor<?xi64>{%d}
    return %r : tensor<?xi64>
  }"""

REVERSE = """func.func @reverse(%a: tensor<512xf32>) -> tensor<512xf32> {
    %d = arith.constant 512 : index
    %r = flow.dispatch @executable::@reverse[%d](%a) : (tensor<512xf32>) -> tensor<512xf32>
    return %r : tensor<512xf32>
  }"""

STEPS = """func.func @looped(%a: tensor<?xf32>, %times: index) -> tensor<?xf32> {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %d = tensor.dim %a, %c0 : tensor<?xf32>
    %n = arith.index_cast %d : index to i32
    %r = scf.for %i = %c0 to %times step %c1 iter_args(%x = %a) -> tensor<?xf32> {
      %t = flow.dispatch @executable::@simple_mul[%d](%n, %x, %a)
        : (i32, tensor<?xf32>{%d}, tensor<?xf32>{%d}) -> tensor<?xf32>{%d}
      scf.yield %t : tensor<?xf32>
    }
    return %r : tensor<?xf32>
  }"""

CONSTANTS = """hal.executable.constant.block() -> (i32, i32) as ("offset", "factor") {
    %o = arith.constant 11 : i32
    %f = arith.constant -5 : i32
    hal.return %o, %f : i32, i32
  }"""

_MUL = (
    "flow.dispatch @executable::@simple_mul[%d](%n, {}, {}) : (i32, tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>"
)
WIDE = "\n".join(
    [
        "func.func @wide(%a: tensor<64xf32>, %b: tensor<64xf32>) -> tensor<64xf32> {",
        "  %d = arith.constant 64 : index",
        "  %n = arith.constant 64 : i32",
        *(
            f"  %{i} = {_MUL.format('%a', '%b')}" if i == 0 else f"  %{i} = {_MUL.format('%a', f'%{i - 1}')}"
            for i in range(3)
        ),
        *(f"  %w{i} = {_MUL.format(f'%{i % 3}', f'%{(i + 1) % 3}')}" for i in range(6)),
        *(f"  %x{i} = {_MUL.format(f'%w{i}', f'%w{i + 1}')}" for i in range(5)),
        f"  %y = {_MUL.format('%x0', '%x4')}",
        f"  %z = {_MUL.format('%x2', '%x3')}",
        f"  %r = {_MUL.format('%y', '%z')}",
        "  return %r : tensor<64xf32>",
        "}",
    ]
)
"""Dispatches side by side, in several regions."""
