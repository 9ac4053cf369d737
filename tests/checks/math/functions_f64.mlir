// Functions of math on f64, as bodies of generics and on whole tensors; expected values are mpmath's.

func.func @acos_f64() {
  %x = util.unfoldable_constant dense<[-1.0, -0.8333333333333334, -0.6666666666666667, -0.5, -0.33333333333333337, -0.16666666666666674, 0.0, 0.16666666666666652, 0.33333333333333326, 0.5, 0.6666666666666665, 0.8333333333333333, 1.0]> : tensor<13xf64>
  %empty = tensor.empty() : tensor<13xf64>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf64>) outs(%empty : tensor<13xf64>) {
  ^bb0(%in: f64, %out: f64):
    %r = math.acos %in : f64
    linalg.yield %r : f64
  } -> tensor<13xf64>
  check.expect_almost_eq_const(%y, dense<[3.141592653589793, 2.5559071101326425, 2.300523983021863, 2.0943951023931957, 1.9106332362490186, 1.738244406014586, 1.5707963267948966, 1.4033482475752075, 1.2309594173407747, 1.0471975511965979, 0.8410686705679304, 0.5856855434571511, 0.0]> : tensor<13xf64>, atol 1.0e-12, rtol 1.0e-15) : tensor<13xf64>
  %z = math.acos %x : tensor<13xf64>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf64>
  return
}

func.func @acosh_f64() {
  %x = util.unfoldable_constant dense<[1.0, 1.6666666666666665, 2.333333333333333, 3.0, 3.6666666666666665, 4.333333333333333, 5.0, 5.666666666666666, 6.333333333333333, 7.0, 7.666666666666666, 8.333333333333332, 9.0]> : tensor<13xf64>
  %empty = tensor.empty() : tensor<13xf64>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf64>) outs(%empty : tensor<13xf64>) {
  ^bb0(%in: f64, %out: f64):
    %r = math.acosh %in : f64
    linalg.yield %r : f64
  } -> tensor<13xf64>
  check.expect_almost_eq_const(%y, dense<[0.0, 1.0986122886681096, 1.4909963089948082, 1.762747174039086, 1.9732939220896681, 2.1458966094693253, 2.2924316695611777, 2.419870242671892, 2.532682093993531, 2.6339157938496336, 2.725748404364813, 2.809791119754965, 2.8872709503576206]> : tensor<13xf64>, atol 1.0e-12, rtol 1.0e-15) : tensor<13xf64>
  %z = math.acosh %x : tensor<13xf64>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf64>
  return
}

func.func @asin_f64() {
  %x = util.unfoldable_constant dense<[-1.0, -0.8333333333333334, -0.6666666666666667, -0.5, -0.33333333333333337, -0.16666666666666674, 0.0, 0.16666666666666652, 0.33333333333333326, 0.5, 0.6666666666666665, 0.8333333333333333, 1.0]> : tensor<13xf64>
  %empty = tensor.empty() : tensor<13xf64>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf64>) outs(%empty : tensor<13xf64>) {
  ^bb0(%in: f64, %out: f64):
    %r = math.asin %in : f64
    linalg.yield %r : f64
  } -> tensor<13xf64>
  check.expect_almost_eq_const(%y, dense<[-1.5707963267948966, -0.9851107833377457, -0.7297276562269664, -0.5235987755982989, -0.339836909454122, -0.1674480792196894, 0.0, 0.16744807921968918, 0.33983690945412187, 0.5235987755982989, 0.7297276562269661, 0.9851107833377455, 1.5707963267948966]> : tensor<13xf64>, atol 1.0e-12, rtol 1.0e-15) : tensor<13xf64>
  %z = math.asin %x : tensor<13xf64>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf64>
  return
}

func.func @asinh_f64() {
  %x = util.unfoldable_constant dense<[-4.0, -3.3333333333333335, -2.666666666666667, -2.0, -1.3333333333333335, -0.666666666666667, 0.0, 0.6666666666666661, 1.333333333333333, 2.0, 2.666666666666666, 3.333333333333333, 4.0]> : tensor<13xf64>
  %empty = tensor.empty() : tensor<13xf64>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf64>) outs(%empty : tensor<13xf64>) {
  ^bb0(%in: f64, %out: f64):
    %r = math.asinh %in : f64
    linalg.yield %r : f64
  } -> tensor<13xf64>
  check.expect_almost_eq_const(%y, dense<[-2.0947125472611012, -1.918896472098531, -1.7074114360431307, -1.4436354751788103, -1.0986122886681098, -0.6251451172504169, 0.0, 0.6251451172504162, 1.0986122886681096, 1.4436354751788103, 1.7074114360431303, 1.9188964720985309, 2.0947125472611012]> : tensor<13xf64>, atol 1.0e-12, rtol 1.0e-15) : tensor<13xf64>
  %z = math.asinh %x : tensor<13xf64>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf64>
  return
}

