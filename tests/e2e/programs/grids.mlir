// Grids of two and three axes from dynamic sizes; ids, counts and sizes of workgroups.
#target = #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64">
#device = #hal.device.target<"local", [#target]> : !hal.device
module attributes {hal.device.targets = [#device]} {
  stream.executable private @kernels {
    stream.executable.export public @ids2 workgroups(%rows: index, %columns: index) -> (index, index, index) {
      %one = arith.constant 1 : index
      stream.return %columns, %rows, %one : index, index, index
    }
    stream.executable.export public @ids3 workgroups(%d: index, %h: index, %w: index) -> (index, index, index) {
      stream.return %w, %h, %d : index, index, index
    }
    builtin.module {
      func.func @ids2(%b0: !stream.binding, %rows: index, %columns: index) {
        %zero = arith.constant 0 : index
        %x = stream.dispatch.workgroup.id[0] : index
        %y = stream.dispatch.workgroup.id[1] : index
        %nx = stream.dispatch.workgroup.count[0] : index
        %linear = affine.apply affine_map<(d0, d1)[s0] -> (d1 * s0 + d0)>(%x, %y)[%nx]
        %value = arith.index_cast %linear : index to i32
        %out = stream.binding.subspan %b0[%zero] : !stream.binding -> memref<?x?xi32>{%rows, %columns}
        memref.store %value, %out[%y, %x] : memref<?x?xi32>
        return
      }
      func.func @ids3(%b0: !stream.binding, %d: index, %h: index, %w: index) {
        %zero = arith.constant 0 : index
        %x = stream.dispatch.workgroup.id[0] : index
        %y = stream.dispatch.workgroup.id[1] : index
        %z = stream.dispatch.workgroup.id[2] : index
        %nx = stream.dispatch.workgroup.count[0] : index
        %ny = stream.dispatch.workgroup.count[1] : index
        %linear = affine.apply affine_map<(d0, d1, d2)[s0, s1] -> ((d2 * s1 + d1) * s0 + d0)>(%x, %y, %z)[%nx, %ny]
        %value = arith.index_cast %linear : index to i32
        %out = stream.binding.subspan %b0[%zero] : !stream.binding -> memref<?x?x?xi32>{%d, %h, %w}
        memref.store %value, %out[%z, %y, %x] : memref<?x?x?xi32>
        return
      }
    }
  }
  func.func @ids2(%like: tensor<?x?xi32>) -> tensor<?x?xi32> {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %rows = tensor.dim %like, %c0 : tensor<?x?xi32>
    %columns = tensor.dim %like, %c1 : tensor<?x?xi32>
    %0 = flow.dispatch @kernels::@ids2[%rows, %columns](%rows, %columns) : (index, index) -> tensor<?x?xi32>{%rows, %columns}
    return %0 : tensor<?x?xi32>
  }
  func.func @ids3(%d: index, %h: index, %w: index) -> tensor<?x?x?xi32> {
    %0 = flow.dispatch @kernels::@ids3[%d, %h, %w](%d, %h, %w) : (index, index, index) -> tensor<?x?x?xi32>{%d, %h, %w}
    return %0 : tensor<?x?x?xi32>
  }
}
