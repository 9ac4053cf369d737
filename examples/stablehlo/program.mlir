// Layers as JAX exports them, in StableHLO, with kernels of users brought in all five ways. The same module runs on CPUs,
// CUDA, Vulkan and WebGPU: each executable lists its objects for each of them. run.py compiles, loads and checks it.
#x86_64 = #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64">
#aarch64 = #hal.executable.target<"llvm-cpu", "embedded-elf-arm_64">
#cuda = #hal.executable.target<"cuda", "cuda-nvptx-fb", {target_arch = "sm_75"}>
#vulkan = #hal.executable.target<"vulkan-spirv", "vulkan-spirv-fb">
#webgpu = #hal.executable.target<"webgpu-wgsl", "webgpu-wgsl-fb">
#in = #hal.pipeline.binding<storage_buffer, ReadOnly>
#out = #hal.pipeline.binding<storage_buffer>

module @jit_layers {
  // Static and dynamic functions: generated kernels that call them. @hard_swish_workgroup is in the objects, and linked
  // when the module is compiled; @clip_workgroup is in none of them: the device must be given a plugin that has it.
  stream.executable private @functions attributes {
    hal.executable.objects = #hal.executable.objects<{
      #x86_64 = [#hal.executable.object<{path = "cpu/functions.c"}>],
      #aarch64 = [#hal.executable.object<{path = "cpu/functions.c"}>],
      #cuda = [#hal.executable.object<{path = "cuda/functions.ptx"}>],
      #vulkan = [#hal.executable.object<{path = "vulkan/functions.glsl"}>],
      #webgpu = [#hal.executable.object<{path = "webgpu/functions.wgsl"}>]
    }>
  } {
    stream.executable.export public @hard_swish workgroups(%size: index) -> (index, index, index) {
      %x = affine.apply affine_map<()[s0] -> (s0 ceildiv 64)>()[%size]
      %one = arith.constant 1 : index
      stream.return %x, %one, %one : index, index, index
    }
    stream.executable.export public @clip workgroups(%size: index) -> (index, index, index) {
      %x = affine.apply affine_map<()[s0] -> (s0 ceildiv 64)>()[%size]
      %one = arith.constant 1 : index
      stream.return %x, %one, %one : index, index, index
    }
    builtin.module {
      func.func private @hard_swish_workgroup(memref<f32>, index, memref<f32>, index, index, index)
          attributes {hal.import.static, llvm.bareptr = true}
      func.func private @clip_workgroup(memref<f32>, index, memref<f32>, index, index, index)
          attributes {llvm.bareptr = true}

      func.func @hard_swish(%b0: !stream.binding, %b1: !stream.binding, %size: index) {
        %zero = arith.constant 0 : index
        %id = stream.dispatch.workgroup.id[0] : index
        %first = affine.apply affine_map<()[s0] -> (s0 * 64)>()[%id]
        %x = stream.binding.subspan %b0[%zero] : !stream.binding -> memref<f32>
        %out = stream.binding.subspan %b1[%zero] : !stream.binding -> memref<f32>
        func.call @hard_swish_workgroup(%x, %zero, %out, %zero, %size, %first)
            : (memref<f32>, index, memref<f32>, index, index, index) -> ()
        return
      }
      func.func @clip(%b0: !stream.binding, %b1: !stream.binding, %size: index) {
        %zero = arith.constant 0 : index
        %id = stream.dispatch.workgroup.id[0] : index
        %first = affine.apply affine_map<()[s0] -> (s0 * 64)>()[%id]
        %x = stream.binding.subspan %b0[%zero] : !stream.binding -> memref<f32>
        %out = stream.binding.subspan %b1[%zero] : !stream.binding -> memref<f32>
        func.call @clip_workgroup(%x, %zero, %out, %zero, %size, %first)
            : (memref<f32>, index, memref<f32>, index, index, index) -> ()
        return
      }
    }
  }

  // Static dispatch: a whole kernel, embedded in the artifact.
  hal.executable.source private @rows attributes {
    objects = #hal.executable.objects<{
      #x86_64 = [#hal.executable.object<{path = "cpu/scale_rows.c"}>],
      #aarch64 = [#hal.executable.object<{path = "cpu/scale_rows.c"}>],
      #cuda = [#hal.executable.object<{path = "cuda/scale_rows.ptx"}>],
      #vulkan = [#hal.executable.object<{path = "vulkan/scale_rows.comp"}>],
      #webgpu = [#hal.executable.object<{path = "webgpu/scale_rows.wgsl"}>]
    }>
  } {
    hal.executable.export public @scale_rows ordinal(0)
        layout(#hal.pipeline.layout<constants = 1, bindings = [#in, #in, #out]>)
        count(%device: !hal.device, %rows: index) -> (index, index, index) {
      %one = arith.constant 1 : index
      hal.return %rows, %one, %one : index, index, index
    } attributes {workgroup_size = [64 : index, 1 : index, 1 : index]}
  }

  // Dynamic dispatch: a whole kernel that the device is given before the artifact is loaded.
  hal.executable.source private @given {
    hal.executable.export public @residual ordinal(0)
        layout(#hal.pipeline.layout<constants = 1, bindings = [#in, #in, #out]>)
        count(%device: !hal.device, %size: index) -> (index, index, index) {
      %x = affine.apply affine_map<()[s0] -> (s0 ceildiv 64)>()[%size]
      %one = arith.constant 1 : index
      hal.return %x, %one, %one : index, index, index
    } attributes {workgroup_size = [64 : index, 1 : index, 1 : index]}
  }

  // Host command: code of the host, between dispatches. It subtracts the mean, in place.
  flow.func private @center(%x: tensor<4x4xf32>) -> %x

  // Weights: a constant may be in a global or where it is used.
  util.global private @weights = dense<[[0.5, -1.0, 2.0, 0.25], [1.5, 0.5, -0.5, 1.0], [-2.0, 1.0, 0.75, -0.25]]>
      : tensor<3x4xf32>

  // A layer with two activations: a static function and a dynamic function.
  func.func public @layer(%x: tensor<4x3xf32>) -> tensor<4x4xf32> {
    %w = util.global.load @weights : tensor<3x4xf32>
    %bias = stablehlo.constant dense<[0.5, -0.5, 0.25, 1.0]> : tensor<4xf32>
    %size = arith.constant 16 : index
    %product = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<4x3xf32>, tensor<3x4xf32>) -> tensor<4x4xf32>
    %rows = stablehlo.broadcast_in_dim %bias, dims = [1] : (tensor<4xf32>) -> tensor<4x4xf32>
    %sum = stablehlo.add %product, %rows : tensor<4x4xf32>
    %swished = flow.dispatch @functions::@hard_swish[%size](%sum, %size) : (tensor<4x4xf32>, index) -> tensor<4x4xf32>
    %clipped = flow.dispatch @functions::@clip[%size](%swished, %size) : (tensor<4x4xf32>, index) -> tensor<4x4xf32>
    %result = stablehlo.tanh %clipped : tensor<4x4xf32>
    return %result : tensor<4x4xf32>
  }

  // Root mean square normalization: a static dispatch scales the rows, a dynamic dispatch adds the residual.
  func.func public @normalize(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %quarter = stablehlo.constant dense<0.25> : tensor<4xf32>
    %rows = arith.constant 4 : index
    %columns = arith.constant 4 : i32
    %size = arith.constant 16 : index
    %size_i32 = arith.constant 16 : i32
    %squares = stablehlo.multiply %x, %x : tensor<4x4xf32>
    %sums = stablehlo.reduce(%squares init: %zero) applies stablehlo.add across dimensions = [1]
        : (tensor<4x4xf32>, tensor<f32>) -> tensor<4xf32>
    %means = stablehlo.multiply %sums, %quarter : tensor<4xf32>
    %scale = stablehlo.rsqrt %means : tensor<4xf32>
    %scaled = flow.dispatch @rows::@scale_rows[%rows](%columns, %x, %scale)
        : (i32, tensor<4x4xf32>, tensor<4xf32>) -> tensor<4x4xf32>
    %result = flow.dispatch @given::@residual[%size](%size_i32, %scaled, %x)
        : (i32, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    return %result : tensor<4x4xf32>
  }

  // A private function, as JAX writes for what it traces once, and a host command.
  func.func public @centered(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
    %exponentials = func.call @exponential(%x) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %centered = flow.call @center(%exponentials) : (tensor<4x4xf32>) -> %exponentials
    %result = stablehlo.negate %centered : tensor<4x4xf32>
    return %result : tensor<4x4xf32>
  }
  func.func private @exponential(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
    %y = stablehlo.exponential %x : tensor<4x4xf32>
    return %y : tensor<4x4xf32>
  }
}
