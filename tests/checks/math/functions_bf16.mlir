// Functions of math on bf16, as bodies of generics and on whole tensors; expected values are mpmath's.

func.func @acos_bf16() {
  %x = util.unfoldable_constant dense<[-1.0, -0.83203125, -0.66796875, -0.5, -0.333984375, -0.1669921875, 0.0, 0.1669921875, 0.333984375, 0.5, 0.66796875, 0.83203125, 1.0]> : tensor<13xbf16>
  %empty = tensor.empty() : tensor<13xbf16>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xbf16>) outs(%empty : tensor<13xbf16>) {
  ^bb0(%in: bf16, %out: bf16):
    %r = math.acos %in : bf16
    linalg.yield %r : bf16
  } -> tensor<13xbf16>
  check.expect_almost_eq_const(%y, dense<[3.141592653589793, 2.5535557182579214, 2.3022722789451917, 2.0943951023931957, 1.9113238545842128, 1.7385745536133015, 1.5707963267948966, 1.4030180999764919, 1.2302687990055805, 1.0471975511965979, 0.8393203746446015, 0.5880369353318721, 0.0]> : tensor<13xbf16>, atol 1.0e-12, rtol 1.6e-2) : tensor<13xbf16>
  %z = math.acos %x : tensor<13xbf16>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xbf16>
  return
}

func.func @acosh_bf16() {
  %x = util.unfoldable_constant dense<[1.0, 1.6640625, 2.328125, 3.0, 3.671875, 4.34375, 5.0, 5.65625, 6.34375, 7.0, 7.65625, 8.3125, 9.0]> : tensor<13xbf16>
  %empty = tensor.empty() : tensor<13xbf16>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xbf16>) outs(%empty : tensor<13xbf16>) {
  ^bb0(%in: bf16, %out: bf16):
    %r = math.acosh %in : bf16
    linalg.yield %r : bf16
  } -> tensor<13xbf16>
  check.expect_almost_eq_const(%y, dense<[0.0, 1.096656774892344, 1.4885223951570254, 1.762747174039086, 1.974769214154367, 2.1483640079165323, 2.2924316695611777, 2.418000924024332, 2.53434632140307, 2.6339157938496336, 2.724377053235044, 2.8072697238065727, 2.8872709503576206]> : tensor<13xbf16>, atol 1.0e-12, rtol 1.6e-2) : tensor<13xbf16>
  %z = math.acosh %x : tensor<13xbf16>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xbf16>
  return
}

func.func @asin_bf16() {
  %x = util.unfoldable_constant dense<[-1.0, -0.83203125, -0.66796875, -0.5, -0.333984375, -0.1669921875, 0.0, 0.1669921875, 0.333984375, 0.5, 0.66796875, 0.83203125, 1.0]> : tensor<13xbf16>
  %empty = tensor.empty() : tensor<13xbf16>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xbf16>) outs(%empty : tensor<13xbf16>) {
  ^bb0(%in: bf16, %out: bf16):
    %r = math.asin %in : bf16
    linalg.yield %r : bf16
  } -> tensor<13xbf16>
  check.expect_almost_eq_const(%y, dense<[-1.5707963267948966, -0.9827593914630246, -0.731475952150295, -0.5235987755982989, -0.3405275277893161, -0.16777822681840487, 0.0, 0.16777822681840487, 0.3405275277893161, 0.5235987755982989, 0.731475952150295, 0.9827593914630246, 1.5707963267948966]> : tensor<13xbf16>, atol 1.0e-12, rtol 1.6e-2) : tensor<13xbf16>
  %z = math.asin %x : tensor<13xbf16>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xbf16>
  return
}

func.func @asinh_bf16() {
  %x = util.unfoldable_constant dense<[-4.0, -3.328125, -2.671875, -2.0, -1.3359375, -0.66796875, 0.0, 0.66796875, 1.3359375, 2.0, 2.671875, 3.328125, 4.0]> : tensor<13xbf16>
  %empty = tensor.empty() : tensor<13xbf16>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xbf16>) outs(%empty : tensor<13xbf16>) {
  ^bb0(%in: bf16, %out: bf16):
    %r = math.asinh %in : bf16
    linalg.yield %r : bf16
  } -> tensor<13xbf16>
  check.expect_almost_eq_const(%y, dense<[-2.0947125472611012, -1.9173987948676223, -1.7092386399019823, -1.4436354751788103, -1.1001738126904104, -0.6262281905144944, 0.0, 0.6262281905144944, 1.1001738126904104, 1.4436354751788103, 1.7092386399019823, 1.9173987948676223, 2.0947125472611012]> : tensor<13xbf16>, atol 1.0e-12, rtol 1.6e-2) : tensor<13xbf16>
  %z = math.asinh %x : tensor<13xbf16>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xbf16>
  return
}

