// Calling conventions: expanded memrefs of rank 1 and 2, plain pointers, strides, offsets, results, a private helper.
#target = #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64">
#device = #hal.device.target<"local", [#target]> : !hal.device
module attributes {hal.device.targets = [#device]} {
  stream.executable private @kernels attributes {
    hal.executable.objects = #hal.executable.objects<{#target = [#hal.executable.object<{path = "kernels.c"}>]}>
  } {
    stream.executable.export public @mul workgroups(%size: index) -> (index, index, index) {
      %x = affine.apply affine_map<()[s0] -> (s0 ceildiv 64)>()[%size]
      %one = arith.constant 1 : index
      stream.return %x, %one, %one : index, index, index
    }
    stream.executable.export public @odd_columns workgroups() -> (index, index, index) {
      %one = arith.constant 1 : index
      stream.return %one, %one, %one : index, index, index
    }
    stream.executable.export public @results workgroups() -> (index, index, index) {
      %one = arith.constant 1 : index
      stream.return %one, %one, %one : index, index, index
    }
    stream.executable.export public @tail workgroups() -> (index, index, index) {
      %one = arith.constant 1 : index
      stream.return %one, %one, %one : index, index, index
    }
    builtin.module {
      func.func private @mul_expanded(memref<?xf32>, memref<?xf32>, memref<?xf32>, index, index) attributes {hal.import.static}
      func.func private @transpose(memref<4x3xf32, strided<[6, 2], offset: 1>>, memref<3x4xf32>) attributes {hal.import.static}
      func.func private @scale_bare(memref<4xf32>, memref<4xf32>, index, index) attributes {hal.import.static, llvm.bareptr = true}
      func.func private @next_i32(i32) -> i32 attributes {hal.import.static}
      func.func private @next_i64(i64) -> i64 attributes {hal.import.static}
      func.func private @half_f32(f32) -> f32 attributes {hal.import.static}
      func.func private @half_f64(f64) -> f64 attributes {hal.import.static}
      func.func private @twice(index) -> index attributes {hal.import.static}

      // A helper inside the module, called by the exports.
      func.func private @first_of_group() -> index {
        %id = stream.dispatch.workgroup.id[0] : index
        %first = affine.apply affine_map<()[s0] -> (s0 * 64)>()[%id]
        return %first : index
      }
      func.func @mul(%b0: !stream.binding, %b1: !stream.binding, %b2: !stream.binding, %size: index) {
        %zero = arith.constant 0 : index
        %first = func.call @first_of_group() : () -> index
        %a = stream.binding.subspan %b0[%zero] : !stream.binding -> memref<?xf32>{%size}
        %b = stream.binding.subspan %b1[%zero] : !stream.binding -> memref<?xf32>{%size}
        %c = stream.binding.subspan %b2[%zero] : !stream.binding -> memref<?xf32>{%size}
        func.call @mul_expanded(%a, %b, %c, %size, %first) : (memref<?xf32>, memref<?xf32>, memref<?xf32>, index, index) -> ()
        return
      }
      func.func @odd_columns(%b0: !stream.binding, %b1: !stream.binding) {
        %zero = arith.constant 0 : index
        %a = stream.binding.subspan %b0[%zero] : !stream.binding -> memref<4x6xf32>
        %odd = memref.subview %a[0, 1] [4, 3] [1, 2] : memref<4x6xf32> to memref<4x3xf32, strided<[6, 2], offset: 1>>
        %c = stream.binding.subspan %b1[%zero] : !stream.binding -> memref<3x4xf32>
        func.call @transpose(%odd, %c) : (memref<4x3xf32, strided<[6, 2], offset: 1>>, memref<3x4xf32>) -> ()
        return
      }
      func.func @results(%b0: !stream.binding, %i: i32, %j: i64, %x: f32, %y: f64, %n: index) {
        %zero = arith.constant 0 : index
        %one = arith.constant 1 : index
        %two = arith.constant 2 : index
        %three = arith.constant 3 : index
        %four = arith.constant 4 : index
        %out = stream.binding.subspan %b0[%zero] : !stream.binding -> memref<5xf64>
        %i1 = func.call @next_i32(%i) : (i32) -> i32
        %j1 = func.call @next_i64(%j) : (i64) -> i64
        %x1 = func.call @half_f32(%x) : (f32) -> f32
        %y1 = func.call @half_f64(%y) : (f64) -> f64
        %n1 = func.call @twice(%n) : (index) -> index
        %i2 = arith.sitofp %i1 : i32 to f64
        %j2 = arith.sitofp %j1 : i64 to f64
        %x2 = arith.extf %x1 : f32 to f64
        %n2 = arith.index_cast %n1 : index to i64
        %n3 = arith.sitofp %n2 : i64 to f64
        memref.store %i2, %out[%zero] : memref<5xf64>
        memref.store %j2, %out[%one] : memref<5xf64>
        memref.store %x2, %out[%two] : memref<5xf64>
        memref.store %y1, %out[%three] : memref<5xf64>
        memref.store %n3, %out[%four] : memref<5xf64>
        return
      }
      // Both views start 16 bytes into their bindings.
      func.func @tail(%b0: !stream.binding, %b1: !stream.binding, %size: index) {
        %zero = arith.constant 0 : index
        %bytes = arith.constant 16 : index
        %a = stream.binding.subspan %b0[%bytes] : !stream.binding -> memref<4xf32>
        %b = stream.binding.subspan %b1[%bytes] : !stream.binding -> memref<4xf32>
        func.call @scale_bare(%a, %b, %size, %zero) : (memref<4xf32>, memref<4xf32>, index, index) -> ()
        return
      }
    }
  }
  func.func @mul(%a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<?xf32> {
    %zero = arith.constant 0 : index
    %size = tensor.dim %a, %zero : tensor<?xf32>
    %0 = flow.dispatch @kernels::@mul[%size](%a, %b, %size) : (tensor<?xf32>{%size}, tensor<?xf32>{%size}, index) -> tensor<?xf32>{%size}
    return %0 : tensor<?xf32>
  }
  func.func @odd_columns(%a: tensor<4x6xf32>) -> tensor<3x4xf32> {
    %0 = flow.dispatch @kernels::@odd_columns(%a) : (tensor<4x6xf32>) -> tensor<3x4xf32>
    return %0 : tensor<3x4xf32>
  }
  func.func @results(%i: i32, %j: i64, %x: f32, %y: f64) -> tensor<5xf64> {
    %n = arith.constant 21 : index
    %0 = flow.dispatch @kernels::@results(%i, %j, %x, %y, %n) : (i32, i64, f32, f64, index) -> tensor<5xf64>
    return %0 : tensor<5xf64>
  }
  func.func @tail(%a: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<8xf32> {
    %size = arith.constant 4 : index
    %0 = flow.dispatch @kernels::@tail(%a, %b, %size) : (tensor<8xf32>, tensor<8xf32>, index) -> %b
    return %0 : tensor<8xf32>
  }
}
