// Functions of math on f32, as bodies of generics and on whole tensors; expected values are mpmath's.

func.func @acos_f32() {
  %x = util.unfoldable_constant dense<[-1.0, -0.8333333134651184, -0.6666666865348816, -0.5, -0.3333333432674408, -0.1666666716337204, 0.0, 0.1666666716337204, 0.3333333432674408, 0.5, 0.6666666865348816, 0.8333333134651184, 1.0]> : tensor<13xf32>
  %empty = tensor.empty() : tensor<13xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf32>) outs(%empty : tensor<13xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = math.acos %in : f32
    linalg.yield %r : f32
  } -> tensor<13xf32>
  check.expect_almost_eq_const(%y, dense<[3.141592653589793, 2.55590707418969, 2.3005240096778707, 2.0943951023931957, 1.9106332467857308, 1.7382444110520978, 1.5707963267948966, 1.4033482425376953, 1.2309594068040626, 1.0471975511965979, 0.8410686439119225, 0.5856855794001031, 0.0]> : tensor<13xf32>, atol 1.0e-12, rtol 5.0e-7) : tensor<13xf32>
  %z = math.acos %x : tensor<13xf32>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf32>
  return
}

func.func @acosh_f32() {
  %x = util.unfoldable_constant dense<[1.0, 1.6666666269302368, 2.3333332538604736, 3.0, 3.6666667461395264, 4.333333492279053, 5.0, 5.666666507720947, 6.333333492279053, 7.0, 7.666666507720947, 8.333333015441895, 9.0]> : tensor<13xf32>
  %empty = tensor.empty() : tensor<13xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf32>) outs(%empty : tensor<13xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = math.acosh %in : f32
    linalg.yield %r : f32
  } -> tensor<13xf32>
  check.expect_almost_eq_const(%y, dense<[0.0, 1.0986122588657867, 1.4909962712975202, 1.762747174039086, 1.9732939446181061, 2.145896647166612, 2.2924316695611777, 2.419870214175421, 2.5326821194090368, 2.6339157938496336, 2.7257483834541203, 2.8097910813303315, 2.8872709503576206]> : tensor<13xf32>, atol 1.0e-12, rtol 5.0e-7) : tensor<13xf32>
  %z = math.acosh %x : tensor<13xf32>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf32>
  return
}

func.func @asin_f32() {
  %x = util.unfoldable_constant dense<[-1.0, -0.8333333134651184, -0.6666666865348816, -0.5, -0.3333333432674408, -0.1666666716337204, 0.0, 0.1666666716337204, 0.3333333432674408, 0.5, 0.6666666865348816, 0.8333333134651184, 1.0]> : tensor<13xf32>
  %empty = tensor.empty() : tensor<13xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf32>) outs(%empty : tensor<13xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = math.asin %in : f32
    linalg.yield %r : f32
  } -> tensor<13xf32>
  check.expect_almost_eq_const(%y, dense<[-1.5707963267948966, -0.9851107473947934, -0.7297276828829742, -0.5235987755982989, -0.3398369199908341, -0.16744808425720126, 0.0, 0.16744808425720126, 0.3398369199908341, 0.5235987755982989, 0.7297276828829742, 0.9851107473947934, 1.5707963267948966]> : tensor<13xf32>, atol 1.0e-12, rtol 5.0e-7) : tensor<13xf32>
  %z = math.asin %x : tensor<13xf32>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf32>
  return
}

func.func @asinh_f32() {
  %x = util.unfoldable_constant dense<[-4.0, -3.3333332538604736, -2.6666667461395264, -2.0, -1.3333333730697632, -0.6666666865348816, 0.0, 0.6666666865348816, 1.3333333730697632, 2.0, 2.6666667461395264, 3.3333332538604736, 4.0]> : tensor<13xf32>
  %empty = tensor.empty() : tensor<13xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf32>) outs(%empty : tensor<13xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = math.asinh %in : f32
    linalg.yield %r : f32
  } -> tensor<13xf32>
  check.expect_almost_eq_const(%y, dense<[-2.0947125472611012, -1.9188964492621725, -1.7074114639479143, -1.4436354751788103, -1.0986123125099674, -0.6251451337817707, 0.0, 0.6251451337817707, 1.0986123125099674, 1.4436354751788103, 1.7074114639479143, 1.9188964492621725, 2.0947125472611012]> : tensor<13xf32>, atol 1.0e-12, rtol 5.0e-7) : tensor<13xf32>
  %z = math.asinh %x : tensor<13xf32>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf32>
  return
}