func.func @atan_f64() {
  %x = util.unfoldable_constant dense<[-4.0, -3.3333333333333335, -2.666666666666667, -2.0, -1.3333333333333335, -0.666666666666667, 0.0, 0.6666666666666661, 1.333333333333333, 2.0, 2.666666666666666, 3.333333333333333, 4.0]> : tensor<13xf64>
  %empty = tensor.empty() : tensor<13xf64>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf64>) outs(%empty : tensor<13xf64>) {
  ^bb0(%in: f64, %out: f64):
    %r = math.atan %in : f64
    linalg.yield %r : f64
  } -> tensor<13xf64>
  check.expect_almost_eq_const(%y, dense<[-1.3258176636680326, -1.2793395323170296, -1.2120256565243244, -1.1071487177940904, -0.9272952180016123, -0.5880026035475677, 0.0, 0.5880026035475672, 0.9272952180016121, 1.1071487177940904, 1.2120256565243244, 1.2793395323170296, 1.3258176636680326]> : tensor<13xf64>, atol 1.0e-12, rtol 1.0e-15) : tensor<13xf64>
  %z = math.atan %x : tensor<13xf64>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf64>
  return
}

func.func @atanh_f64() {
  %x = util.unfoldable_constant dense<[-0.875, -0.7291666666666666, -0.5833333333333333, -0.4375, -0.29166666666666663, -0.14583333333333326, 0.0, 0.14583333333333348, 0.29166666666666674, 0.4375, 0.5833333333333335, 0.7291666666666667, 0.875]> : tensor<13xf64>
  %empty = tensor.empty() : tensor<13xf64>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf64>) outs(%empty : tensor<13xf64>) {
  ^bb0(%in: f64, %out: f64):
    %r = math.atanh %in : f64
    linalg.yield %r : f64
  } -> tensor<13xf64>
  check.expect_almost_eq_const(%y, dense<[-1.354025100551105, -0.9269456251675305, -0.6675005333661699, -0.46913481929646517, -0.30038693021446505, -0.14688055926408147, 0.0, 0.1468805592640817, 0.30038693021446516, 0.46913481929646517, 0.6675005333661702, 0.9269456251675308, 1.354025100551105]> : tensor<13xf64>, atol 1.0e-12, rtol 1.0e-15) : tensor<13xf64>
  %z = math.atanh %x : tensor<13xf64>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf64>
  return
}

func.func @cbrt_f64() {
  %x = util.unfoldable_constant dense<[-4.0, -3.3333333333333335, -2.666666666666667, -2.0, -1.3333333333333335, -0.666666666666667, 0.0, 0.6666666666666661, 1.333333333333333, 2.0, 2.666666666666666, 3.333333333333333, 4.0]> : tensor<13xf64>
  %empty = tensor.empty() : tensor<13xf64>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf64>) outs(%empty : tensor<13xf64>) {
  ^bb0(%in: f64, %out: f64):
    %r = math.cbrt %in : f64
    linalg.yield %r : f64
  } -> tensor<13xf64>
  check.expect_almost_eq_const(%y, dense<[-1.5874010519681996, -1.4938015821857216, -1.3867225487012695, -1.2599210498948732, -1.100642416298209, -0.873580464736299, 0.0, 0.8735804647362986, 1.100642416298209, 1.2599210498948732, 1.3867225487012693, 1.4938015821857216, 1.5874010519681996]> : tensor<13xf64>, atol 1.0e-12, rtol 1.0e-15) : tensor<13xf64>
  %z = math.cbrt %x : tensor<13xf64>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf64>
  return
}

func.func @ceil_f64() {
  %x = util.unfoldable_constant dense<[-4.0, -3.3333333333333335, -2.666666666666667, -2.0, -1.3333333333333335, -0.666666666666667, 0.0, 0.6666666666666661, 1.333333333333333, 2.0, 2.666666666666666, 3.333333333333333, 4.0]> : tensor<13xf64>
  %empty = tensor.empty() : tensor<13xf64>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf64>) outs(%empty : tensor<13xf64>) {
  ^bb0(%in: f64, %out: f64):
    %r = math.ceil %in : f64
    linalg.yield %r : f64
  } -> tensor<13xf64>
  check.expect_almost_eq_const(%y, dense<[-4.0, -3.0, -2.0, -2.0, -1.0, 0.0, 0.0, 1.0, 2.0, 2.0, 3.0, 4.0, 4.0]> : tensor<13xf64>, atol 1.0e-12, rtol 1.0e-15) : tensor<13xf64>
  %z = math.ceil %x : tensor<13xf64>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf64>
  return
}

