// Several functions of both dialects, private helpers, executables of the same kernel twice.
#target = #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64">
#device = #hal.device.target<"local", [#target]> : !hal.device
module attributes {hal.device.targets = [#device]} {
  stream.executable private @first {
    stream.executable.export public @add_one workgroups(%size: index) -> (index, index, index) {
      %x = affine.apply affine_map<()[s0] -> (s0 ceildiv 64)>()[%size]
      %one = arith.constant 1 : index
      flow.return %x, %one, %one : index, index, index
    }
    builtin.module {
      func.func @add_one(%b0: !stream.binding, %b1: !stream.binding, %size: index) {
        %zero = arith.constant 0 : index
        %one = arith.constant 1 : index
        %unit = arith.constant 1.000000e+00 : f32
        %id = stream.dispatch.workgroup.id[0] : index
        %first = affine.apply affine_map<()[s0] -> (s0 * 64)>()[%id]
        %end = affine.min affine_map<(d0)[s0] -> (d0 + 64, s0)>(%first)[%size]
        %x = stream.binding.subspan %b0[%zero] : !stream.binding -> memref<?xf32>{%size}
        %y = stream.binding.subspan %b1[%zero] : !stream.binding -> memref<?xf32>{%size}
        scf.for %i = %first to %end step %one {
          %v = memref.load %x[%i] : memref<?xf32>
          %w = arith.addf %v, %unit : f32
          memref.store %w, %y[%i] : memref<?xf32>
        }
        func.return
      }
    }
  }
  stream.executable private @second {
    stream.executable.export public @negate workgroups(%size: index) -> (index, index, index) {
      %x = affine.apply affine_map<()[s0] -> (s0 ceildiv 64)>()[%size]
      %one = arith.constant 1 : index
      hal.return %x, %one, %one : index, index, index
    }
    builtin.module {
      func.func @negate(%b0: !stream.binding, %b1: !stream.binding, %size: index) {
        %zero = arith.constant 0 : index
        %one = arith.constant 1 : index
        %id = stream.dispatch.workgroup.id[0] : index
        %first = affine.apply affine_map<()[s0] -> (s0 * 64)>()[%id]
        %end = affine.min affine_map<(d0)[s0] -> (d0 + 64, s0)>(%first)[%size]
        %x = stream.binding.subspan %b0[%zero] : !stream.binding -> memref<?xf32>{%size}
        %y = stream.binding.subspan %b1[%zero] : !stream.binding -> memref<?xf32>{%size}
        scf.for %i = %first to %end step %one {
          %v = memref.load %x[%i] : memref<?xf32>
          %w = arith.negf %v : f32
          memref.store %w, %y[%i] : memref<?xf32>
        }
        return
      }
    }
  }
  util.func public @plain(%a: tensor<?xf32>) -> tensor<?xf32> {
    %zero = arith.constant 0 : index
    %n = tensor.dim %a, %zero : tensor<?xf32>
    %0 = flow.dispatch @first::@add_one[%n](%a, %n) : (tensor<?xf32>{%n}, index) -> tensor<?xf32>{%n}
    %1 = flow.dispatch @second::@negate[%n](%0, %n) : (tensor<?xf32>{%n}, index) -> tensor<?xf32>{%n}
    util.return %1 : tensor<?xf32>
  }
  func.func private @helper(%a: tensor<?xf32>, %scale: f32) -> (tensor<?xf32>, f32) {
    %zero = arith.constant 0 : index
    %n = tensor.dim %a, %zero : tensor<?xf32>
    %0 = flow.dispatch @first::@add_one[%n](%a, %n) : (tensor<?xf32>{%n}, index) -> tensor<?xf32>{%n}
    %1 = arith.mulf %0, %0 : tensor<?xf32>
    %2 = arith.addf %scale, %scale : f32
    return %1, %2 : tensor<?xf32>, f32
  }
  func.func @helped(%a: tensor<?xf32>, %scale: f32) -> (tensor<?xf32>, f32) {
    %0:2 = call @helper(%a, %scale) : (tensor<?xf32>, f32) -> (tensor<?xf32>, f32)
    %1:2 = call @helper(%0#0, %0#1) : (tensor<?xf32>, f32) -> (tensor<?xf32>, f32)
    return %1#0, %1#1 : tensor<?xf32>, f32
  }
  util.func private @util_helper(%a: tensor<?xf32>) -> tensor<?xf32> {
    %0 = arith.addf %a, %a : tensor<?xf32>
    util.return %0 : tensor<?xf32>
  }
  util.func public @util_helped(%a: tensor<?xf32>) -> tensor<?xf32> {
    %0 = util.call @util_helper(%a) : (tensor<?xf32>) -> tensor<?xf32>
    util.return %0 : tensor<?xf32>
  }
}