func.func @atan_f32() {
  %x = util.unfoldable_constant dense<[-4.0, -3.3333332538604736, -2.6666667461395264, -2.0, -1.3333333730697632, -0.6666666865348816, 0.0, 0.6666666865348816, 1.3333333730697632, 2.0, 2.6666667461395264, 3.3333332538604736, 4.0]> : tensor<13xf32>
  %empty = tensor.empty() : tensor<13xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf32>) outs(%empty : tensor<13xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = math.atan %in : f32
    linalg.yield %r : f32
  } -> tensor<13xf32>
  check.expect_almost_eq_const(%y, dense<[-1.3258176636680326, -1.2793395257550502, -1.2120256663223479, -1.1071487177940904, -0.9272952323067267, -0.5880026173024855, 0.0, 0.5880026173024855, 0.9272952323067267, 1.1071487177940904, 1.2120256663223479, 1.2793395257550502, 1.3258176636680326]> : tensor<13xf32>, atol 1.0e-12, rtol 5.0e-7) : tensor<13xf32>
  %z = math.atan %x : tensor<13xf32>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf32>
  return
}

func.func @atanh_f32() {
  %x = util.unfoldable_constant dense<[-0.875, -0.7291666865348816, -0.5833333134651184, -0.4375, -0.2916666567325592, -0.1458333283662796, 0.0, 0.1458333283662796, 0.2916666567325592, 0.4375, 0.5833333134651184, 0.7291666865348816, 0.875]> : tensor<13xf32>
  %empty = tensor.empty() : tensor<13xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf32>) outs(%empty : tensor<13xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = math.atanh %in : f32
    linalg.yield %r : f32
  } -> tensor<13xf32>
  check.expect_almost_eq_const(%y, dense<[-1.354025100551105, -0.9269456675923393, -0.6675005032501395, -0.46913481929646517, -0.30038691935669304, -0.1468805541890963, 0.0, 0.1468805541890963, 0.30038691935669304, 0.46913481929646517, 0.6675005032501395, 0.9269456675923393, 1.354025100551105]> : tensor<13xf32>, atol 1.0e-12, rtol 5.0e-7) : tensor<13xf32>
  %z = math.atanh %x : tensor<13xf32>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf32>
  return
}

func.func @cbrt_f32() {
  %x = util.unfoldable_constant dense<[-4.0, -3.3333332538604736, -2.6666667461395264, -2.0, -1.3333333730697632, -0.6666666865348816, 0.0, 0.6666666865348816, 1.3333333730697632, 2.0, 2.6666667461395264, 3.3333332538604736, 4.0]> : tensor<13xf32>
  %empty = tensor.empty() : tensor<13xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf32>) outs(%empty : tensor<13xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = math.cbrt %in : f32
    linalg.yield %r : f32
  } -> tensor<13xf32>
  check.expect_almost_eq_const(%y, dense<[-1.5874010519681996, -1.493801570314053, -1.38672256247712, -1.2599210498948732, -1.100642427232109, -0.873580473414541, 0.0, 0.873580473414541, 1.100642427232109, 1.2599210498948732, 1.38672256247712, 1.493801570314053, 1.5874010519681996]> : tensor<13xf32>, atol 1.0e-12, rtol 5.0e-7) : tensor<13xf32>
  %z = math.cbrt %x : tensor<13xf32>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf32>
  return
}

func.func @ceil_f32() {
  %x = util.unfoldable_constant dense<[-4.0, -3.3333332538604736, -2.6666667461395264, -2.0, -1.3333333730697632, -0.6666666865348816, 0.0, 0.6666666865348816, 1.3333333730697632, 2.0, 2.6666667461395264, 3.3333332538604736, 4.0]> : tensor<13xf32>
  %empty = tensor.empty() : tensor<13xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf32>) outs(%empty : tensor<13xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = math.ceil %in : f32
    linalg.yield %r : f32
  } -> tensor<13xf32>
  check.expect_almost_eq_const(%y, dense<[-4.0, -3.0, -2.0, -2.0, -1.0, 0.0, 0.0, 1.0, 2.0, 2.0, 3.0, 4.0, 4.0]> : tensor<13xf32>, atol 1.0e-12, rtol 5.0e-7) : tensor<13xf32>
  %z = math.ceil %x : tensor<13xf32>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf32>
  return
}