func.func @cos_f64() {
  %x = util.unfoldable_constant dense<[-4.0, -3.3333333333333335, -2.666666666666667, -2.0, -1.3333333333333335, -0.666666666666667, 0.0, 0.6666666666666661, 1.333333333333333, 2.0, 2.666666666666666, 3.333333333333333, 4.0]> : tensor<13xf64>
  %empty = tensor.empty() : tensor<13xf64>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf64>) outs(%empty : tensor<13xf64>) {
  ^bb0(%in: f64, %out: f64):
    %r = math.cos %in : f64
    linalg.yield %r : f64
  } -> tensor<13xf64>
  check.expect_almost_eq_const(%y, dense<[-0.6536436208636119, -0.981674004711079, -0.8893265682130416, -0.4161468365471424, 0.2352375733029892, 0.7858872607769478, 1.0, 0.7858872607769484, 0.23523757330298964, -0.4161468365471424, -0.8893265682130411, -0.9816740047110791, -0.6536436208636119]> : tensor<13xf64>, atol 1.0e-12, rtol 1.0e-15) : tensor<13xf64>
  %z = math.cos %x : tensor<13xf64>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf64>
  return
}

func.func @cosh_f64() {
  %x = util.unfoldable_constant dense<[-4.0, -3.3333333333333335, -2.666666666666667, -2.0, -1.3333333333333335, -0.666666666666667, 0.0, 0.6666666666666661, 1.333333333333333, 2.0, 2.666666666666666, 3.333333333333333, 4.0]> : tensor<13xf64>
  %empty = tensor.empty() : tensor<13xf64>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf64>) outs(%empty : tensor<13xf64>) {
  ^bb0(%in: f64, %out: f64):
    %r = math.cosh %in : f64
    linalg.yield %r : f64
  } -> tensor<13xf64>
  check.expect_almost_eq_const(%y, dense<[27.308232836016487, 14.033649443936696, 7.23069977318635, 3.7621956910836314, 2.0286325163994525, 1.2305755800436342, 1.0, 1.2305755800436335, 2.0286325163994516, 3.7621956910836314, 7.230699773186344, 14.033649443936689, 27.308232836016487]> : tensor<13xf64>, atol 1.0e-12, rtol 1.0e-15) : tensor<13xf64>
  %z = math.cosh %x : tensor<13xf64>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf64>
  return
}

func.func @erf_f64() {
  %x = util.unfoldable_constant dense<[-4.0, -3.3333333333333335, -2.666666666666667, -2.0, -1.3333333333333335, -0.666666666666667, 0.0, 0.6666666666666661, 1.333333333333333, 2.0, 2.666666666666666, 3.333333333333333, 4.0]> : tensor<13xf64>
  %empty = tensor.empty() : tensor<13xf64>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf64>) outs(%empty : tensor<13xf64>) {
  ^bb0(%in: f64, %out: f64):
    %r = math.erf %in : f64
    linalg.yield %r : f64
  } -> tensor<13xf64>
  check.expect_almost_eq_const(%y, dense<[-0.9999999845827421, -0.999997571532527, -0.9998375591548132, -0.9953222650189527, -0.9406535612080802, -0.6542214138488399, 0.0, 0.6542214138488393, 0.9406535612080801, 0.9953222650189527, 0.9998375591548132, 0.999997571532527, 0.9999999845827421]> : tensor<13xf64>, atol 1.0e-12, rtol 1.0e-15) : tensor<13xf64>
  %z = math.erf %x : tensor<13xf64>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf64>
  return
}

func.func @erfc_f64() {
  %x = util.unfoldable_constant dense<[-4.0, -3.3333333333333335, -2.666666666666667, -2.0, -1.3333333333333335, -0.666666666666667, 0.0, 0.6666666666666661, 1.333333333333333, 2.0, 2.666666666666666, 3.333333333333333, 4.0]> : tensor<13xf64>
  %empty = tensor.empty() : tensor<13xf64>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf64>) outs(%empty : tensor<13xf64>) {
  ^bb0(%in: f64, %out: f64):
    %r = math.erfc %in : f64
    linalg.yield %r : f64
  } -> tensor<13xf64>
  check.expect_almost_eq_const(%y, dense<[1.999999984582742, 1.999997571532527, 1.9998375591548132, 1.9953222650189528, 1.9406535612080802, 1.6542214138488398, 1.0, 0.34577858615116075, 0.059346438791919934, 0.004677734981047266, 0.00016244084518680156, 2.428467472975848e-06, 1.541725790028002e-08]> : tensor<13xf64>, atol 1.0e-12, rtol 1.0e-15) : tensor<13xf64>
  %z = math.erfc %x : tensor<13xf64>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf64>
  return
}

