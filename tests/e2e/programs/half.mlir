// f16, bf16 and i1 in the memory of hand-written kernels, with arithmetic in f32 between.
#target = #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64">
#device = #hal.device.target<"local", [#target]> : !hal.device
module attributes {hal.device.targets = [#device], vendor.note = "kept", vendor.flag} {
  stream.executable private @kernels {
    stream.executable.export public @f16 workgroups(%size: index) -> (index, index, index) {
      %one = arith.constant 1 : index
      stream.return %one, %one, %one : index, index, index
    }
    stream.executable.export public @bf16 workgroups(%size: index) -> (index, index, index) {
      %one = arith.constant 1 : index
      stream.return %one, %one, %one : index, index, index
    }
    builtin.module {
      func.func @f16(%b0: !stream.binding, %b1: !stream.binding, %size: index) {
        %zero = arith.constant 0 : index
        %one = arith.constant 1 : index
        %third = arith.constant 0.333333343 : f32
        %x = stream.binding.subspan %b0[%zero] : !stream.binding -> memref<?xf16>{%size}
        %y = stream.binding.subspan %b1[%zero] : !stream.binding -> memref<?xf16>{%size}
        scf.for %i = %zero to %size step %one {
          %v = memref.load %x[%i] : memref<?xf16>
          %w = arith.extf %v : f16 to f32
          %p = arith.mulf %w, %third : f32
          %q = arith.truncf %p : f32 to f16
          memref.store %q, %y[%i] : memref<?xf16>
        }
        return
      }
      func.func @bf16(%b0: !stream.binding, %b1: !stream.binding, %size: index) {
        %zero = arith.constant 0 : index
        %one = arith.constant 1 : index
        %x = stream.binding.subspan %b0[%zero] : !stream.binding -> memref<?xf32>{%size}
        %y = stream.binding.subspan %b1[%zero] : !stream.binding -> memref<?xbf16>{%size}
        scf.for %i = %zero to %size step %one {
          %v = memref.load %x[%i] : memref<?xf32>
          %q = arith.truncf %v : f32 to bf16
          memref.store %q, %y[%i] : memref<?xbf16>
        }
        return
      }
    }
  }
  func.func @f16(%a: tensor<?xf16>) -> tensor<?xf16> {
    %zero = arith.constant 0 : index
    %n = tensor.dim %a, %zero : tensor<?xf16>
    %0 = flow.dispatch @kernels::@f16[%n](%a, %n) : (tensor<?xf16>{%n}, index) -> tensor<?xf16>{%n}
    return %0 : tensor<?xf16>
  }
  func.func @bf16(%a: tensor<?xf32>) -> tensor<?xbf16> {
    %zero = arith.constant 0 : index
    %n = tensor.dim %a, %zero : tensor<?xf32>
    %0 = flow.dispatch @kernels::@bf16[%n](%a, %n) : (tensor<?xf32>{%n}, index) -> tensor<?xbf16>{%n}
    return %0 : tensor<?xbf16>
  }
}