func.func @cos_f32() {
  %x = util.unfoldable_constant dense<[-4.0, -3.3333332538604736, -2.6666667461395264, -2.0, -1.3333333730697632, -0.6666666865348816, 0.0, 0.6666666865348816, 1.3333333730697632, 2.0, 2.6666667461395264, 3.3333332538604736, 4.0]> : tensor<13xf32>
  %empty = tensor.empty() : tensor<13xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf32>) outs(%empty : tensor<13xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = math.cos %in : f32
    linalg.yield %r : f32
  } -> tensor<13xf32>
  check.expect_almost_eq_const(%y, dense<[-0.6536436208636119, -0.981674019856057, -0.889326604553802, -0.4161468365471424, 0.23523753468164693, 0.7858872484910437, 1.0, 0.7858872484910437, 0.23523753468164693, -0.4161468365471424, -0.889326604553802, -0.981674019856057, -0.6536436208636119]> : tensor<13xf32>, atol 1.0e-12, rtol 5.0e-7) : tensor<13xf32>
  %z = math.cos %x : tensor<13xf32>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf32>
  return
}

func.func @cosh_f32() {
  %x = util.unfoldable_constant dense<[-4.0, -3.3333332538604736, -2.6666667461395264, -2.0, -1.3333333730697632, -0.6666666865348816, 0.0, 0.6666666865348816, 1.3333333730697632, 2.0, 2.6666667461395264, 3.3333332538604736, 4.0]> : tensor<13xf32>
  %empty = tensor.empty() : tensor<13xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf32>) outs(%empty : tensor<13xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = math.cosh %in : f32
    linalg.yield %r : f32
  } -> tensor<13xf32>
  check.expect_almost_eq_const(%y, dense<[27.308232836016487, 14.033648331477599, 7.230700342308711, 3.7621956910836314, 2.0286325865356583, 1.2305755942922927, 1.0, 1.2305755942922927, 2.0286325865356583, 3.7621956910836314, 7.230700342308711, 14.033648331477599, 27.308232836016487]> : tensor<13xf32>, atol 1.0e-12, rtol 5.0e-7) : tensor<13xf32>
  %z = math.cosh %x : tensor<13xf32>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf32>
  return
}

func.func @erf_f32() {
  %x = util.unfoldable_constant dense<[-4.0, -3.3333332538604736, -2.6666667461395264, -2.0, -1.3333333730697632, -0.6666666865348816, 0.0, 0.6666666865348816, 1.3333333730697632, 2.0, 2.6666667461395264, 3.3333332538604736, 4.0]> : tensor<13xf32>
  %empty = tensor.empty() : tensor<13xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf32>) outs(%empty : tensor<13xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = math.erf %in : f32
    linalg.yield %r : f32
  } -> tensor<13xf32>
  check.expect_almost_eq_const(%y, dense<[-0.9999999845827421, -0.9999975715311868, -0.9998375592279873, -0.9953222650189527, -0.9406535687862582, -0.6542214282233856, 0.0, 0.6542214282233856, 0.9406535687862582, 0.9953222650189527, 0.9998375592279873, 0.9999975715311868, 0.9999999845827421]> : tensor<13xf32>, atol 1.0e-12, rtol 5.0e-7) : tensor<13xf32>
  %z = math.erf %x : tensor<13xf32>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf32>
  return
}

func.func @erfc_f32() {
  %x = util.unfoldable_constant dense<[-4.0, -3.3333332538604736, -2.6666667461395264, -2.0, -1.3333333730697632, -0.6666666865348816, 0.0, 0.6666666865348816, 1.3333333730697632, 2.0, 2.6666667461395264, 3.3333332538604736, 4.0]> : tensor<13xf32>
  %empty = tensor.empty() : tensor<13xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf32>) outs(%empty : tensor<13xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = math.erfc %in : f32
    linalg.yield %r : f32
  } -> tensor<13xf32>
  check.expect_almost_eq_const(%y, dense<[1.999999984582742, 1.9999975715311868, 1.9998375592279873, 1.9953222650189528, 1.940653568786258, 1.6542214282233856, 1.0, 0.3457785717766144, 0.05934643121374187, 0.004677734981047266, 0.0001624407720126837, 2.4284688132071906e-06, 1.541725790028002e-08]> : tensor<13xf32>, atol 1.0e-12, rtol 5.0e-7) : tensor<13xf32>
  %z = math.erfc %x : tensor<13xf32>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf32>
  return
}

