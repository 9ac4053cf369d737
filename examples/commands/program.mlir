// Host commands between dispatches: @center works on elements, @ones puts work of its own where the device runs, @pack compresses
// a result while the next dispatch runs. commands.py and commands.c have them.
flow.func private @center(%x: tensor<?xf32>) -> %x
flow.func private @ones() -> tensor<?xf32>
flow.func private @pack(tensor<?xf32>) -> (tensor<?xi8>, tensor<i64>)

func.func @main(%x: tensor<?xf32>) -> (tensor<?xf32>, tensor<?xi8>, tensor<i64>) {
  %c0 = arith.constant 0 : index
  %c8 = arith.constant 8 : index
  %c64 = arith.constant 64 : index
  %n = tensor.dim %x, %c0 : tensor<?xf32>
  %double = arith.muli %n, %c8 : index
  %room = arith.addi %double, %c64 : index
  %squares = arith.mulf %x, %x : tensor<?xf32>
  %one = flow.call @ones() : () -> tensor<?xf32>{%n}
  %centered = flow.call @center(%squares) : (tensor<?xf32>{%n}) -> %squares{%n}
  %packed:2 = flow.call @pack(%centered) : (tensor<?xf32>{%n}) -> (tensor<?xi8>{%room}, tensor<i64>)
  %sum = arith.addf %centered, %one : tensor<?xf32>
  return %sum, %packed#0, %packed#1 : tensor<?xf32>, tensor<?xi8>, tensor<i64>
}