func.func @atan_bf16() {
  %x = util.unfoldable_constant dense<[-4.0, -3.328125, -2.671875, -2.0, -1.3359375, -0.66796875, 0.0, 0.66796875, 1.3359375, 2.0, 2.671875, 3.328125, 4.0]> : tensor<13xbf16>
  %empty = tensor.empty() : tensor<13xbf16>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xbf16>) outs(%empty : tensor<13xbf16>) {
  ^bb0(%in: bf16, %out: bf16):
    %r = math.atan %in : bf16
    linalg.yield %r : bf16
  } -> tensor<13xbf16>
  check.expect_almost_eq_const(%y, dense<[-1.3258176636680326, -1.2789088691222938, -1.212666682077548, -1.1071487177940904, -0.9282315473159966, -0.5889035042047381, 0.0, 0.5889035042047381, 0.9282315473159966, 1.1071487177940904, 1.212666682077548, 1.2789088691222938, 1.3258176636680326]> : tensor<13xbf16>, atol 1.0e-12, rtol 1.6e-2) : tensor<13xbf16>
  %z = math.atan %x : tensor<13xbf16>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xbf16>
  return
}

func.func @atanh_bf16() {
  %x = util.unfoldable_constant dense<[-0.875, -0.73046875, -0.58203125, -0.4375, -0.291015625, -0.1455078125, 0.0, 0.1455078125, 0.291015625, 0.4375, 0.58203125, 0.73046875, 0.875]> : tensor<13xbf16>
  %empty = tensor.empty() : tensor<13xbf16>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xbf16>) outs(%empty : tensor<13xbf16>) {
  ^bb0(%in: bf16, %out: bf16):
    %r = math.atanh %in : bf16
    linalg.yield %r : bf16
  } -> tensor<13xbf16>
  check.expect_almost_eq_const(%y, dense<[-1.354025100551105, -0.9297316327239381, -0.6655291163223165, -0.46913481929646517, -0.29967550279341776, -0.14654798114793052, 0.0, 0.14654798114793052, 0.29967550279341776, 0.46913481929646517, 0.6655291163223165, 0.9297316327239381, 1.354025100551105]> : tensor<13xbf16>, atol 1.0e-12, rtol 1.6e-2) : tensor<13xbf16>
  %z = math.atanh %x : tensor<13xbf16>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xbf16>
  return
}

func.func @cbrt_bf16() {
  %x = util.unfoldable_constant dense<[-4.0, -3.328125, -2.671875, -2.0, -1.3359375, -0.66796875, 0.0, 0.66796875, 1.3359375, 2.0, 2.671875, 3.328125, 4.0]> : tensor<13xbf16>
  %empty = tensor.empty() : tensor<13xbf16>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xbf16>) outs(%empty : tensor<13xbf16>) {
  ^bb0(%in: bf16, %out: bf16):
    %r = math.cbrt %in : bf16
    linalg.yield %r : bf16
  } -> tensor<13xbf16>
  check.expect_almost_eq_const(%y, dense<[-1.5874010519681996, -1.4930231549566, -1.3876247757278868, -1.2599210498948732, -1.1013585143637923, -0.8741488321476085, 0.0, 0.8741488321476085, 1.1013585143637923, 1.2599210498948732, 1.3876247757278868, 1.4930231549566, 1.5874010519681996]> : tensor<13xbf16>, atol 1.0e-12, rtol 1.6e-2) : tensor<13xbf16>
  %z = math.cbrt %x : tensor<13xbf16>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xbf16>
  return
}

func.func @ceil_bf16() {
  %x = util.unfoldable_constant dense<[-4.0, -3.328125, -2.671875, -2.0, -1.3359375, -0.66796875, 0.0, 0.66796875, 1.3359375, 2.0, 2.671875, 3.328125, 4.0]> : tensor<13xbf16>
  %empty = tensor.empty() : tensor<13xbf16>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xbf16>) outs(%empty : tensor<13xbf16>) {
  ^bb0(%in: bf16, %out: bf16):
    %r = math.ceil %in : bf16
    linalg.yield %r : bf16
  } -> tensor<13xbf16>
  check.expect_almost_eq_const(%y, dense<[-4.0, -3.0, -2.0, -2.0, -1.0, 0.0, 0.0, 1.0, 2.0, 2.0, 3.0, 4.0, 4.0]> : tensor<13xbf16>, atol 1.0e-12, rtol 1.6e-2) : tensor<13xbf16>
  %z = math.ceil %x : tensor<13xbf16>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xbf16>
  return
}