func.func @exp_f32() {
  %x = util.unfoldable_constant dense<[-4.0, -3.3333332538604736, -2.6666667461395264, -2.0, -1.3333333730697632, -0.6666666865348816, 0.0, 0.6666666865348816, 1.3333333730697632, 2.0, 2.6666667461395264, 3.3333332538604736, 4.0]> : tensor<13xf32>
  %empty = tensor.empty() : tensor<13xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf32>) outs(%empty : tensor<13xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = math.exp %in : f32
    linalg.yield %r : f32
  } -> tensor<13xf32>
  check.expect_almost_eq_const(%y, dense<[0.01831563888873418, 0.03567399618236678, 0.06948344570075318, 0.1353352832366127, 0.26359712764131776, 0.5134171088319105, 1.0, 1.9477340797526748, 3.7936680454299987, 7.38905609893065, 14.391917238916669, 28.03162266677283, 54.598150033144236]> : tensor<13xf32>, atol 1.0e-12, rtol 5.0e-7) : tensor<13xf32>
  %z = math.exp %x : tensor<13xf32>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf32>
  return
}

func.func @exp2_f32() {
  %x = util.unfoldable_constant dense<[-4.0, -3.3333332538604736, -2.6666667461395264, -2.0, -1.3333333730697632, -0.6666666865348816, 0.0, 0.6666666865348816, 1.3333333730697632, 2.0, 2.6666667461395264, 3.3333332538604736, 4.0]> : tensor<13xf32>
  %empty = tensor.empty() : tensor<13xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf32>) outs(%empty : tensor<13xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = math.exp2 %in : f32
    linalg.yield %r : f32
  } -> tensor<13xf32>
  check.expect_almost_eq_const(%y, dense<[0.0625, 0.09921257121327458, 0.1574901225612968, 0.25, 0.39685025206152613, 0.6299605162718741, 1.0, 1.5874010738292474, 2.519842169194248, 4.0, 6.349604557649573, 10.079367843922995, 16.0]> : tensor<13xf32>, atol 1.0e-12, rtol 5.0e-7) : tensor<13xf32>
  %z = math.exp2 %x : tensor<13xf32>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf32>
  return
}

func.func @expm1_f32() {
  %x = util.unfoldable_constant dense<[-4.0, -3.3333332538604736, -2.6666667461395264, -2.0, -1.3333333730697632, -0.6666666865348816, 0.0, 0.6666666865348816, 1.3333333730697632, 2.0, 2.6666667461395264, 3.3333332538604736, 4.0]> : tensor<13xf32>
  %empty = tensor.empty() : tensor<13xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf32>) outs(%empty : tensor<13xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = math.expm1 %in : f32
    linalg.yield %r : f32
  } -> tensor<13xf32>
  check.expect_almost_eq_const(%y, dense<[-0.9816843611112658, -0.9643260038176332, -0.9305165542992468, -0.8646647167633873, -0.7364028723586822, -0.48658289116808956, 0.0, 0.9477340797526748, 2.7936680454299987, 6.38905609893065, 13.391917238916669, 27.03162266677283, 53.598150033144236]> : tensor<13xf32>, atol 1.0e-12, rtol 5.0e-7) : tensor<13xf32>
  %z = math.expm1 %x : tensor<13xf32>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf32>
  return
}

func.func @floor_f32() {
  %x = util.unfoldable_constant dense<[-4.0, -3.3333332538604736, -2.6666667461395264, -2.0, -1.3333333730697632, -0.6666666865348816, 0.0, 0.6666666865348816, 1.3333333730697632, 2.0, 2.6666667461395264, 3.3333332538604736, 4.0]> : tensor<13xf32>
  %empty = tensor.empty() : tensor<13xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf32>) outs(%empty : tensor<13xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = math.floor %in : f32
    linalg.yield %r : f32
  } -> tensor<13xf32>
  check.expect_almost_eq_const(%y, dense<[-4.0, -4.0, -3.0, -2.0, -2.0, -1.0, 0.0, 0.0, 1.0, 2.0, 2.0, 3.0, 4.0]> : tensor<13xf32>, atol 1.0e-12, rtol 5.0e-7) : tensor<13xf32>
  %z = math.floor %x : tensor<13xf32>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf32>
  return
}