func.func @exp_f64() {
  %x = util.unfoldable_constant dense<[-4.0, -3.3333333333333335, -2.666666666666667, -2.0, -1.3333333333333335, -0.666666666666667, 0.0, 0.6666666666666661, 1.333333333333333, 2.0, 2.666666666666666, 3.333333333333333, 4.0]> : tensor<13xf64>
  %empty = tensor.empty() : tensor<13xf64>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf64>) outs(%empty : tensor<13xf64>) {
  ^bb0(%in: f64, %out: f64):
    %r = math.exp %in : f64
    linalg.yield %r : f64
  } -> tensor<13xf64>
  check.expect_almost_eq_const(%y, dense<[0.01831563888873418, 0.035673993347252395, 0.06948345122280151, 0.1353352832366127, 0.2635971381157267, 0.5134171190325919, 1.0, 1.9477340410546746, 3.7936678946831766, 7.38905609893065, 14.391916095149886, 28.031624894526125, 54.598150033144236]> : tensor<13xf64>, atol 1.0e-12, rtol 1.0e-15) : tensor<13xf64>
  %z = math.exp %x : tensor<13xf64>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf64>
  return
}

func.func @exp2_f64() {
  %x = util.unfoldable_constant dense<[-4.0, -3.3333333333333335, -2.666666666666667, -2.0, -1.3333333333333335, -0.666666666666667, 0.0, 0.6666666666666661, 1.333333333333333, 2.0, 2.666666666666666, 3.333333333333333, 4.0]> : tensor<13xf64>
  %empty = tensor.empty() : tensor<13xf64>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf64>) outs(%empty : tensor<13xf64>) {
  ^bb0(%in: f64, %out: f64):
    %r = math.exp2 %in : f64
    linalg.yield %r : f64
  } -> tensor<13xf64>
  check.expect_almost_eq_const(%y, dense<[0.0625, 0.09921256574801246, 0.15749013123685912, 0.25, 0.39685026299204984, 0.6299605249474365, 1.0, 1.587401051968199, 2.519842099789746, 4.0, 6.349604207872796, 10.079368399158984, 16.0]> : tensor<13xf64>, atol 1.0e-12, rtol 1.0e-15) : tensor<13xf64>
  %z = math.exp2 %x : tensor<13xf64>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf64>
  return
}

func.func @expm1_f64() {
  %x = util.unfoldable_constant dense<[-4.0, -3.3333333333333335, -2.666666666666667, -2.0, -1.3333333333333335, -0.666666666666667, 0.0, 0.6666666666666661, 1.333333333333333, 2.0, 2.666666666666666, 3.333333333333333, 4.0]> : tensor<13xf64>
  %empty = tensor.empty() : tensor<13xf64>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf64>) outs(%empty : tensor<13xf64>) {
  ^bb0(%in: f64, %out: f64):
    %r = math.expm1 %in : f64
    linalg.yield %r : f64
  } -> tensor<13xf64>
  check.expect_almost_eq_const(%y, dense<[-0.9816843611112658, -0.9643260066527476, -0.9305165487771985, -0.8646647167633873, -0.7364028618842733, -0.48658288096740815, 0.0, 0.9477340410546747, 2.7936678946831766, 6.38905609893065, 13.391916095149886, 27.031624894526125, 53.598150033144236]> : tensor<13xf64>, atol 1.0e-12, rtol 1.0e-15) : tensor<13xf64>
  %z = math.expm1 %x : tensor<13xf64>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf64>
  return
}

func.func @floor_f64() {
  %x = util.unfoldable_constant dense<[-4.0, -3.3333333333333335, -2.666666666666667, -2.0, -1.3333333333333335, -0.666666666666667, 0.0, 0.6666666666666661, 1.333333333333333, 2.0, 2.666666666666666, 3.333333333333333, 4.0]> : tensor<13xf64>
  %empty = tensor.empty() : tensor<13xf64>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf64>) outs(%empty : tensor<13xf64>) {
  ^bb0(%in: f64, %out: f64):
    %r = math.floor %in : f64
    linalg.yield %r : f64
  } -> tensor<13xf64>
  check.expect_almost_eq_const(%y, dense<[-4.0, -4.0, -3.0, -2.0, -2.0, -1.0, 0.0, 0.0, 1.0, 2.0, 2.0, 3.0, 4.0]> : tensor<13xf64>, atol 1.0e-12, rtol 1.0e-15) : tensor<13xf64>
  %z = math.floor %x : tensor<13xf64>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf64>
  return
}

