// Elementwise operations on tensors: ranks, element types, constants, comparisons, casts, several results.
#target = #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64">
#device = #hal.device.target<"local", [#target]> : !hal.device
module attributes {hal.device.targets = [#device]} {
  func.func @chain(%a: tensor<?x?xf32>, %b: tensor<?x?xf32>) -> tensor<?x?xf32> {
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %rows = tensor.dim %a, %zero : tensor<?x?xf32>
    %columns = tensor.dim %a, %one : tensor<?x?xf32>
    %0 = arith.mulf %a, %b : tensor<?x?xf32>
    %1 = math.exp %0 : tensor<?x?xf32>
    %2 = arith.addf %1, %a : tensor<?x?xf32>
    %3 = arith.negf %2 : tensor<?x?xf32>
    %4 = arith.maximumf %3, %b : tensor<?x?xf32>
    return %4 : tensor<?x?xf32>
  }
  func.func @float_f16(%a: tensor<5xf16>, %b: tensor<5xf16>) -> tensor<5xf16> {
    %half = arith.constant dense<5.000000e-01> : tensor<5xf16>
    %0 = arith.mulf %a, %half : tensor<5xf16>
    %1 = arith.addf %0, %b : tensor<5xf16>
    %2 = arith.subf %1, %a : tensor<5xf16>
    return %2 : tensor<5xf16>
  }
  func.func @float_bf16(%a: tensor<5xbf16>, %b: tensor<5xbf16>) -> tensor<5xbf16> {
    %half = arith.constant dense<5.000000e-01> : tensor<5xbf16>
    %0 = arith.mulf %a, %half : tensor<5xbf16>
    %1 = arith.addf %0, %b : tensor<5xbf16>
    %2 = arith.subf %1, %a : tensor<5xbf16>
    return %2 : tensor<5xbf16>
  }
  func.func @float_f64(%a: tensor<5xf64>, %b: tensor<5xf64>) -> tensor<5xf64> {
    %half = arith.constant dense<5.000000e-01> : tensor<5xf64>
    %0 = arith.mulf %a, %half : tensor<5xf64>
    %1 = arith.addf %0, %b : tensor<5xf64>
    %2 = arith.subf %1, %a : tensor<5xf64>
    return %2 : tensor<5xf64>
  }
  func.func @int_i8(%a: tensor<5xi8>, %b: tensor<5xi8>) -> tensor<5xi8> {
    %three = arith.constant dense<3> : tensor<5xi8>
    %0 = arith.muli %a, %three : tensor<5xi8>
    %1 = arith.addi %0, %b : tensor<5xi8>
    %2 = arith.xori %1, %a : tensor<5xi8>
    %3 = arith.maxsi %2, %b : tensor<5xi8>
    return %3 : tensor<5xi8>
  }
  func.func @int_i16(%a: tensor<5xi16>, %b: tensor<5xi16>) -> tensor<5xi16> {
    %three = arith.constant dense<3> : tensor<5xi16>
    %0 = arith.muli %a, %three : tensor<5xi16>
    %1 = arith.addi %0, %b : tensor<5xi16>
    %2 = arith.xori %1, %a : tensor<5xi16>
    %3 = arith.maxsi %2, %b : tensor<5xi16>
    return %3 : tensor<5xi16>
  }
  func.func @int_i64(%a: tensor<5xi64>, %b: tensor<5xi64>) -> tensor<5xi64> {
    %three = arith.constant dense<3> : tensor<5xi64>
    %0 = arith.muli %a, %three : tensor<5xi64>
    %1 = arith.addi %0, %b : tensor<5xi64>
    %2 = arith.xori %1, %a : tensor<5xi64>
    %3 = arith.maxsi %2, %b : tensor<5xi64>
    return %3 : tensor<5xi64>
  }
  func.func @less(%a: tensor<6xf32>, %b: tensor<6xf32>) -> tensor<6xi1> {
    %0 = arith.cmpf olt, %a, %b : tensor<6xf32>
    return %0 : tensor<6xi1>
  }
  func.func @both(%a: tensor<4xi1>, %b: tensor<4xi1>) -> tensor<4xi1> {
    %true = arith.constant dense<true> : tensor<4xi1>
    %0 = arith.andi %a, %b : tensor<4xi1>
    %1 = arith.xori %0, %true : tensor<4xi1>
    return %1 : tensor<4xi1>
  }
  func.func @choose(%c: tensor<4xi1>, %a: tensor<4xi32>, %b: tensor<4xi32>) -> tensor<4xi32> {
    %0 = arith.select %c, %a, %b : tensor<4xi1>, tensor<4xi32>
    return %0 : tensor<4xi32>
  }
  func.func @relu(%a: tensor<6xf32>) -> tensor<6xf32> {
    %zero = arith.constant dense<0.000000e+00> : tensor<6xf32>
    %0 = arith.cmpf ogt, %a, %zero : tensor<6xf32>
    %1 = arith.select %0, %a, %zero : tensor<6xi1>, tensor<6xf32>
    return %1 : tensor<6xf32>
  }
  func.func @casts(%a: tensor<4xi8>) -> (tensor<4xf64>, tensor<4xi64>, tensor<4xf16>) {
    %0 = arith.sitofp %a : tensor<4xi8> to tensor<4xf32>
    %1 = arith.extf %0 : tensor<4xf32> to tensor<4xf64>
    %2 = arith.extsi %a : tensor<4xi8> to tensor<4xi64>
    %3 = arith.truncf %0 : tensor<4xf32> to tensor<4xf16>
    return %1, %2, %3 : tensor<4xf64>, tensor<4xi64>, tensor<4xf16>
  }
  func.func @point(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {
    %0 = arith.addf %a, %b : tensor<f32>
    return %0 : tensor<f32>
  }
  func.func @deep(%a: tensor<2x1x3x2xf32>) -> tensor<2x1x3x2xf32> {
    %0 = arith.mulf %a, %a : tensor<2x1x3x2xf32>
    return %0 : tensor<2x1x3x2xf32>
  }
  func.func @weights(%a: tensor<2x3xf32>) -> tensor<2x3xf32> {
    %w = arith.constant dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf32>
    %0 = arith.addf %a, %w : tensor<2x3xf32>
    return %0 : tensor<2x3xf32>
  }
  func.func @fixed() -> tensor<3xi32> {
    %w = arith.constant dense<[1, 2, 3]> : tensor<3xi32>
    return %w : tensor<3xi32>
  }
  func.func @filled() -> tensor<3xi32> {
    %w = arith.constant dense<7> : tensor<3xi32>
    return %w : tensor<3xi32>
  }
  func.func @same(%a: tensor<3xf32>) -> tensor<3xf32> {
    return %a : tensor<3xf32>
  }
  func.func @unused(%a: tensor<3xf32>, %b: tensor<?xf32>, %c: i32) -> tensor<3xf32> {
    %0 = arith.addf %a, %a : tensor<3xf32>
    return %0 : tensor<3xf32>
  }
  func.func @twice_returned(%a: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
    %0 = arith.addf %a, %a : tensor<3xf32>
    return %0, %0 : tensor<3xf32>, tensor<3xf32>
  }
  func.func @splat_operand(%a: tensor<?xf32>) -> (tensor<?xf32>, index) {
    %zero = arith.constant 0 : index
    %n = tensor.dim %a, %zero : tensor<?xf32>
    %0 = math.absf %a : tensor<?xf32>
    %1 = math.sqrt %0 : tensor<?xf32>
    return %1, %n : tensor<?xf32>, index
  }
}