func.func @log_f32() {
  %x = util.unfoldable_constant dense<[0.125, 0.8645833134651184, 1.6041666269302368, 2.34375, 3.0833332538604736, 3.8229167461395264, 4.5625, 5.302083492279053, 6.041666507720947, 6.78125, 7.520833492279053, 8.260416984558105, 9.0]> : tensor<13xf32>
  %empty = tensor.empty() : tensor<13xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf32>) outs(%empty : tensor<13xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = math.log %in : f32
    linalg.yield %r : f32
  } -> tensor<13xf32>
  check.expect_almost_eq_const(%y, dense<[-2.0794415416798357, -0.1455076066513426, 0.47260438617503114, 0.8517522107365839, 1.1260112370812423, 1.3410136773752748, 1.5178707189086098, 1.6680998550606607, 1.7986798857643713, 1.914161450740733, 2.0176769685590465, 2.111475068650716, 2.1972245773362196]> : tensor<13xf32>, atol 1.0e-12, rtol 5.0e-7) : tensor<13xf32>
  %z = math.log %x : tensor<13xf32>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf32>
  return
}

func.func @log10_f32() {
  %x = util.unfoldable_constant dense<[0.125, 0.8645833134651184, 1.6041666269302368, 2.34375, 3.0833332538604736, 3.8229167461395264, 4.5625, 5.302083492279053, 6.041666507720947, 6.78125, 7.520833492279053, 8.260416984558105, 9.0]> : tensor<13xf32>
  %empty = tensor.empty() : tensor<13xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf32>) outs(%empty : tensor<13xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = math.log10 %in : f32
    linalg.yield %r : f32
  } -> tensor<13xf32>
  check.expect_almost_eq_const(%y, dense<[-0.9030899869919435, -0.06319315064362699, 0.2052494770390895, 0.36991128507179405, 0.48902046682543776, 0.5823948402408694, 0.6592028774645311, 0.7244465623164591, 0.7811567490978378, 0.8313097555286235, 0.8762659737084749, 0.9170019709912959, 0.9542425094393249]> : tensor<13xf32>, atol 1.0e-12, rtol 5.0e-7) : tensor<13xf32>
  %z = math.log10 %x : tensor<13xf32>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf32>
  return
}

func.func @log1p_f32() {
  %x = util.unfoldable_constant dense<[-0.875, -0.0520833320915699, 0.7708333134651184, 1.59375, 2.4166667461395264, 3.2395832538604736, 4.0625, 4.885416507720947, 5.708333492279053, 6.53125, 7.354166507720947, 8.177083015441895, 9.0]> : tensor<13xf32>
  %empty = tensor.empty() : tensor<13xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf32>) outs(%empty : tensor<13xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = math.log1p %in : f32
    linalg.yield %r : f32
  } -> tensor<13xf32>
  check.expect_almost_eq_const(%y, dense<[-2.0794415416798357, -0.053488683640994, 0.5714502343627276, 0.9531047049968714, 1.2286654401766564, 1.4444649752293175, 1.6218604324326575, 1.7724775126718981, 1.903350558330289, 2.0190610306909282, 2.1227603973727565, 2.21670939982864, 2.302585092994046]> : tensor<13xf32>, atol 1.0e-12, rtol 5.0e-7) : tensor<13xf32>
  %z = math.log1p %x : tensor<13xf32>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf32>
  return
}

func.func @log2_f32() {
  %x = util.unfoldable_constant dense<[0.125, 0.8645833134651184, 1.6041666269302368, 2.34375, 3.0833332538604736, 3.8229167461395264, 4.5625, 5.302083492279053, 6.041666507720947, 6.78125, 7.520833492279053, 8.260416984558105, 9.0]> : tensor<13xf32>
  %empty = tensor.empty() : tensor<13xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf32>) outs(%empty : tensor<13xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = math.log2 %in : f32
    linalg.yield %r : f32
  } -> tensor<13xf32>
  check.expect_almost_eq_const(%y, dense<[-3.0, -0.2099231025275139, 0.68182400423709, 1.2288186904958809, 1.624490827722355, 1.9346737821135813, 2.189824558880017, 2.406559388603614, 2.5949465513389858, 2.7615512324444795, 2.9108925566560133, 3.0462146105030716, 3.169925001442312]> : tensor<13xf32>, atol 1.0e-12, rtol 5.0e-7) : tensor<13xf32>
  %z = math.log2 %x : tensor<13xf32>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf32>
  return
}

