// Results in place: of an argument, of an intermediate that is needed again, beside a new result.
#target = #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64">
#device = #hal.device.target<"local", [#target]> : !hal.device
module attributes {hal.device.targets = [#device]} {
  stream.executable private @kernels {
    stream.executable.export public @double workgroups(%size: index) -> (index, index, index) {
      %x = affine.apply affine_map<()[s0] -> (s0 ceildiv 64)>()[%size]
      %one = arith.constant 1 : index
      stream.return %x, %one, %one : index, index, index
    }
    stream.executable.export public @step workgroups(%size: index) -> (index, index, index) {
      %x = affine.apply affine_map<()[s0] -> (s0 ceildiv 64)>()[%size]
      %one = arith.constant 1 : index
      stream.return %x, %one, %one : index, index, index
    }
    builtin.module {
      // x *= 2
      func.func @double(%b0: !stream.binding, %size: index) {
        %zero = arith.constant 0 : index
        %one = arith.constant 1 : index
        %id = stream.dispatch.workgroup.id[0] : index
        %first = affine.apply affine_map<()[s0] -> (s0 * 64)>()[%id]
        %end = affine.min affine_map<(d0)[s0] -> (d0 + 64, s0)>(%first)[%size]
        %x = stream.binding.subspan %b0[%zero] : !stream.binding -> memref<?xf32>{%size}
        scf.for %i = %first to %end step %one {
          %v = memref.load %x[%i] : memref<?xf32>
          %w = arith.addf %v, %v : f32
          memref.store %w, %x[%i] : memref<?xf32>
        }
        return
      }
      // x += y, z = x (old)
      func.func @step(%b0: !stream.binding, %b1: !stream.binding, %b2: !stream.binding, %size: index) {
        %zero = arith.constant 0 : index
        %one = arith.constant 1 : index
        %id = stream.dispatch.workgroup.id[0] : index
        %first = affine.apply affine_map<()[s0] -> (s0 * 64)>()[%id]
        %end = affine.min affine_map<(d0)[s0] -> (d0 + 64, s0)>(%first)[%size]
        %x = stream.binding.subspan %b0[%zero] : !stream.binding -> memref<?xf32>{%size}
        %y = stream.binding.subspan %b1[%zero] : !stream.binding -> memref<?xf32>{%size}
        %z = stream.binding.subspan %b2[%zero] : !stream.binding -> memref<?xf32>{%size}
        scf.for %i = %first to %end step %one {
          %v = memref.load %x[%i] : memref<?xf32>
          %u = memref.load %y[%i] : memref<?xf32>
          %w = arith.addf %v, %u : f32
          memref.store %w, %x[%i] : memref<?xf32>
          memref.store %v, %z[%i] : memref<?xf32>
        }
        return
      }
    }
  }
  func.func @of_argument(%a: tensor<?xf32>) -> tensor<?xf32> {
    %zero = arith.constant 0 : index
    %n = tensor.dim %a, %zero : tensor<?xf32>
    %0 = flow.dispatch @kernels::@double[%n](%a, %n) : (tensor<?xf32>{%n}, index) -> %a{%n}
    return %0 : tensor<?xf32>
  }
  func.func @needed_again(%a: tensor<?xf32>) -> (tensor<?xf32>, tensor<?xf32>) {
    %zero = arith.constant 0 : index
    %n = tensor.dim %a, %zero : tensor<?xf32>
    %0 = arith.addf %a, %a : tensor<?xf32>
    %1 = flow.dispatch @kernels::@double[%n](%0, %n) : (tensor<?xf32>{%n}, index) -> %0{%n}
    %2 = arith.subf %1, %0 : tensor<?xf32>
    return %1, %2 : tensor<?xf32>, tensor<?xf32>
  }
  func.func @beside(%a: tensor<?xf32>, %b: tensor<?xf32>) -> (tensor<?xf32>, tensor<?xf32>) {
    %zero = arith.constant 0 : index
    %n = tensor.dim %a, %zero : tensor<?xf32>
    %0:2 = flow.dispatch @kernels::@step[%n](%a, %b, %n) : (tensor<?xf32>{%n}, tensor<?xf32>{%n}, index) -> (%a{%n}, tensor<?xf32>{%n})
    return %0#0, %0#1 : tensor<?xf32>, tensor<?xf32>
  }
  func.func @three_times(%a: tensor<?xf32>) -> tensor<?xf32> {
    %zero = arith.constant 0 : index
    %n = tensor.dim %a, %zero : tensor<?xf32>
    %0 = flow.dispatch @kernels::@double[%n](%a, %n) : (tensor<?xf32>{%n}, index) -> %a{%n}
    %1 = flow.dispatch @kernels::@double[%n](%0, %n) : (tensor<?xf32>{%n}, index) -> %0{%n}
    %2 = flow.dispatch @kernels::@double[%n](%1, %n) : (tensor<?xf32>{%n}, index) -> %1{%n}
    return %2 : tensor<?xf32>
  }
}