func.func @log_f64() {
  %x = util.unfoldable_constant dense<[0.125, 0.8645833333333334, 1.6041666666666667, 2.34375, 3.0833333333333335, 3.822916666666667, 4.5625, 5.302083333333334, 6.041666666666667, 6.78125, 7.520833333333334, 8.260416666666668, 9.0]> : tensor<13xf64>
  %empty = tensor.empty() : tensor<13xf64>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf64>) outs(%empty : tensor<13xf64>) {
  ^bb0(%in: f64, %out: f64):
    %r = math.log %in : f64
    linalg.yield %r : f64
  } -> tensor<13xf64>
  check.expect_almost_eq_const(%y, dense<[-2.0794415416798357, -0.14550758367123828, 0.472604410945793, 0.8517522107365839, 1.1260112628562242, 1.341013656586734, 1.5178707189086098, 1.6680998250826866, 1.798679912072629, 1.914161450740733, 2.0176769474249903, 2.111475030167012, 2.1972245773362196]> : tensor<13xf64>, atol 1.0e-12, rtol 1.0e-15) : tensor<13xf64>
  %z = math.log %x : tensor<13xf64>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf64>
  return
}

func.func @log10_f64() {
  %x = util.unfoldable_constant dense<[0.125, 0.8645833333333334, 1.6041666666666667, 2.34375, 3.0833333333333335, 3.822916666666667, 4.5625, 5.302083333333334, 6.041666666666667, 6.78125, 7.520833333333334, 8.260416666666668, 9.0]> : tensor<13xf64>
  %empty = tensor.empty() : tensor<13xf64>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf64>) outs(%empty : tensor<13xf64>) {
  ^bb0(%in: f64, %out: f64):
    %r = math.log10 %in : f64
    linalg.yield %r : f64
  } -> tensor<13xf64>
  check.expect_almost_eq_const(%y, dense<[-0.9030899869919435, -0.06319314066349449, 0.20524948779689467, 0.36991128507179405, 0.4890204780193702, 0.582394831212521, 0.6592028774645311, 0.7244465492971904, 0.7811567605233689, 0.8313097555286235, 0.8762659645300708, 0.9170019542780354, 0.9542425094393249]> : tensor<13xf64>, atol 1.0e-12, rtol 1.0e-15) : tensor<13xf64>
  %z = math.log10 %x : tensor<13xf64>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf64>
  return
}

func.func @log1p_f64() {
  %x = util.unfoldable_constant dense<[-0.875, -0.05208333333333337, 0.7708333333333333, 1.59375, 2.4166666666666665, 3.239583333333333, 4.0625, 4.885416666666666, 5.708333333333333, 6.53125, 7.354166666666666, 8.177083333333332, 9.0]> : tensor<13xf64>
  %empty = tensor.empty() : tensor<13xf64>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf64>) outs(%empty : tensor<13xf64>) {
  ^bb0(%in: f64, %out: f64):
    %r = math.log1p %in : f64
    linalg.yield %r : f64
  } -> tensor<13xf64>
  check.expect_almost_eq_const(%y, dense<[-2.0794415416798357, -0.053488684950986236, 0.5714502455824255, 0.9531047049968714, 1.2286654169163074, 1.4444649939747587, 1.6218604324326575, 1.7724775396786046, 1.9033505346365174, 2.0190610306909282, 2.122760416398678, 2.2167094344683433, 2.302585092994046]> : tensor<13xf64>, atol 1.0e-12, rtol 1.0e-15) : tensor<13xf64>
  %z = math.log1p %x : tensor<13xf64>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf64>
  return
}

func.func @log2_f64() {
  %x = util.unfoldable_constant dense<[0.125, 0.8645833333333334, 1.6041666666666667, 2.34375, 3.0833333333333335, 3.822916666666667, 4.5625, 5.302083333333334, 6.041666666666667, 6.78125, 7.520833333333334, 8.260416666666668, 9.0]> : tensor<13xf64>
  %empty = tensor.empty() : tensor<13xf64>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf64>) outs(%empty : tensor<13xf64>) {
  ^bb0(%in: f64, %out: f64):
    %r = math.log2 %in : f64
    linalg.yield %r : f64
  } -> tensor<13xf64>
  check.expect_almost_eq_const(%y, dense<[-3.0, -0.20992306937423136, 0.6818240399737453, 1.2288186904958809, 1.6244908649077936, 1.9346737521220567, 2.189824558880017, 2.4065593453545393, 2.5949465892937784, 2.7615512324444795, 2.910892526166015, 3.0462145549828223, 3.169925001442312]> : tensor<13xf64>, atol 1.0e-12, rtol 1.0e-15) : tensor<13xf64>
  %z = math.log2 %x : tensor<13xf64>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf64>
  return
}