func.func @rsqrt_f32() {
  %x = util.unfoldable_constant dense<[0.125, 0.8645833134651184, 1.6041666269302368, 2.34375, 3.0833332538604736, 3.8229167461395264, 4.5625, 5.302083492279053, 6.041666507720947, 6.78125, 7.520833492279053, 8.260416984558105, 9.0]> : tensor<13xf32>
  %empty = tensor.empty() : tensor<13xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf32>) outs(%empty : tensor<13xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = math.rsqrt %in : f32
    linalg.yield %r : f32
  } -> tensor<13xf32>
  check.expect_almost_eq_const(%y, dense<[2.8284271247461903, 1.0754657282328872, 0.7895420437305016, 0.6531972647421809, 0.5694948047908585, 0.5114492897966673, 0.4681645887845223, 0.43428688951085187, 0.406838107524087, 0.3840122885898555, 0.36464227142447314, 0.3479357181167855, 0.3333333333333333]> : tensor<13xf32>, atol 1.0e-12, rtol 5.0e-7) : tensor<13xf32>
  %z = math.rsqrt %x : tensor<13xf32>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf32>
  return
}

func.func @sin_f32() {
  %x = util.unfoldable_constant dense<[-4.0, -3.3333332538604736, -2.6666667461395264, -2.0, -1.3333333730697632, -0.6666666865348816, 0.0, 0.6666666865348816, 1.3333333730697632, 2.0, 2.6666667461395264, 3.3333332538604736, 4.0]> : tensor<13xf32>
  %empty = tensor.empty() : tensor<13xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf32>) outs(%empty : tensor<13xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = math.sin %in : f32
    linalg.yield %r : f32
  } -> tensor<13xf32>
  check.expect_almost_eq_const(%y, dense<[0.7568024953079282, 0.1905678848590442, -0.4572725559584848, -0.9092974268256817, -0.9719379107108134, -0.6183698186839139, 0.0, 0.6183698186839139, 0.9719379107108134, 0.9092974268256817, 0.4572725559584848, -0.1905678848590442, -0.7568024953079282]> : tensor<13xf32>, atol 1.0e-12, rtol 5.0e-7) : tensor<13xf32>
  %z = math.sin %x : tensor<13xf32>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf32>
  return
}

func.func @sinh_f32() {
  %x = util.unfoldable_constant dense<[-4.0, -3.3333332538604736, -2.6666667461395264, -2.0, -1.3333333730697632, -0.6666666865348816, 0.0, 0.6666666865348816, 1.3333333730697632, 2.0, 2.6666667461395264, 3.3333332538604736, 4.0]> : tensor<13xf32>
  %empty = tensor.empty() : tensor<13xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf32>) outs(%empty : tensor<13xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = math.sinh %in : f32
    linalg.yield %r : f32
  } -> tensor<13xf32>
  check.expect_almost_eq_const(%y, dense<[-27.289917197127753, -13.99797433529523, -7.161216896607957, -3.6268604078470186, -1.7650354588943407, -0.7171584854603822, 0.0, 0.7171584854603822, 1.7650354588943407, 3.6268604078470186, 7.161216896607957, 13.99797433529523, 27.289917197127753]> : tensor<13xf32>, atol 1.0e-12, rtol 5.0e-7) : tensor<13xf32>
  %z = math.sinh %x : tensor<13xf32>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf32>
  return
}

func.func @sqrt_f32() {
  %x = util.unfoldable_constant dense<[0.0, 0.75, 1.5, 2.25, 3.0, 3.75, 4.5, 5.25, 6.0, 6.75, 7.5, 8.25, 9.0]> : tensor<13xf32>
  %empty = tensor.empty() : tensor<13xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf32>) outs(%empty : tensor<13xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = math.sqrt %in : f32
    linalg.yield %r : f32
  } -> tensor<13xf32>
  check.expect_almost_eq_const(%y, dense<[0.0, 0.8660254037844386, 1.224744871391589, 1.5, 1.7320508075688772, 1.9364916731037085, 2.1213203435596424, 2.29128784747792, 2.449489742783178, 2.598076211353316, 2.7386127875258306, 2.8722813232690143, 3.0]> : tensor<13xf32>, atol 1.0e-12, rtol 5.0e-7) : tensor<13xf32>
  %z = math.sqrt %x : tensor<13xf32>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf32>
  return
}