func.func @cos_bf16() {
  %x = util.unfoldable_constant dense<[-4.0, -3.328125, -2.671875, -2.0, -1.3359375, -0.66796875, 0.0, 0.66796875, 1.3359375, 2.0, 2.671875, 3.328125, 4.0]> : tensor<13xbf16>
  %empty = tensor.empty() : tensor<13xbf16>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xbf16>) outs(%empty : tensor<13xbf16>) {
  ^bb0(%in: bf16, %out: bf16):
    %r = math.cos %in : bf16
    linalg.yield %r : bf16
  } -> tensor<13xbf16>
  check.expect_almost_eq_const(%y, dense<[-0.6536436208636119, -0.9826532269212557, -0.8916961234728519, -0.4161468365471424, 0.23270569022603224, 0.7850814257852596, 1.0, 0.7850814257852596, 0.23270569022603224, -0.4161468365471424, -0.8916961234728519, -0.9826532269212557, -0.6536436208636119]> : tensor<13xbf16>, atol 1.0e-12, rtol 1.6e-2) : tensor<13xbf16>
  %z = math.cos %x : tensor<13xbf16>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xbf16>
  return
}

func.func @cosh_bf16() {
  %x = util.unfoldable_constant dense<[-4.0, -3.328125, -2.671875, -2.0, -1.3359375, -0.66796875, 0.0, 0.66796875, 1.3359375, 2.0, 2.671875, 3.328125, 4.0]> : tensor<13xbf16>
  %empty = tensor.empty() : tensor<13xbf16>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xbf16>) outs(%empty : tensor<13xbf16>) {
  ^bb0(%in: bf16, %out: bf16):
    %r = math.cosh %in : bf16
    linalg.yield %r : bf16
  } -> tensor<13xbf16>
  check.expect_almost_eq_const(%y, dense<[27.308232836016487, 13.960933336163091, 7.268096016356334, 3.7621956910836314, 2.033235846668597, 1.2315104235589314, 1.0, 1.2315104235589314, 2.033235846668597, 3.7621956910836314, 7.268096016356334, 13.960933336163091, 27.308232836016487]> : tensor<13xbf16>, atol 1.0e-12, rtol 1.6e-2) : tensor<13xbf16>
  %z = math.cosh %x : tensor<13xbf16>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xbf16>
  return
}

func.func @erf_bf16() {
  %x = util.unfoldable_constant dense<[-4.0, -3.328125, -2.671875, -2.0, -1.3359375, -0.66796875, 0.0, 0.66796875, 1.3359375, 2.0, 2.671875, 3.328125, 4.0]> : tensor<13xbf16>
  %empty = tensor.empty() : tensor<13xbf16>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xbf16>) outs(%empty : tensor<13xbf16>) {
  ^bb0(%in: bf16, %out: bf16):
    %r = math.erf %in : bf16
    linalg.yield %r : bf16
  } -> tensor<13xbf16>
  check.expect_almost_eq_const(%y, dense<[-0.9999999845827421, -0.9999974821572755, -0.9998422886600413, -0.9953222650189527, -0.9411484831196715, -0.6551626462890713, 0.0, 0.6551626462890713, 0.9411484831196715, 0.9953222650189527, 0.9998422886600413, 0.9999974821572755, 0.9999999845827421]> : tensor<13xbf16>, atol 1.0e-12, rtol 1.6e-2) : tensor<13xbf16>
  %z = math.erf %x : tensor<13xbf16>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xbf16>
  return
}

func.func @erfc_bf16() {
  %x = util.unfoldable_constant dense<[-4.0, -3.328125, -2.671875, -2.0, -1.3359375, -0.66796875, 0.0, 0.66796875, 1.3359375, 2.0, 2.671875, 3.328125, 4.0]> : tensor<13xbf16>
  %empty = tensor.empty() : tensor<13xbf16>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xbf16>) outs(%empty : tensor<13xbf16>) {
  ^bb0(%in: bf16, %out: bf16):
    %r = math.erfc %in : bf16
    linalg.yield %r : bf16
  } -> tensor<13xbf16>
  check.expect_almost_eq_const(%y, dense<[1.999999984582742, 1.9999974821572755, 1.9998422886600413, 1.9953222650189528, 1.9411484831196715, 1.6551626462890714, 1.0, 0.3448373537109287, 0.058851516880328546, 0.004677734981047266, 0.00015771133995870793, 2.517842724561281e-06, 1.541725790028002e-08]> : tensor<13xbf16>, atol 1.0e-12, rtol 1.6e-2) : tensor<13xbf16>
  %z = math.erfc %x : tensor<13xbf16>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xbf16>
  return
}