func.func @rsqrt_f64() {
  %x = util.unfoldable_constant dense<[0.125, 0.8645833333333334, 1.6041666666666667, 2.34375, 3.0833333333333335, 3.822916666666667, 4.5625, 5.302083333333334, 6.041666666666667, 6.78125, 7.520833333333334, 8.260416666666668, 9.0]> : tensor<13xf64>
  %empty = tensor.empty() : tensor<13xf64>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf64>) outs(%empty : tensor<13xf64>) {
  ^bb0(%in: f64, %out: f64):
    %r = math.rsqrt %in : f64
    linalg.yield %r : f64
  } -> tensor<13xf64>
  check.expect_almost_eq_const(%y, dense<[2.8284271247461903, 1.07546571587573, 0.7895420339517227, 0.6531972647421809, 0.5694947974514993, 0.5114492951128095, 0.4681645887845223, 0.43428689602037246, 0.4068381021724862, 0.3840122885898555, 0.36464227527765836, 0.34793572481171314, 0.3333333333333333]> : tensor<13xf64>, atol 1.0e-12, rtol 1.0e-15) : tensor<13xf64>
  %z = math.rsqrt %x : tensor<13xf64>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf64>
  return
}

func.func @sin_f64() {
  %x = util.unfoldable_constant dense<[-4.0, -3.3333333333333335, -2.666666666666667, -2.0, -1.3333333333333335, -0.666666666666667, 0.0, 0.6666666666666661, 1.333333333333333, 2.0, 2.666666666666666, 3.333333333333333, 4.0]> : tensor<13xf64>
  %empty = tensor.empty() : tensor<13xf64>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf64>) outs(%empty : tensor<13xf64>) {
  ^bb0(%in: f64, %out: f64):
    %r = math.sin %in : f64
    linalg.yield %r : f64
  } -> tensor<13xf64>
  check.expect_almost_eq_const(%y, dense<[0.7568024953079282, 0.19056796287548539, -0.4572726266358116, -0.9092974268256817, -0.9719379013633128, -0.6183698030697372, 0.0, 0.6183698030697365, 0.9719379013633127, 0.9092974268256817, 0.45727262663581236, -0.19056796287548494, -0.7568024953079282]> : tensor<13xf64>, atol 1.0e-12, rtol 1.0e-15) : tensor<13xf64>
  %z = math.sin %x : tensor<13xf64>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf64>
  return
}

func.func @sinh_f64() {
  %x = util.unfoldable_constant dense<[-4.0, -3.3333333333333335, -2.666666666666667, -2.0, -1.3333333333333335, -0.666666666666667, 0.0, 0.6666666666666661, 1.333333333333333, 2.0, 2.666666666666666, 3.333333333333333, 4.0]> : tensor<13xf64>
  %empty = tensor.empty() : tensor<13xf64>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf64>) outs(%empty : tensor<13xf64>) {
  ^bb0(%in: f64, %out: f64):
    %r = math.sinh %in : f64
    linalg.yield %r : f64
  } -> tensor<13xf64>
  check.expect_almost_eq_const(%y, dense<[-27.289917197127753, -13.997975450589443, -7.161216321963549, -3.6268604078470186, -1.7650353782837258, -0.7171584610110423, 0.0, 0.7171584610110412, 1.765035378283725, 3.6268604078470186, 7.161216321963542, 13.997975450589436, 27.289917197127753]> : tensor<13xf64>, atol 1.0e-12, rtol 1.0e-15) : tensor<13xf64>
  %z = math.sinh %x : tensor<13xf64>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf64>
  return
}