func.func @tan_f32() {
  %x = util.unfoldable_constant dense<[-4.0, -3.3333332538604736, -2.6666667461395264, -2.0, -1.3333333730697632, -0.6666666865348816, 0.0, 0.6666666865348816, 1.3333333730697632, 2.0, 2.6666667461395264, 3.3333332538604736, 4.0]> : tensor<13xf32>
  %empty = tensor.empty() : tensor<13xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf32>) outs(%empty : tensor<13xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = math.tan %in : f32
    linalg.yield %r : f32
  } -> tensor<13xf32>
  check.expect_almost_eq_const(%y, dense<[-1.1578212823495775, -0.19412542351582981, 0.514178428506488, 2.185039863261519, -4.131729708977618, -0.7868429216420364, 0.0, 0.7868429216420364, 4.131729708977618, -2.185039863261519, -0.514178428506488, 0.19412542351582981, 1.1578212823495775]> : tensor<13xf32>, atol 1.0e-12, rtol 5.0e-7) : tensor<13xf32>
  %z = math.tan %x : tensor<13xf32>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf32>
  return
}

func.func @tanh_f32() {
  %x = util.unfoldable_constant dense<[-4.0, -3.3333332538604736, -2.6666667461395264, -2.0, -1.3333333730697632, -0.6666666865348816, 0.0, 0.6666666865348816, 1.3333333730697632, 2.0, 2.6666667461395264, 3.3333332538604736, 4.0]> : tensor<13xf32>
  %empty = tensor.empty() : tensor<13xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf32>) outs(%empty : tensor<13xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = math.tanh %in : f32
    linalg.yield %r : f32
  } -> tensor<13xf32>
  check.expect_almost_eq_const(%y, dense<[-0.999329299739067, -0.9974579670703057, -0.9903904957457319, -0.9640275800758169, -0.8700616713983341, -0.5827829584681646, 0.0, 0.5827829584681646, 0.8700616713983341, 0.9640275800758169, 0.9903904957457319, 0.9974579670703057, 0.999329299739067]> : tensor<13xf32>, atol 1.0e-12, rtol 5.0e-7) : tensor<13xf32>
  %z = math.tanh %x : tensor<13xf32>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf32>
  return
}

func.func @absf_f32() {
  %x = util.unfoldable_constant dense<[-4.0, -3.3333332538604736, -2.6666667461395264, -2.0, -1.3333333730697632, -0.6666666865348816, 0.0, 0.6666666865348816, 1.3333333730697632, 2.0, 2.6666667461395264, 3.3333332538604736, 4.0]> : tensor<13xf32>
  %empty = tensor.empty() : tensor<13xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf32>) outs(%empty : tensor<13xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = math.absf %in : f32
    linalg.yield %r : f32
  } -> tensor<13xf32>
  check.expect_almost_eq_const(%y, dense<[4.0, 3.3333332538604736, 2.6666667461395264, 2.0, 1.3333333730697632, 0.6666666865348816, 0.0, 0.6666666865348816, 1.3333333730697632, 2.0, 2.6666667461395264, 3.3333332538604736, 4.0]> : tensor<13xf32>, atol 1.0e-12, rtol 5.0e-7) : tensor<13xf32>
  %z = math.absf %x : tensor<13xf32>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf32>
  return
}

func.func @roundeven_f32() {
  %x = util.unfoldable_constant dense<[-4.0, -3.3333332538604736, -2.6666667461395264, -2.0, -1.3333333730697632, -0.6666666865348816, 0.0, 0.6666666865348816, 1.3333333730697632, 2.0, 2.6666667461395264, 3.3333332538604736, 4.0]> : tensor<13xf32>
  %empty = tensor.empty() : tensor<13xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf32>) outs(%empty : tensor<13xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = math.roundeven %in : f32
    linalg.yield %r : f32
  } -> tensor<13xf32>
  check.expect_almost_eq_const(%y, dense<[-4.0, -3.0, -3.0, -2.0, -1.0, -1.0, 0.0, 1.0, 1.0, 2.0, 3.0, 3.0, 4.0]> : tensor<13xf32>, atol 1.0e-12, rtol 5.0e-7) : tensor<13xf32>
  %z = math.roundeven %x : tensor<13xf32>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf32>
  return
}