func.func @exp_bf16() {
  %x = util.unfoldable_constant dense<[-4.0, -3.328125, -2.671875, -2.0, -1.3359375, -0.66796875, 0.0, 0.66796875, 1.3359375, 2.0, 2.671875, 3.328125, 4.0]> : tensor<13xbf16>
  %empty = tensor.empty() : tensor<13xbf16>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xbf16>) outs(%empty : tensor<13xbf16>) {
  ^bb0(%in: bf16, %out: bf16):
    %r = math.exp %in : bf16
    linalg.yield %r : bf16
  } -> tensor<13xbf16>
  check.expect_almost_eq_const(%y, dense<[0.01831563888873418, 0.035860280096566576, 0.06912249904327114, 0.1353352832366127, 0.26291158027609046, 0.5127490421990961, 1.0, 1.9502718049187666, 3.8035601130611036, 7.38905609893065, 14.467069533669397, 27.886006392229614, 54.598150033144236]> : tensor<13xbf16>, atol 1.0e-12, rtol 1.6e-2) : tensor<13xbf16>
  %z = math.exp %x : tensor<13xbf16>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xbf16>
  return
}

func.func @exp2_bf16() {
  %x = util.unfoldable_constant dense<[-4.0, -3.328125, -2.671875, -2.0, -1.3359375, -0.66796875, 0.0, 0.66796875, 1.3359375, 2.0, 2.671875, 3.328125, 4.0]> : tensor<13xbf16>
  %empty = tensor.empty() : tensor<13xbf16>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xbf16>) outs(%empty : tensor<13xbf16>) {
  ^bb0(%in: bf16, %out: bf16):
    %r = math.exp2 %in : bf16
    linalg.yield %r : bf16
  } -> tensor<13xbf16>
  check.expect_almost_eq_const(%y, dense<[0.0625, 0.09957138445889169, 0.1569225946280864, 0.25, 0.39613456631312344, 0.6293922197748583, 1.0, 1.588834384317164, 2.5243947007885015, 4.0, 6.372568605369068, 10.043046056197529, 16.0]> : tensor<13xbf16>, atol 1.0e-12, rtol 1.6e-2) : tensor<13xbf16>
  %z = math.exp2 %x : tensor<13xbf16>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xbf16>
  return
}

func.func @expm1_bf16() {
  %x = util.unfoldable_constant dense<[-4.0, -3.328125, -2.671875, -2.0, -1.3359375, -0.66796875, 0.0, 0.66796875, 1.3359375, 2.0, 2.671875, 3.328125, 4.0]> : tensor<13xbf16>
  %empty = tensor.empty() : tensor<13xbf16>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xbf16>) outs(%empty : tensor<13xbf16>) {
  ^bb0(%in: bf16, %out: bf16):
    %r = math.expm1 %in : bf16
    linalg.yield %r : bf16
  } -> tensor<13xbf16>
  check.expect_almost_eq_const(%y, dense<[-0.9816843611112658, -0.9641397199034334, -0.9308775009567288, -0.8646647167633873, -0.7370884197239096, -0.4872509578009039, 0.0, 0.9502718049187666, 2.8035601130611036, 6.38905609893065, 13.467069533669397, 26.886006392229614, 53.598150033144236]> : tensor<13xbf16>, atol 1.0e-12, rtol 1.6e-2) : tensor<13xbf16>
  %z = math.expm1 %x : tensor<13xbf16>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xbf16>
  return
}

func.func @floor_bf16() {
  %x = util.unfoldable_constant dense<[-4.0, -3.328125, -2.671875, -2.0, -1.3359375, -0.66796875, 0.0, 0.66796875, 1.3359375, 2.0, 2.671875, 3.328125, 4.0]> : tensor<13xbf16>
  %empty = tensor.empty() : tensor<13xbf16>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xbf16>) outs(%empty : tensor<13xbf16>) {
  ^bb0(%in: bf16, %out: bf16):
    %r = math.floor %in : bf16
    linalg.yield %r : bf16
  } -> tensor<13xbf16>
  check.expect_almost_eq_const(%y, dense<[-4.0, -4.0, -3.0, -2.0, -2.0, -1.0, 0.0, 0.0, 1.0, 2.0, 2.0, 3.0, 4.0]> : tensor<13xbf16>, atol 1.0e-12, rtol 1.6e-2) : tensor<13xbf16>
  %z = math.floor %x : tensor<13xbf16>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xbf16>
  return
}