func.func @sqrt_f64() {
  %x = util.unfoldable_constant dense<[0.0, 0.75, 1.5, 2.25, 3.0, 3.75, 4.5, 5.25, 6.0, 6.75, 7.5, 8.25, 9.0]> : tensor<13xf64>
  %empty = tensor.empty() : tensor<13xf64>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf64>) outs(%empty : tensor<13xf64>) {
  ^bb0(%in: f64, %out: f64):
    %r = math.sqrt %in : f64
    linalg.yield %r : f64
  } -> tensor<13xf64>
  check.expect_almost_eq_const(%y, dense<[0.0, 0.8660254037844386, 1.224744871391589, 1.5, 1.7320508075688772, 1.9364916731037085, 2.1213203435596424, 2.29128784747792, 2.449489742783178, 2.598076211353316, 2.7386127875258306, 2.8722813232690143, 3.0]> : tensor<13xf64>, atol 1.0e-12, rtol 1.0e-15) : tensor<13xf64>
  %z = math.sqrt %x : tensor<13xf64>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf64>
  return
}

func.func @tan_f64() {
  %x = util.unfoldable_constant dense<[-4.0, -3.3333333333333335, -2.666666666666667, -2.0, -1.3333333333333335, -0.666666666666667, 0.0, 0.6666666666666661, 1.333333333333333, 2.0, 2.666666666666666, 3.333333333333333, 4.0]> : tensor<13xf64>
  %empty = tensor.empty() : tensor<13xf64>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf64>) outs(%empty : tensor<13xf64>) {
  ^bb0(%in: f64, %out: f64):
    %r = math.tan %in : f64
    linalg.yield %r : f64
  } -> tensor<13xf64>
  check.expect_almost_eq_const(%y, dense<[-1.1578212823495775, -0.19412550598360023, 0.5141785289903429, 2.185039863261519, -4.13172899089315, -0.7868428894729778, 0.0, 0.7868428894729764, 4.131728990893142, -2.185039863261519, -0.514178528990344, 0.1941255059835998, 1.1578212823495775]> : tensor<13xf64>, atol 1.0e-12, rtol 1.0e-15) : tensor<13xf64>
  %z = math.tan %x : tensor<13xf64>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf64>
  return
}

func.func @tanh_f64() {
  %x = util.unfoldable_constant dense<[-4.0, -3.3333333333333335, -2.666666666666667, -2.0, -1.3333333333333335, -0.666666666666667, 0.0, 0.6666666666666661, 1.333333333333333, 2.0, 2.666666666666666, 3.333333333333333, 4.0]> : tensor<13xf64>
  %empty = tensor.empty() : tensor<13xf64>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf64>) outs(%empty : tensor<13xf64>) {
  ^bb0(%in: f64, %out: f64):
    %r = math.tanh %in : f64
    linalg.yield %r : f64
  } -> tensor<13xf64>
  check.expect_almost_eq_const(%y, dense<[-0.999329299739067, -0.9974579674738373, -0.9903904942256809, -0.9640275800758169, -0.870061661742672, -0.5827829453479103, 0.0, 0.5827829453479098, 0.8700616617426719, 0.9640275800758169, 0.9903904942256809, 0.9974579674738373, 0.999329299739067]> : tensor<13xf64>, atol 1.0e-12, rtol 1.0e-15) : tensor<13xf64>
  %z = math.tanh %x : tensor<13xf64>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf64>
  return
}

func.func @absf_f64() {
  %x = util.unfoldable_constant dense<[-4.0, -3.3333333333333335, -2.666666666666667, -2.0, -1.3333333333333335, -0.666666666666667, 0.0, 0.6666666666666661, 1.333333333333333, 2.0, 2.666666666666666, 3.333333333333333, 4.0]> : tensor<13xf64>
  %empty = tensor.empty() : tensor<13xf64>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf64>) outs(%empty : tensor<13xf64>) {
  ^bb0(%in: f64, %out: f64):
    %r = math.absf %in : f64
    linalg.yield %r : f64
  } -> tensor<13xf64>
  check.expect_almost_eq_const(%y, dense<[4.0, 3.3333333333333335, 2.666666666666667, 2.0, 1.3333333333333335, 0.666666666666667, 0.0, 0.6666666666666661, 1.333333333333333, 2.0, 2.666666666666666, 3.333333333333333, 4.0]> : tensor<13xf64>, atol 1.0e-12, rtol 1.0e-15) : tensor<13xf64>
  %z = math.absf %x : tensor<13xf64>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf64>
  return
}