func.func @trunc_f32() {
  %x = util.unfoldable_constant dense<[-4.0, -3.3333332538604736, -2.6666667461395264, -2.0, -1.3333333730697632, -0.6666666865348816, 0.0, 0.6666666865348816, 1.3333333730697632, 2.0, 2.6666667461395264, 3.3333332538604736, 4.0]> : tensor<13xf32>
  %empty = tensor.empty() : tensor<13xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf32>) outs(%empty : tensor<13xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = math.trunc %in : f32
    linalg.yield %r : f32
  } -> tensor<13xf32>
  check.expect_almost_eq_const(%y, dense<[-4.0, -3.0, -2.0, -2.0, -1.0, 0.0, 0.0, 0.0, 1.0, 2.0, 2.0, 3.0, 4.0]> : tensor<13xf32>, atol 1.0e-12, rtol 5.0e-7) : tensor<13xf32>
  %z = math.trunc %x : tensor<13xf32>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf32>
  return
}

func.func @atan2_f32() {
  %x = util.unfoldable_constant dense<[0.5, 0.7916666865348816, 1.0833333730697632, 1.375, 1.6666666269302368, 1.9583333730697632, 2.25, 2.5416667461395264, 2.8333332538604736, 3.125, 3.4166667461395264, 3.7083332538604736, 4.0]> : tensor<13xf32>
  %w = util.unfoldable_constant dense<[-3.0, -2.5, -2.0, -1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0]> : tensor<13xf32>
  %y = math.atan2 %x, %w : tensor<13xf32>
  check.expect_almost_eq_const(%y, dense<[2.976443976175166, 2.834916326965129, 2.6451698848237144, 2.399645385583876, 2.1112158375839476, 1.8207749433921017, 1.5707963267948966, 1.3765553365354029, 1.231503703537704, 1.1232763516377267, 1.0412067381537964, 0.9776258006652787, 0.9272952180016122]> : tensor<13xf32>, atol 1.0e-12, rtol 5.0e-7) : tensor<13xf32>
  return
}

func.func @powf_f32() {
  %x = util.unfoldable_constant dense<[0.5, 0.7916666865348816, 1.0833333730697632, 1.375, 1.6666666269302368, 1.9583333730697632, 2.25, 2.5416667461395264, 2.8333332538604736, 3.125, 3.4166667461395264, 3.7083332538604736, 4.0]> : tensor<13xf32>
  %w = util.unfoldable_constant dense<[-3.0, -2.5, -2.0, -1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0]> : tensor<13xf32>
  %y = math.powf %x, %w : tensor<13xf32>
  check.expect_almost_eq_const(%y, dense<[8.0, 1.7932633583054638, 0.8520709434096068, 0.6202202657617758, 0.6000000143051151, 0.7145895937606481, 1.0, 1.5942605640670933, 2.8333332538604736, 5.524271728019903, 11.673611654175659, 26.48176266847145, 64.0]> : tensor<13xf32>, atol 1.0e-12, rtol 5.0e-7) : tensor<13xf32>
  return
}

func.func @copysign_f32() {
  %x = util.unfoldable_constant dense<[0.5, 0.7916666865348816, 1.0833333730697632, 1.375, 1.6666666269302368, 1.9583333730697632, 2.25, 2.5416667461395264, 2.8333332538604736, 3.125, 3.4166667461395264, 3.7083332538604736, 4.0]> : tensor<13xf32>
  %w = util.unfoldable_constant dense<[-3.0, -2.5, -2.0, -1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0]> : tensor<13xf32>
  %y = math.copysign %x, %w : tensor<13xf32>
  check.expect_almost_eq_const(%y, dense<[-0.5, -0.7916666865348816, -1.0833333730697632, -1.375, -1.6666666269302368, -1.9583333730697632, 2.25, 2.5416667461395264, 2.8333332538604736, 3.125, 3.4166667461395264, 3.7083332538604736, 4.0]> : tensor<13xf32>, atol 1.0e-12, rtol 5.0e-7) : tensor<13xf32>
  return
}