func.func @log_bf16() {
  %x = util.unfoldable_constant dense<[0.125, 0.86328125, 1.6015625, 2.34375, 3.078125, 3.828125, 4.5625, 5.3125, 6.03125, 6.78125, 7.53125, 8.25, 9.0]> : tensor<13xbf16>
  %empty = tensor.empty() : tensor<13xbf16>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xbf16>) outs(%empty : tensor<13xbf16>) {
  ^bb0(%in: bf16, %out: bf16):
    %r = math.log %in : bf16
    linalg.yield %r : bf16
  } -> tensor<13xbf16>
  check.expect_almost_eq_const(%y, dense<[-2.0794415416798357, -0.14701474296180966, 0.470979715218791, 0.8517522107365839, 1.1243206453783166, 1.342375127185055, 1.5178707189086098, 1.6700625342505353, 1.796954286105159, 1.914161450740733, 2.0190610306909282, 2.1102132003465894, 2.1972245773362196]> : tensor<13xbf16>, atol 1.0e-12, rtol 1.6e-2) : tensor<13xbf16>
  %z = math.log %x : tensor<13xbf16>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xbf16>
  return
}

func.func @log10_bf16() {
  %x = util.unfoldable_constant dense<[0.125, 0.86328125, 1.6015625, 2.34375, 3.078125, 3.828125, 4.5625, 5.3125, 6.03125, 6.78125, 7.53125, 8.25, 9.0]> : tensor<13xbf16>
  %empty = tensor.empty() : tensor<13xbf16>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xbf16>) outs(%empty : tensor<13xbf16>) {
  ^bb0(%in: bf16, %out: bf16):
    %r = math.log10 %in : bf16
    linalg.yield %r : bf16
  } -> tensor<13xbf16>
  check.expect_almost_eq_const(%y, dense<[-0.9030899869919435, -0.06384769162673887, 0.20454389140788592, 0.36991128507179405, 0.48828625217770577, 0.5829861103806453, 0.6592028774645311, 0.725298943058368, 0.7804073306878678, 0.8313097555286235, 0.8768670642549624, 0.9164539485499251, 0.9542425094393249]> : tensor<13xbf16>, atol 1.0e-12, rtol 1.6e-2) : tensor<13xbf16>
  %z = math.log10 %x : tensor<13xbf16>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xbf16>
  return
}

func.func @log1p_bf16() {
  %x = util.unfoldable_constant dense<[-0.875, -0.052001953125, 0.76953125, 1.59375, 2.421875, 3.234375, 4.0625, 4.875, 5.71875, 6.53125, 7.34375, 8.1875, 9.0]> : tensor<13xbf16>
  %empty = tensor.empty() : tensor<13xbf16>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xbf16>) outs(%empty : tensor<13xbf16>) {
  ^bb0(%in: bf16, %out: bf16):
    %r = math.log1p %in : bf16
    linalg.yield %r : bf16
  } -> tensor<13xbf16>
  check.expect_almost_eq_const(%y, dense<[-2.0794415416798357, -0.0534028369876764, 0.5707146810034716, 0.9531047049968714, 1.230188646456829, 1.443235737520029, 1.6218604324326575, 1.7707060600302227, 1.9049021253279363, 2.0190610306909282, 2.121512755600523, 2.217843864538955, 2.302585092994046]> : tensor<13xbf16>, atol 1.0e-12, rtol 1.6e-2) : tensor<13xbf16>
  %z = math.log1p %x : tensor<13xbf16>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xbf16>
  return
}