func.func @roundeven_f64() {
  %x = util.unfoldable_constant dense<[-4.0, -3.3333333333333335, -2.666666666666667, -2.0, -1.3333333333333335, -0.666666666666667, 0.0, 0.6666666666666661, 1.333333333333333, 2.0, 2.666666666666666, 3.333333333333333, 4.0]> : tensor<13xf64>
  %empty = tensor.empty() : tensor<13xf64>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf64>) outs(%empty : tensor<13xf64>) {
  ^bb0(%in: f64, %out: f64):
    %r = math.roundeven %in : f64
    linalg.yield %r : f64
  } -> tensor<13xf64>
  check.expect_almost_eq_const(%y, dense<[-4.0, -3.0, -3.0, -2.0, -1.0, -1.0, 0.0, 1.0, 1.0, 2.0, 3.0, 3.0, 4.0]> : tensor<13xf64>, atol 1.0e-12, rtol 1.0e-15) : tensor<13xf64>
  %z = math.roundeven %x : tensor<13xf64>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf64>
  return
}

func.func @trunc_f64() {
  %x = util.unfoldable_constant dense<[-4.0, -3.3333333333333335, -2.666666666666667, -2.0, -1.3333333333333335, -0.666666666666667, 0.0, 0.6666666666666661, 1.333333333333333, 2.0, 2.666666666666666, 3.333333333333333, 4.0]> : tensor<13xf64>
  %empty = tensor.empty() : tensor<13xf64>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf64>) outs(%empty : tensor<13xf64>) {
  ^bb0(%in: f64, %out: f64):
    %r = math.trunc %in : f64
    linalg.yield %r : f64
  } -> tensor<13xf64>
  check.expect_almost_eq_const(%y, dense<[-4.0, -3.0, -2.0, -2.0, -1.0, 0.0, 0.0, 0.0, 1.0, 2.0, 2.0, 3.0, 4.0]> : tensor<13xf64>, atol 1.0e-12, rtol 1.0e-15) : tensor<13xf64>
  %z = math.trunc %x : tensor<13xf64>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf64>
  return
}

func.func @atan2_f64() {
  %x = util.unfoldable_constant dense<[0.5, 0.7916666666666667, 1.0833333333333335, 1.375, 1.6666666666666667, 1.9583333333333335, 2.25, 2.541666666666667, 2.8333333333333335, 3.125, 3.416666666666667, 3.7083333333333335, 4.0]> : tensor<13xf64>
  %w = util.unfoldable_constant dense<[-3.0, -2.5, -2.0, -1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0]> : tensor<13xf64>
  %y = math.atan2 %x, %w : tensor<13xf64>
  check.expect_almost_eq_const(%y, dense<[2.976443976175166, 2.8349163341881103, 2.645169900184911, 2.399645385583876, 2.1112158270654806, 1.8207749482557192, 1.5707963267948966, 1.3765553306134928, 1.2315037123408519, 1.1232763516377267, 1.0412067280128203, 0.977625810598524, 0.9272952180016122]> : tensor<13xf64>, atol 1.0e-12, rtol 1.0e-15) : tensor<13xf64>
  return
}

func.func @powf_f64() {
  %x = util.unfoldable_constant dense<[0.5, 0.7916666666666667, 1.0833333333333335, 1.375, 1.6666666666666667, 1.9583333333333335, 2.25, 2.541666666666667, 2.8333333333333335, 3.125, 3.416666666666667, 3.7083333333333335, 4.0]> : tensor<13xf64>
  %w = util.unfoldable_constant dense<[-3.0, -2.5, -2.0, -1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0]> : tensor<13xf64>
  %y = math.powf %x, %w : tensor<13xf64>
  check.expect_almost_eq_const(%y, dense<[8.0, 1.7932634708179134, 0.8520710059171596, 0.6202202657617758, 0.6, 0.7145896010104964, 1.0, 1.594260539142416, 2.8333333333333335, 5.524271728019903, 11.673611111111112, 26.481764087290433, 64.0]> : tensor<13xf64>, atol 1.0e-12, rtol 1.0e-15) : tensor<13xf64>
  return
}

func.func @copysign_f64() {
  %x = util.unfoldable_constant dense<[0.5, 0.7916666666666667, 1.0833333333333335, 1.375, 1.6666666666666667, 1.9583333333333335, 2.25, 2.541666666666667, 2.8333333333333335, 3.125, 3.416666666666667, 3.7083333333333335, 4.0]> : tensor<13xf64>
  %w = util.unfoldable_constant dense<[-3.0, -2.5, -2.0, -1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0]> : tensor<13xf64>
  %y = math.copysign %x, %w : tensor<13xf64>
  check.expect_almost_eq_const(%y, dense<[-0.5, -0.7916666666666667, -1.0833333333333335, -1.375, -1.6666666666666667, -1.9583333333333335, 2.25, 2.541666666666667, 2.8333333333333335, 3.125, 3.416666666666667, 3.7083333333333335, 4.0]> : tensor<13xf64>, atol 1.0e-12, rtol 1.0e-15) : tensor<13xf64>
  return
}
