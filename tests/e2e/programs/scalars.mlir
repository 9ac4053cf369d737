// Scalars of every width as operands of a dispatch, into memory and on into C.
#target = #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64">
#device = #hal.device.target<"local", [#target]> : !hal.device
module attributes {hal.device.targets = [#device]} {
  stream.executable private @kernels attributes {
    hal.executable.objects = #hal.executable.objects<{#target = [#hal.executable.object<{path = "kernels.c"}>]}>
  } {
    stream.executable.export public @spill workgroups() -> (index, index, index) {
      %one = arith.constant 1 : index
      stream.return %one, %one, %one : index, index, index
    }
    stream.executable.export public @through_c workgroups() -> (index, index, index) {
      %one = arith.constant 1 : index
      stream.return %one, %one, %one : index, index, index
    }
    builtin.module {
      func.func private @gather_scalars(memref<7xf64>, i8, i16, i32, i64, f32, f64, index)
          attributes {hal.import.static, llvm.bareptr = true}
      func.func @spill(%b0: !stream.binding, %b: i1, %c: i8, %s: i16, %i: i32, %l: i64, %h: f16, %g: bf16, %f: f32, %d: f64, %n: index) {
        %zero = arith.constant 0 : index
        %out = stream.binding.subspan %b0[%zero] : !stream.binding -> memref<10xf64>
        %k0 = arith.constant 0 : index
        %v0 = arith.uitofp %b : i1 to f64
        memref.store %v0, %out[%k0] : memref<10xf64>
        %k1 = arith.constant 1 : index
        %v1 = arith.sitofp %c : i8 to f64
        memref.store %v1, %out[%k1] : memref<10xf64>
        %k2 = arith.constant 2 : index
        %v2 = arith.sitofp %s : i16 to f64
        memref.store %v2, %out[%k2] : memref<10xf64>
        %k3 = arith.constant 3 : index
        %v3 = arith.sitofp %i : i32 to f64
        memref.store %v3, %out[%k3] : memref<10xf64>
        %k4 = arith.constant 4 : index
        %v4 = arith.sitofp %l : i64 to f64
        memref.store %v4, %out[%k4] : memref<10xf64>
        %k5 = arith.constant 5 : index
        %v5 = arith.extf %h : f16 to f64
        memref.store %v5, %out[%k5] : memref<10xf64>
        %k6 = arith.constant 6 : index
        %v6 = arith.extf %g : bf16 to f64
        memref.store %v6, %out[%k6] : memref<10xf64>
        %k7 = arith.constant 7 : index
        %v7 = arith.extf %f : f32 to f64
        memref.store %v7, %out[%k7] : memref<10xf64>
        %k8 = arith.constant 8 : index
        memref.store %d, %out[%k8] : memref<10xf64>
        %k9 = arith.constant 9 : index
        %nw = arith.index_cast %n : index to i64
        %v9 = arith.sitofp %nw : i64 to f64
        memref.store %v9, %out[%k9] : memref<10xf64>
        return
      }
      func.func @through_c(%b0: !stream.binding, %c: i8, %s: i16, %i: i32, %l: i64, %f: f32, %d: f64, %n: index) {
        %zero = arith.constant 0 : index
        %out = stream.binding.subspan %b0[%zero] : !stream.binding -> memref<7xf64>
        func.call @gather_scalars(%out, %c, %s, %i, %l, %f, %d, %n) : (memref<7xf64>, i8, i16, i32, i64, f32, f64, index) -> ()
        return
      }
    }
  }
  func.func @spill(%b: i1, %c: i8, %s: i16, %i: i32, %l: i64, %h: f16, %g: bf16, %f: f32, %d: f64) -> tensor<10xf64> {
    %n = arith.index_cast %l : i64 to index
    %0 = flow.dispatch @kernels::@spill(%b, %c, %s, %i, %l, %h, %g, %f, %d, %n) : (i1, i8, i16, i32, i64, f16, bf16, f32, f64, index) -> tensor<10xf64>
    return %0 : tensor<10xf64>
  }
  func.func @through_c(%c: i8, %s: i16, %i: i32, %l: i64, %f: f32, %d: f64) -> tensor<7xf64> {
    %n = arith.index_cast %l : i64 to index
    %0 = flow.dispatch @kernels::@through_c(%c, %s, %i, %l, %f, %d, %n) : (i8, i16, i32, i64, f32, f64, index) -> tensor<7xf64>
    return %0 : tensor<7xf64>
  }
  // Scalars alone: computed by the host, without a dispatch.
  func.func @host(%i: i32, %l: i64, %f: f32) -> (i32, i64, f32, i32) {
    %three = arith.constant 3 : i32
    %i1 = arith.muli %i, %three : i32
    %wide = arith.extsi %i1 : i32 to i64
    %l1 = arith.addi %l, %wide : i64
    %half = arith.constant 5.000000e-01 : f32
    %f1 = arith.mulf %f, %half : f32
    %smaller = arith.cmpi slt, %i, %three : i32
    %pick = arith.select %smaller, %i, %three : i32
    return %i1, %l1, %f1, %pick : i32, i64, f32, i32
  }
}