func.func @log2_bf16() {
  %x = util.unfoldable_constant dense<[0.125, 0.86328125, 1.6015625, 2.34375, 3.078125, 3.828125, 4.5625, 5.3125, 6.03125, 6.78125, 7.53125, 8.25, 9.0]> : tensor<13xbf16>
  %empty = tensor.empty() : tensor<13xbf16>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xbf16>) outs(%empty : tensor<13xbf16>) {
  ^bb0(%in: bf16, %out: bf16):
    %r = math.log2 %in : bf16
    linalg.yield %r : bf16
  } -> tensor<13xbf16>
  check.expect_almost_eq_const(%y, dense<[-3.0, -0.21209744060856844, 0.6794800995054461, 1.2288186904958809, 1.6220518194563762, 1.9366379390025705, 2.189824558880017, 2.4093909361377017, 2.5924570372680806, 2.7615512324444795, 2.9128893362299615, 3.0443941193584534, 3.169925001442312]> : tensor<13xbf16>, atol 1.0e-12, rtol 1.6e-2) : tensor<13xbf16>
  %z = math.log2 %x : tensor<13xbf16>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xbf16>
  return
}

func.func @rsqrt_bf16() {
  %x = util.unfoldable_constant dense<[0.125, 0.86328125, 1.6015625, 2.34375, 3.078125, 3.828125, 4.5625, 5.3125, 6.03125, 6.78125, 7.53125, 8.25, 9.0]> : tensor<13xbf16>
  %empty = tensor.empty() : tensor<13xbf16>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xbf16>) outs(%empty : tensor<13xbf16>) {
  ^bb0(%in: bf16, %out: bf16):
    %r = math.rsqrt %in : bf16
    linalg.yield %r : bf16
  } -> tensor<13xbf16>
  check.expect_almost_eq_const(%y, dense<[2.8284271247461903, 1.0762764703941, 0.7901836773196717, 0.6531972647421809, 0.5699763999032772, 0.5111012519999519, 0.4681645887845223, 0.4338609156373123, 0.40718927884743006, 0.3840122885898555, 0.3643900149394216, 0.3481553119113957, 0.3333333333333333]> : tensor<13xbf16>, atol 1.0e-12, rtol 1.6e-2) : tensor<13xbf16>
  %z = math.rsqrt %x : tensor<13xbf16>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xbf16>
  return
}

func.func @sin_bf16() {
  %x = util.unfoldable_constant dense<[-4.0, -3.328125, -2.671875, -2.0, -1.3359375, -0.66796875, 0.0, 0.66796875, 1.3359375, 2.0, 2.671875, 3.328125, 4.0]> : tensor<13xbf16>
  %empty = tensor.empty() : tensor<13xbf16>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xbf16>) outs(%empty : tensor<13xbf16>) {
  ^bb0(%in: bf16, %out: bf16):
    %r = math.sin %in : bf16
    linalg.yield %r : bf16
  } -> tensor<13xbf16>
  check.expect_almost_eq_const(%y, dense<[0.7568024953079282, 0.1854525158126556, -0.45263453622485383, -0.9092974268256817, -0.9725472028320404, -0.6193925692862192, 0.0, 0.6193925692862192, 0.9725472028320404, 0.9092974268256817, 0.45263453622485383, -0.1854525158126556, -0.7568024953079282]> : tensor<13xbf16>, atol 1.0e-12, rtol 1.6e-2) : tensor<13xbf16>
  %z = math.sin %x : tensor<13xbf16>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xbf16>
  return
}

func.func @sinh_bf16() {
  %x = util.unfoldable_constant dense<[-4.0, -3.328125, -2.671875, -2.0, -1.3359375, -0.66796875, 0.0, 0.66796875, 1.3359375, 2.0, 2.671875, 3.328125, 4.0]> : tensor<13xbf16>
  %empty = tensor.empty() : tensor<13xbf16>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xbf16>) outs(%empty : tensor<13xbf16>) {
  ^bb0(%in: bf16, %out: bf16):
    %r = math.sinh %in : bf16
    linalg.yield %r : bf16
  } -> tensor<13xbf16>
  check.expect_almost_eq_const(%y, dense<[-27.289917197127753, -13.925073056066525, -7.198973517313063, -3.6268604078470186, -1.7703242663925067, -0.7187613813598352, 0.0, 0.7187613813598352, 1.7703242663925067, 3.6268604078470186, 7.198973517313063, 13.925073056066525, 27.289917197127753]> : tensor<13xbf16>, atol 1.0e-12, rtol 1.6e-2) : tensor<13xbf16>
  %z = math.sinh %x : tensor<13xbf16>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xbf16>
  return
}

