// Results tied under another type, constants written in place, an operand twice, infinities, indices, empty dispatches.
#target = #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64">
#device = #hal.device.target<"local", [#target]> : !hal.device
module attributes {hal.device.targets = [#device]} {
  stream.executable private @kernels {
    stream.executable.export public @double workgroups() -> (index, index, index) {
      %one = arith.constant 1 : index
      stream.return %one, %one, %one : index, index, index
    }
    stream.executable.export public @add workgroups() -> (index, index, index) {
      %one = arith.constant 1 : index
      stream.return %one, %one, %one : index, index, index
    }
    stream.executable.export public @nothing workgroups() -> (index, index, index) {
      %one = arith.constant 1 : index
      stream.return %one, %one, %one : index, index, index
    }
    builtin.module {
      func.func @double(%b0: !stream.binding) {
        %zero = arith.constant 0 : index
        %one = arith.constant 1 : index
        %four = arith.constant 4 : index
        %x = stream.binding.subspan %b0[%zero] : !stream.binding -> memref<4xf32>
        scf.for %i = %zero to %four step %one {
          %v = memref.load %x[%i] : memref<4xf32>
          %w = arith.addf %v, %v : f32
          memref.store %w, %x[%i] : memref<4xf32>
        }
        return
      }
      func.func @add(%b0: !stream.binding, %b1: !stream.binding) {
        %zero = arith.constant 0 : index
        %one = arith.constant 1 : index
        %four = arith.constant 4 : index
        %x = stream.binding.subspan %b0[%zero] : !stream.binding -> memref<4xf32>
        %y = stream.binding.subspan %b1[%zero] : !stream.binding -> memref<4xf32>
        scf.for %i = %zero to %four step %one {
          %v = memref.load %x[%i] : memref<4xf32>
          %u = memref.load %y[%i] : memref<4xf32>
          %w = arith.addf %v, %u : f32
          memref.store %w, %x[%i] : memref<4xf32>
        }
        return
      }
      func.func @nothing() {
        return
      }
    }
  }
  func.func @retyped(%a: tensor<4xf32>) -> tensor<2x2xf32> {
    %0 = flow.dispatch @kernels::@double(%a) : (tensor<4xf32>) -> %a as tensor<2x2xf32>
    return %0 : tensor<2x2xf32>
  }
  func.func @of_constant() -> (tensor<4xf32>, tensor<4xf32>) {
    %w = arith.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
    %0 = flow.dispatch @kernels::@double(%w) : (tensor<4xf32>) -> %w
    return %0, %w : tensor<4xf32>, tensor<4xf32>
  }
  func.func @twice(%a: tensor<4xf32>) -> tensor<4xf32> {
    %0 = arith.addf %a, %a : tensor<4xf32>
    %1 = flow.dispatch @kernels::@add(%0, %0) : (tensor<4xf32>, tensor<4xf32>) -> %0
    return %1 : tensor<4xf32>
  }
  func.func @limits(%a: tensor<4xf32>) -> tensor<4xf32> {
    %high = arith.constant dense<0x7F800000> : tensor<4xf32>
    %low = arith.constant dense<0xFF800000> : tensor<4xf32>
    %zero = arith.constant dense<0.0> : tensor<4xf32>
    %0 = arith.cmpf oge, %a, %zero : tensor<4xf32>
    %1 = arith.select %0, %high, %low : tensor<4xi1>, tensor<4xf32>
    return %1 : tensor<4xf32>
  }
  func.func @indices(%a: tensor<4xi32>) -> tensor<4xi64> {
    %two = arith.constant dense<2> : tensor<4xindex>
    %0 = arith.index_cast %a : tensor<4xi32> to tensor<4xindex>
    %1 = arith.muli %0, %two : tensor<4xindex>
    %2 = arith.index_cast %1 : tensor<4xindex> to tensor<4xi64>
    return %2 : tensor<4xi64>
  }
  func.func @scalars(%a: i1, %b: f64, %c: i8) -> (i1, f64, i8) {
    %true = arith.constant true
    %0 = arith.xori %a, %true : i1
    %1 = arith.negf %b : f64
    %2 = arith.addi %c, %c : i8
    return %0, %1, %2 : i1, f64, i8
  }
  func.func @nothing() {
    return
  }
}