func.func @sqrt_bf16() {
  %x = util.unfoldable_constant dense<[0.0, 0.75, 1.5, 2.25, 3.0, 3.75, 4.5, 5.25, 6.0, 6.75, 7.5, 8.25, 9.0]> : tensor<13xbf16>
  %empty = tensor.empty() : tensor<13xbf16>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xbf16>) outs(%empty : tensor<13xbf16>) {
  ^bb0(%in: bf16, %out: bf16):
    %r = math.sqrt %in : bf16
    linalg.yield %r : bf16
  } -> tensor<13xbf16>
  check.expect_almost_eq_const(%y, dense<[0.0, 0.8660254037844386, 1.224744871391589, 1.5, 1.7320508075688772, 1.9364916731037085, 2.1213203435596424, 2.29128784747792, 2.449489742783178, 2.598076211353316, 2.7386127875258306, 2.8722813232690143, 3.0]> : tensor<13xbf16>, atol 1.0e-12, rtol 1.6e-2) : tensor<13xbf16>
  %z = math.sqrt %x : tensor<13xbf16>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xbf16>
  return
}

func.func @tan_bf16() {
  %x = util.unfoldable_constant dense<[-4.0, -3.328125, -2.671875, -2.0, -1.3359375, -0.66796875, 0.0, 0.66796875, 1.3359375, 2.0, 2.671875, 3.328125, 4.0]> : tensor<13xbf16>
  %empty = tensor.empty() : tensor<13xbf16>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xbf16>) outs(%empty : tensor<13xbf16>) {
  ^bb0(%in: bf16, %out: bf16):
    %r = math.tan %in : bf16
    linalg.yield %r : bf16
  } -> tensor<13xbf16>
  check.expect_almost_eq_const(%y, dense<[-1.1578212823495775, -0.1887263082559609, 0.5076107480001112, 2.185039863261519, -4.179301339332887, -0.7889532842618026, 0.0, 0.7889532842618026, 4.179301339332887, -2.185039863261519, -0.5076107480001112, 0.1887263082559609, 1.1578212823495775]> : tensor<13xbf16>, atol 1.0e-12, rtol 1.6e-2) : tensor<13xbf16>
  %z = math.tan %x : tensor<13xbf16>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xbf16>
  return
}

func.func @tanh_bf16() {
  %x = util.unfoldable_constant dense<[-4.0, -3.328125, -2.671875, -2.0, -1.3359375, -0.66796875, 0.0, 0.66796875, 1.3359375, 2.0, 2.671875, 3.328125, 4.0]> : tensor<13xbf16>
  %empty = tensor.empty() : tensor<13xbf16>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xbf16>) outs(%empty : tensor<13xbf16>) {
  ^bb0(%in: bf16, %out: bf16):
    %r = math.tanh %in : bf16
    linalg.yield %r : bf16
  } -> tensor<13xbf16>
  check.expect_almost_eq_const(%y, dense<[-0.999329299739067, -0.9974313837597321, -0.9904896001803339, -0.9640275800758169, -0.8706930232875522, -0.58364214188516, 0.0, 0.58364214188516, 0.8706930232875522, 0.9640275800758169, 0.9904896001803339, 0.9974313837597321, 0.999329299739067]> : tensor<13xbf16>, atol 1.0e-12, rtol 1.6e-2) : tensor<13xbf16>
  %z = math.tanh %x : tensor<13xbf16>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xbf16>
  return
}

func.func @absf_bf16() {
  %x = util.unfoldable_constant dense<[-4.0, -3.328125, -2.671875, -2.0, -1.3359375, -0.66796875, 0.0, 0.66796875, 1.3359375, 2.0, 2.671875, 3.328125, 4.0]> : tensor<13xbf16>
  %empty = tensor.empty() : tensor<13xbf16>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xbf16>) outs(%empty : tensor<13xbf16>) {
  ^bb0(%in: bf16, %out: bf16):
    %r = math.absf %in : bf16
    linalg.yield %r : bf16
  } -> tensor<13xbf16>
  check.expect_almost_eq_const(%y, dense<[4.0, 3.328125, 2.671875, 2.0, 1.3359375, 0.66796875, 0.0, 0.66796875, 1.3359375, 2.0, 2.671875, 3.328125, 4.0]> : tensor<13xbf16>, atol 1.0e-12, rtol 1.6e-2) : tensor<13xbf16>
  %z = math.absf %x : tensor<13xbf16>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xbf16>
  return
}

func.func @roundeven_bf16() {
  %x = util.unfoldable_constant dense<[-4.0, -3.328125, -2.671875, -2.0, -1.3359375, -0.66796875, 0.0, 0.66796875, 1.3359375, 2.0, 2.671875, 3.328125, 4.0]> : tensor<13xbf16>
  %empty = tensor.empty() : tensor<13xbf16>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xbf16>) outs(%empty : tensor<13xbf16>) {
  ^bb0(%in: bf16, %out: bf16):
    %r = math.roundeven %in : bf16
    linalg.yield %r : bf16
  } -> tensor<13xbf16>
  check.expect_almost_eq_const(%y, dense<[-4.0, -3.0, -3.0, -2.0, -1.0, -1.0, 0.0, 1.0, 1.0, 2.0, 3.0, 3.0, 4.0]> : tensor<13xbf16>, atol 1.0e-12, rtol 1.6e-2) : tensor<13xbf16>
  %z = math.roundeven %x : tensor<13xbf16>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xbf16>
  return
}

func.func @trunc_bf16() {
  %x = util.unfoldable_constant dense<[-4.0, -3.328125, -2.671875, -2.0, -1.3359375, -0.66796875, 0.0, 0.66796875, 1.3359375, 2.0, 2.671875, 3.328125, 4.0]> : tensor<13xbf16>
  %empty = tensor.empty() : tensor<13xbf16>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xbf16>) outs(%empty : tensor<13xbf16>) {
  ^bb0(%in: bf16, %out: bf16):
    %r = math.trunc %in : bf16
    linalg.yield %r : bf16
  } -> tensor<13xbf16>
  check.expect_almost_eq_const(%y, dense<[-4.0, -3.0, -2.0, -2.0, -1.0, 0.0, 0.0, 0.0, 1.0, 2.0, 2.0, 3.0, 4.0]> : tensor<13xbf16>, atol 1.0e-12, rtol 1.6e-2) : tensor<13xbf16>
  %z = math.trunc %x : tensor<13xbf16>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xbf16>
  return
}

func.func @atan2_bf16() {
  %x = util.unfoldable_constant dense<[0.5, 0.79296875, 1.0859375, 1.375, 1.6640625, 1.9609375, 2.25, 2.546875, 2.828125, 3.125, 3.421875, 3.703125, 4.0]> : tensor<13xbf16>
  %w = util.unfoldable_constant dense<[-3.0, -2.5, -2.0, -1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0]> : tensor<13xbf16>
  %y = math.atan2 %x, %w : tensor<13xbf16>
  check.expect_almost_eq_const(%y, dense<[2.976443976175166, 2.8344430398580203, 2.644163737777621, 2.399645385583876, 2.111905958080829, 1.8204566036584349, 1.5707963267948966, 1.3769426647666798, 1.2309258447368707, 1.1232763516377267, 1.041870573239343, 0.9769741963161364, 0.9272952180016122]> : tensor<13xbf16>, atol 1.0e-12, rtol 1.6e-2) : tensor<13xbf16>
  return
}

func.func @powf_bf16() {
  %x = util.unfoldable_constant dense<[0.5, 0.79296875, 1.0859375, 1.375, 1.6640625, 1.9609375, 2.25, 2.546875, 2.828125, 3.125, 3.421875, 3.703125, 4.0]> : tensor<13xbf16>
  %w = util.unfoldable_constant dense<[-3.0, -2.5, -2.0, -1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0]> : tensor<13xbf16>
  %y = math.powf %x, %w : tensor<13xbf16>
  check.expect_almost_eq_const(%y, dense<[8.0, 1.7859110257325899, 0.8479892345116712, 0.6202202657617758, 0.6009389671361502, 0.7141149482839229, 1.0, 1.595893166850463, 2.828125, 5.524271728019903, 11.709228515625, 26.388878288478885, 64.0]> : tensor<13xbf16>, atol 1.0e-12, rtol 1.6e-2) : tensor<13xbf16>
  return
}

func.func @copysign_bf16() {
  %x = util.unfoldable_constant dense<[0.5, 0.79296875, 1.0859375, 1.375, 1.6640625, 1.9609375, 2.25, 2.546875, 2.828125, 3.125, 3.421875, 3.703125, 4.0]> : tensor<13xbf16>
  %w = util.unfoldable_constant dense<[-3.0, -2.5, -2.0, -1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0]> : tensor<13xbf16>
  %y = math.copysign %x, %w : tensor<13xbf16>
  check.expect_almost_eq_const(%y, dense<[-0.5, -0.79296875, -1.0859375, -1.375, -1.6640625, -1.9609375, 2.25, 2.546875, 2.828125, 3.125, 3.421875, 3.703125, 4.0]> : tensor<13xbf16>, atol 1.0e-12, rtol 1.6e-2) : tensor<13xbf16>
  return
}
