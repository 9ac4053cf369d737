// Functions of math on f16, as bodies of generics and on whole tensors; expected values are mpmath's.

func.func @acos_f16() {
  %x = util.unfoldable_constant dense<[-1.0, -0.83349609375, -0.66650390625, -0.5, -0.333251953125, -0.1666259765625, 0.0, 0.1666259765625, 0.333251953125, 0.5, 0.66650390625, 0.83349609375, 1.0]> : tensor<13xf16>
  %empty = tensor.empty() : tensor<13xf16>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf16>) outs(%empty : tensor<13xf16>) {
  ^bb0(%in: f16, %out: f16):
    %r = math.acos %in : f16
    linalg.yield %r : f16
  } -> tensor<13xf16>
  check.expect_almost_eq_const(%y, dense<[3.141592653589793, 2.556201620189189, 2.300305638327343, 2.0943951023931957, 1.91054692082021, 1.738203138860908, 1.5707963267948966, 1.4033895147288853, 1.2310457327695834, 1.0471975511965979, 0.8412870152624506, 0.585391033400604, 0.0]> : tensor<13xf16>, atol 1.0e-12, rtol 2.0e-3) : tensor<13xf16>
  %z = math.acos %x : tensor<13xf16>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf16>
  return
}

func.func @acosh_f16() {
  %x = util.unfoldable_constant dense<[1.0, 1.6669921875, 2.333984375, 3.0, 3.666015625, 4.33203125, 5.0, 5.66796875, 6.33203125, 7.0, 7.66796875, 8.3359375, 9.0]> : tensor<13xf16>
  %empty = tensor.empty() : tensor<13xf16>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf16>) outs(%empty : tensor<13xf16>) {
  ^bb0(%in: f16, %out: f16):
    %r = math.acosh %in : f16
    linalg.yield %r : f16
  } -> tensor<13xf16>
  check.expect_almost_eq_const(%y, dense<[0.0, 1.0988563920491474, 1.4913050724094832, 1.762747174039086, 1.9731093514210678, 2.145587744274453, 2.2924316695611777, 2.420103658081811, 2.5324738682160857, 2.6339157938496336, 2.7259196899625917, 2.8101058444587883, 2.8872709503576206]> : tensor<13xf16>, atol 1.0e-12, rtol 2.0e-3) : tensor<13xf16>
  %z = math.acosh %x : tensor<13xf16>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf16>
  return
}

func.func @asin_f16() {
  %x = util.unfoldable_constant dense<[-1.0, -0.83349609375, -0.66650390625, -0.5, -0.333251953125, -0.1666259765625, 0.0, 0.1666259765625, 0.333251953125, 0.5, 0.66650390625, 0.83349609375, 1.0]> : tensor<13xf16>
  %empty = tensor.empty() : tensor<13xf16>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf16>) outs(%empty : tensor<13xf16>) {
  ^bb0(%in: f16, %out: f16):
    %r = math.asin %in : f16
    linalg.yield %r : f16
  } -> tensor<13xf16>
  check.expect_almost_eq_const(%y, dense<[-1.5707963267948966, -0.9854052933942925, -0.729509311532446, -0.5235987755982989, -0.33975059402531327, -0.16740681206601135, 0.0, 0.16740681206601135, 0.33975059402531327, 0.5235987755982989, 0.729509311532446, 0.9854052933942925, 1.5707963267948966]> : tensor<13xf16>, atol 1.0e-12, rtol 2.0e-3) : tensor<13xf16>
  %z = math.asin %x : tensor<13xf16>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf16>
  return
}

func.func @asinh_f16() {
  %x = util.unfoldable_constant dense<[-4.0, -3.333984375, -2.666015625, -2.0, -1.3330078125, -0.66650390625, 0.0, 0.66650390625, 1.3330078125, 2.0, 2.666015625, 3.333984375, 4.0]> : tensor<13xf16>
  %empty = tensor.empty() : tensor<13xf16>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf16>) outs(%empty : tensor<13xf16>) {
  ^bb0(%in: f16, %out: f16):
    %r = math.asinh %in : f16
    linalg.yield %r : f16
  } -> tensor<13xf16>
  check.expect_almost_eq_const(%y, dense<[-2.0947125472611012, -1.9190835307861451, -1.707182815584799, -1.4436354751788103, -1.0984169609081782, -0.625009687311284, 0.0, 0.625009687311284, 1.0984169609081782, 1.4436354751788103, 1.707182815584799, 1.9190835307861451, 2.0947125472611012]> : tensor<13xf16>, atol 1.0e-12, rtol 2.0e-3) : tensor<13xf16>
  %z = math.asinh %x : tensor<13xf16>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf16>
  return
}

func.func @atan_f16() {
  %x = util.unfoldable_constant dense<[-4.0, -3.333984375, -2.666015625, -2.0, -1.3330078125, -0.66650390625, 0.0, 0.66650390625, 1.3330078125, 2.0, 2.666015625, 3.333984375, 4.0]> : tensor<13xf16>
  %empty = tensor.empty() : tensor<13xf16>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf16>) outs(%empty : tensor<13xf16>) {
  ^bb0(%in: f16, %out: f16):
    %r = math.atan %in : f16
    linalg.yield %r : f16
  } -> tensor<13xf16>
  check.expect_almost_eq_const(%y, dense<[-1.3258176636680326, -1.2793932784203852, -1.2119453739297634, -1.1071487177940904, -0.9271780121887406, -0.5878899147943821, 0.0, 0.5878899147943821, 0.9271780121887406, 1.1071487177940904, 1.2119453739297634, 1.2793932784203852, 1.3258176636680326]> : tensor<13xf16>, atol 1.0e-12, rtol 2.0e-3) : tensor<13xf16>
  %z = math.atan %x : tensor<13xf16>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf16>
  return
}

func.func @atanh_f16() {
  %x = util.unfoldable_constant dense<[-0.875, -0.72900390625, -0.58349609375, -0.4375, -0.291748046875, -0.1458740234375, 0.0, 0.1458740234375, 0.291748046875, 0.4375, 0.58349609375, 0.72900390625, 0.875]> : tensor<13xf16>
  %empty = tensor.empty() : tensor<13xf16>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf16>) outs(%empty : tensor<13xf16>) {
  ^bb0(%in: f16, %out: f16):
    %r = math.atanh %in : f16
    linalg.yield %r : f16
  } -> tensor<13xf16>
  check.expect_almost_eq_const(%y, dense<[-1.354025100551105, -0.9265981691827346, -0.6677472794078194, -0.46913481929646517, -0.30047587939136383, -0.14692213379554755, 0.0, 0.14692213379554755, 0.30047587939136383, 0.46913481929646517, 0.6677472794078194, 0.9265981691827346, 1.354025100551105]> : tensor<13xf16>, atol 1.0e-12, rtol 2.0e-3) : tensor<13xf16>
  %z = math.atanh %x : tensor<13xf16>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf16>
  return
}

func.func @cbrt_f16() {
  %x = util.unfoldable_constant dense<[-4.0, -3.333984375, -2.666015625, -2.0, -1.3330078125, -0.66650390625, 0.0, 0.66650390625, 1.3330078125, 2.0, 2.666015625, 3.333984375, 4.0]> : tensor<13xf16>
  %empty = tensor.empty() : tensor<13xf16>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf16>) outs(%empty : tensor<13xf16>) {
  ^bb0(%in: f16, %out: f16):
    %r = math.cbrt %in : f16
    linalg.yield %r : f16
  } -> tensor<13xf16>
  check.expect_almost_eq_const(%y, dense<[-1.5874010519681996, -1.4938988285620256, -1.386609687746209, -1.2599210498948732, -1.1005528384988146, -0.8735093667898031, 0.0, 0.8735093667898031, 1.1005528384988146, 1.2599210498948732, 1.386609687746209, 1.4938988285620256, 1.5874010519681996]> : tensor<13xf16>, atol 1.0e-12, rtol 2.0e-3) : tensor<13xf16>
  %z = math.cbrt %x : tensor<13xf16>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf16>
  return
}

func.func @ceil_f16() {
  %x = util.unfoldable_constant dense<[-4.0, -3.333984375, -2.666015625, -2.0, -1.3330078125, -0.66650390625, 0.0, 0.66650390625, 1.3330078125, 2.0, 2.666015625, 3.333984375, 4.0]> : tensor<13xf16>
  %empty = tensor.empty() : tensor<13xf16>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf16>) outs(%empty : tensor<13xf16>) {
  ^bb0(%in: f16, %out: f16):
    %r = math.ceil %in : f16
    linalg.yield %r : f16
  } -> tensor<13xf16>
  check.expect_almost_eq_const(%y, dense<[-4.0, -3.0, -2.0, -2.0, -1.0, 0.0, 0.0, 1.0, 2.0, 2.0, 3.0, 4.0, 4.0]> : tensor<13xf16>, atol 1.0e-12, rtol 2.0e-3) : tensor<13xf16>
  %z = math.ceil %x : tensor<13xf16>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf16>
  return
}

func.func @cos_f16() {
  %x = util.unfoldable_constant dense<[-4.0, -3.333984375, -2.666015625, -2.0, -1.3330078125, -0.66650390625, 0.0, 0.66650390625, 1.3330078125, 2.0, 2.666015625, 3.333984375, 4.0]> : tensor<13xf16>
  %empty = tensor.empty() : tensor<13xf16>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf16>) outs(%empty : tensor<13xf16>) {
  ^bb0(%in: f16, %out: f16):
    %r = math.cos %in : f16
    linalg.yield %r : f16
  } -> tensor<13xf16>
  check.expect_almost_eq_const(%y, dense<[-0.6536436208636119, -0.9815497289918459, -0.8890286762282443, -0.4161468365471424, 0.2355539468696668, 0.785987896493854, 1.0, 0.785987896493854, 0.2355539468696668, -0.4161468365471424, -0.8890286762282443, -0.9815497289918459, -0.6536436208636119]> : tensor<13xf16>, atol 1.0e-12, rtol 2.0e-3) : tensor<13xf16>
  %z = math.cos %x : tensor<13xf16>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf16>
  return
}

func.func @cosh_f16() {
  %x = util.unfoldable_constant dense<[-4.0, -3.333984375, -2.666015625, -2.0, -1.3330078125, -0.66650390625, 0.0, 0.66650390625, 1.3330078125, 2.0, 2.666015625, 3.333984375, 4.0]> : tensor<13xf16>
  %empty = tensor.empty() : tensor<13xf16>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf16>) outs(%empty : tensor<13xf16>) {
  ^bb0(%in: f16, %out: f16):
    %r = math.cosh %in : f16
    linalg.yield %r : f16
  } -> tensor<13xf16>
  check.expect_almost_eq_const(%y, dense<[27.308232836016487, 14.042765683965902, 7.226039055032474, 3.7621956910836314, 2.0280580680829225, 1.2304588713327484, 1.0, 1.2304588713327484, 2.0280580680829225, 3.7621956910836314, 7.226039055032474, 14.042765683965902, 27.308232836016487]> : tensor<13xf16>, atol 1.0e-12, rtol 2.0e-3) : tensor<13xf16>
  %z = math.cosh %x : tensor<13xf16>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf16>
  return
}

func.func @erf_f16() {
  %x = util.unfoldable_constant dense<[-4.0, -3.333984375, -2.666015625, -2.0, -1.3330078125, -0.66650390625, 0.0, 0.66650390625, 1.3330078125, 2.0, 2.666015625, 3.333984375, 4.0]> : tensor<13xf16>
  %empty = tensor.empty() : tensor<13xf16>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf16>) outs(%empty : tensor<13xf16>) {
  ^bb0(%in: f16, %out: f16):
    %r = math.erf %in : f16
    linalg.yield %r : f16
  } -> tensor<13xf16>
  check.expect_almost_eq_const(%y, dense<[-0.9999999845827421, -0.9999975824879058, -0.9998369586704979, -0.9953222650189527, -0.9405914538203203, -0.6541036447902245, 0.0, 0.6541036447902245, 0.9405914538203203, 0.9953222650189527, 0.9998369586704979, 0.9999975824879058, 0.9999999845827421]> : tensor<13xf16>, atol 1.0e-12, rtol 2.0e-3) : tensor<13xf16>
  %z = math.erf %x : tensor<13xf16>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf16>
  return
}

func.func @erfc_f16() {
  %x = util.unfoldable_constant dense<[-4.0, -3.333984375, -2.666015625, -2.0, -1.3330078125, -0.66650390625, 0.0, 0.66650390625, 1.3330078125, 2.0, 2.666015625, 3.333984375, 4.0]> : tensor<13xf16>
  %empty = tensor.empty() : tensor<13xf16>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf16>) outs(%empty : tensor<13xf16>) {
  ^bb0(%in: f16, %out: f16):
    %r = math.erfc %in : f16
    linalg.yield %r : f16
  } -> tensor<13xf16>
  check.expect_almost_eq_const(%y, dense<[1.999999984582742, 1.999997582487906, 1.9998369586704978, 1.9953222650189528, 1.9405914538203204, 1.6541036447902244, 1.0, 0.34589635520977546, 0.05940854617967967, 0.004677734981047266, 0.0001630413295021219, 2.417512094127735e-06, 1.541725790028002e-08]> : tensor<13xf16>, atol 1.0e-12, rtol 2.0e-3) : tensor<13xf16>
  %z = math.erfc %x : tensor<13xf16>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf16>
  return
}

func.func @exp_f16() {
  %x = util.unfoldable_constant dense<[-4.0, -3.333984375, -2.666015625, -2.0, -1.3330078125, -0.66650390625, 0.0, 0.66650390625, 1.3330078125, 2.0, 2.666015625, 3.333984375, 4.0]> : tensor<13xf16>
  %empty = tensor.empty() : tensor<13xf16>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf16>) outs(%empty : tensor<13xf16>) {
  ^bb0(%in: f16, %out: f16):
    %r = math.exp %in : f16
    linalg.yield %r : f16
  } -> tensor<13xf16>
  check.expect_almost_eq_const(%y, dense<[0.01831563888873418, 0.03565077564983124, 0.06952870257335038, 0.1353352832366127, 0.2636829584431849, 0.513500689817633, 1.0, 1.947417052847864, 3.7924331777226605, 7.38905609893065, 14.382549407491597, 28.049880592281973, 54.598150033144236]> : tensor<13xf16>, atol 1.0e-12, rtol 2.0e-3) : tensor<13xf16>
  %z = math.exp %x : tensor<13xf16>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf16>
  return
}

func.func @exp2_f16() {
  %x = util.unfoldable_constant dense<[-4.0, -3.333984375, -2.666015625, -2.0, -1.3330078125, -0.66650390625, 0.0, 0.66650390625, 1.3330078125, 2.0, 2.666015625, 3.333984375, 4.0]> : tensor<13xf16>
  %empty = tensor.empty() : tensor<13xf16>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf16>) outs(%empty : tensor<13xf16>) {
  ^bb0(%in: f16, %out: f16):
    %r = math.exp2 %in : f16
    linalg.yield %r : f16
  } -> tensor<13xf16>
  check.expect_almost_eq_const(%y, dense<[0.0625, 0.09916780442251487, 0.15756121748373134, 0.25, 0.39693981594661343, 0.6300315991651636, 1.0, 1.5872219763660596, 2.51927360225938, 4.0, 6.346739483040952, 10.083917918958806, 16.0]> : tensor<13xf16>, atol 1.0e-12, rtol 2.0e-3) : tensor<13xf16>
  %z = math.exp2 %x : tensor<13xf16>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf16>
  return
}

func.func @expm1_f16() {
  %x = util.unfoldable_constant dense<[-4.0, -3.333984375, -2.666015625, -2.0, -1.3330078125, -0.66650390625, 0.0, 0.66650390625, 1.3330078125, 2.0, 2.666015625, 3.333984375, 4.0]> : tensor<13xf16>
  %empty = tensor.empty() : tensor<13xf16>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf16>) outs(%empty : tensor<13xf16>) {
  ^bb0(%in: f16, %out: f16):
    %r = math.expm1 %in : f16
    linalg.yield %r : f16
  } -> tensor<13xf16>
  check.expect_almost_eq_const(%y, dense<[-0.9816843611112658, -0.9643492243501688, -0.9304712974266496, -0.8646647167633873, -0.7363170415568151, -0.48649931018236703, 0.0, 0.947417052847864, 2.7924331777226605, 6.38905609893065, 13.382549407491597, 27.049880592281973, 53.598150033144236]> : tensor<13xf16>, atol 1.0e-12, rtol 2.0e-3) : tensor<13xf16>
  %z = math.expm1 %x : tensor<13xf16>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf16>
  return
}

func.func @floor_f16() {
  %x = util.unfoldable_constant dense<[-4.0, -3.333984375, -2.666015625, -2.0, -1.3330078125, -0.66650390625, 0.0, 0.66650390625, 1.3330078125, 2.0, 2.666015625, 3.333984375, 4.0]> : tensor<13xf16>
  %empty = tensor.empty() : tensor<13xf16>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf16>) outs(%empty : tensor<13xf16>) {
  ^bb0(%in: f16, %out: f16):
    %r = math.floor %in : f16
    linalg.yield %r : f16
  } -> tensor<13xf16>
  check.expect_almost_eq_const(%y, dense<[-4.0, -4.0, -3.0, -2.0, -2.0, -1.0, 0.0, 0.0, 1.0, 2.0, 2.0, 3.0, 4.0]> : tensor<13xf16>, atol 1.0e-12, rtol 2.0e-3) : tensor<13xf16>
  %z = math.floor %x : tensor<13xf16>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf16>
  return
}

func.func @log_f16() {
  %x = util.unfoldable_constant dense<[0.125, 0.86474609375, 1.6044921875, 2.34375, 3.083984375, 3.822265625, 4.5625, 5.30078125, 6.04296875, 6.78125, 7.51953125, 8.2578125, 9.0]> : tensor<13xf16>
  %empty = tensor.empty() : tensor<13xf16>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf16>) outs(%empty : tensor<13xf16>) {
  ^bb0(%in: f16, %out: f16):
    %r = math.log %in : f16
    linalg.yield %r : f16
  } -> tensor<13xf16>
  check.expect_almost_eq_const(%y, dense<[-2.0794415416798357, -0.14531934837656488, 0.472807312437815, 0.8517522107365839, 1.1262223892161343, 1.3408433423565684, 1.5178707189086098, 1.6678542153553066, 1.7988954060935036, 1.914161450740733, 2.017503802242322, 2.1111597219506204, 2.1972245773362196]> : tensor<13xf16>, atol 1.0e-12, rtol 2.0e-3) : tensor<13xf16>
  %z = math.log %x : tensor<13xf16>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf16>
  return
}

func.func @log10_f16() {
  %x = util.unfoldable_constant dense<[0.125, 0.86474609375, 1.6044921875, 2.34375, 3.083984375, 3.822265625, 4.5625, 5.30078125, 6.04296875, 6.78125, 7.51953125, 8.2578125, 9.0]> : tensor<13xf16>
  %empty = tensor.empty() : tensor<13xf16>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf16>) outs(%empty : tensor<13xf16>) {
  ^bb0(%in: f16, %out: f16):
    %r = math.log10 %in : f16
    linalg.yield %r : f16
  } -> tensor<13xf16>
  check.expect_almost_eq_const(%y, dense<[-0.9030899869919435, -0.0631113911137184, 0.20533760679524976, 0.36991128507179405, 0.48911216903246346, 0.5823208646821704, 0.6592028774645311, 0.7243398823478875, 0.781250348387518, 0.8313097555286235, 0.87619076853267, 0.9168650176595579, 0.9542425094393249]> : tensor<13xf16>, atol 1.0e-12, rtol 2.0e-3) : tensor<13xf16>
  %z = math.log10 %x : tensor<13xf16>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf16>
  return
}

func.func @log1p_f16() {
  %x = util.unfoldable_constant dense<[-0.875, -0.052093505859375, 0.77099609375, 1.59375, 2.416015625, 3.240234375, 4.0625, 4.88671875, 5.70703125, 6.53125, 7.35546875, 8.1796875, 9.0]> : tensor<13xf16>
  %empty = tensor.empty() : tensor<13xf16>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf16>) outs(%empty : tensor<13xf16>) {
  ^bb0(%in: f16, %out: f16):
    %r = math.log1p %in : f16
    linalg.yield %r : f16
  } -> tensor<13xf16>
  check.expect_almost_eq_const(%y, dense<[-2.0794415416798357, -0.05349941646461264, 0.571542153123504, 0.9531047049968714, 1.2284748499790943, 1.444618544838784, 1.6218604324326575, 1.772698754146933, 1.903156416417913, 2.0190610306909282, 2.122916264602843, 2.216993162658642, 2.302585092994046]> : tensor<13xf16>, atol 1.0e-12, rtol 2.0e-3) : tensor<13xf16>
  %z = math.log1p %x : tensor<13xf16>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf16>
  return
}

func.func @log2_f16() {
  %x = util.unfoldable_constant dense<[0.125, 0.86474609375, 1.6044921875, 2.34375, 3.083984375, 3.822265625, 4.5625, 5.30078125, 6.04296875, 6.78125, 7.51953125, 8.2578125, 9.0]> : tensor<13xf16>
  %empty = tensor.empty() : tensor<13xf16>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf16>) outs(%empty : tensor<13xf16>) {
  ^bb0(%in: f16, %out: f16):
    %r = math.log2 %in : f16
    linalg.yield %r : f16
  } -> tensor<13xf16>
  check.expect_almost_eq_const(%y, dense<[-3.0, -0.20965150324808576, 0.6821167649500743, 1.2288186904958809, 1.6247954558602369, 1.934428040626804, 2.189824558880017, 2.406205005418854, 2.595257481449036, 2.7615512324444795, 2.910642730469626, 3.045759661382683, 3.169925001442312]> : tensor<13xf16>, atol 1.0e-12, rtol 2.0e-3) : tensor<13xf16>
  %z = math.log2 %x : tensor<13xf16>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf16>
  return
}

func.func @rsqrt_f16() {
  %x = util.unfoldable_constant dense<[0.125, 0.86474609375, 1.6044921875, 2.34375, 3.083984375, 3.822265625, 4.5625, 5.30078125, 6.04296875, 6.78125, 7.51953125, 8.2578125, 9.0]> : tensor<13xf16>
  %empty = tensor.empty() : tensor<13xf16>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf16>) outs(%empty : tensor<13xf16>) {
  ^bb0(%in: f16, %out: f16):
    %r = math.rsqrt %in : f16
    linalg.yield %r : f16
  } -> tensor<13xf16>
  check.expect_almost_eq_const(%y, dense<[2.8284271247461903, 1.0753645003359193, 0.7894619383863174, 0.6531972647421809, 0.5694346829427077, 0.5114928505137922, 0.4681645887845223, 0.4343402318383225, 0.40679426894473714, 0.3840122885898555, 0.36467384467084146, 0.34799058263228455, 0.3333333333333333]> : tensor<13xf16>, atol 1.0e-12, rtol 2.0e-3) : tensor<13xf16>
  %z = math.rsqrt %x : tensor<13xf16>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf16>
  return
}

func.func @sin_f16() {
  %x = util.unfoldable_constant dense<[-4.0, -3.333984375, -2.666015625, -2.0, -1.3330078125, -0.66650390625, 0.0, 0.66650390625, 1.3330078125, 2.0, 2.666015625, 3.333984375, 4.0]> : tensor<13xf16>
  %empty = tensor.empty() : tensor<13xf16>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf16>) outs(%empty : tensor<13xf16>) {
  ^bb0(%in: f16, %out: f16):
    %r = math.sin %in : f16
    linalg.yield %r : f16
  } -> tensor<13xf16>
  check.expect_almost_eq_const(%y, dense<[0.7568024953079282, 0.19120703312387277, -0.45785151833739224, -0.9092974268256817, -0.9718612751386497, -0.618241883541682, 0.0, 0.618241883541682, 0.9718612751386497, 0.9092974268256817, 0.45785151833739224, -0.19120703312387277, -0.7568024953079282]> : tensor<13xf16>, atol 1.0e-12, rtol 2.0e-3) : tensor<13xf16>
  %z = math.sin %x : tensor<13xf16>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf16>
  return
}

func.func @sinh_f16() {
  %x = util.unfoldable_constant dense<[-4.0, -3.333984375, -2.666015625, -2.0, -1.3330078125, -0.66650390625, 0.0, 0.66650390625, 1.3330078125, 2.0, 2.666015625, 3.333984375, 4.0]> : tensor<13xf16>
  %empty = tensor.empty() : tensor<13xf16>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf16>) outs(%empty : tensor<13xf16>) {
  ^bb0(%in: f16, %out: f16):
    %r = math.sinh %in : f16
    linalg.yield %r : f16
  } -> tensor<13xf16>
  check.expect_almost_eq_const(%y, dense<[-27.289917197127753, -14.00711490831607, -7.156510352459123, -3.6268604078470186, -1.7643751096397378, -0.7169581815151155, 0.0, 0.7169581815151155, 1.7643751096397378, 3.6268604078470186, 7.156510352459123, 14.00711490831607, 27.289917197127753]> : tensor<13xf16>, atol 1.0e-12, rtol 2.0e-3) : tensor<13xf16>
  %z = math.sinh %x : tensor<13xf16>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf16>
  return
}

func.func @sqrt_f16() {
  %x = util.unfoldable_constant dense<[0.0, 0.75, 1.5, 2.25, 3.0, 3.75, 4.5, 5.25, 6.0, 6.75, 7.5, 8.25, 9.0]> : tensor<13xf16>
  %empty = tensor.empty() : tensor<13xf16>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf16>) outs(%empty : tensor<13xf16>) {
  ^bb0(%in: f16, %out: f16):
    %r = math.sqrt %in : f16
    linalg.yield %r : f16
  } -> tensor<13xf16>
  check.expect_almost_eq_const(%y, dense<[0.0, 0.8660254037844386, 1.224744871391589, 1.5, 1.7320508075688772, 1.9364916731037085, 2.1213203435596424, 2.29128784747792, 2.449489742783178, 2.598076211353316, 2.7386127875258306, 2.8722813232690143, 3.0]> : tensor<13xf16>, atol 1.0e-12, rtol 2.0e-3) : tensor<13xf16>
  %z = math.sqrt %x : tensor<13xf16>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf16>
  return
}

func.func @tan_f16() {
  %x = util.unfoldable_constant dense<[-4.0, -3.333984375, -2.666015625, -2.0, -1.3330078125, -0.66650390625, 0.0, 0.66650390625, 1.3330078125, 2.0, 2.666015625, 3.333984375, 4.0]> : tensor<13xf16>
  %empty = tensor.empty() : tensor<13xf16>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf16>) outs(%empty : tensor<13xf16>) {
  ^bb0(%in: f16, %out: f16):
    %r = math.tan %in : f16
    linalg.yield %r : f16
  } -> tensor<13xf16>
  check.expect_almost_eq_const(%y, dense<[-1.1578212823495775, -0.1948011674561434, 0.5150019685302546, 2.185039863261519, -4.125854344849444, -0.7865793942878053, 0.0, 0.7865793942878053, 4.125854344849444, -2.185039863261519, -0.5150019685302546, 0.1948011674561434, 1.1578212823495775]> : tensor<13xf16>, atol 1.0e-12, rtol 2.0e-3) : tensor<13xf16>
  %z = math.tan %x : tensor<13xf16>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf16>
  return
}

func.func @tanh_f16() {
  %x = util.unfoldable_constant dense<[-4.0, -3.333984375, -2.666015625, -2.0, -1.3330078125, -0.66650390625, 0.0, 0.66650390625, 1.3330078125, 2.0, 2.666015625, 3.333984375, 4.0]> : tensor<13xf16>
  %empty = tensor.empty() : tensor<13xf16>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf16>) outs(%empty : tensor<13xf16>) {
  ^bb0(%in: f16, %out: f16):
    %r = math.tanh %in : f16
    linalg.yield %r : f16
  } -> tensor<13xf16>
  check.expect_almost_eq_const(%y, dense<[-0.999329299739067, -0.997461271059266, -0.9903780339347975, -0.9640275800758169, -0.8699825401486465, -0.582675454026802, 0.0, 0.582675454026802, 0.8699825401486465, 0.9640275800758169, 0.9903780339347975, 0.997461271059266, 0.999329299739067]> : tensor<13xf16>, atol 1.0e-12, rtol 2.0e-3) : tensor<13xf16>
  %z = math.tanh %x : tensor<13xf16>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf16>
  return
}

func.func @absf_f16() {
  %x = util.unfoldable_constant dense<[-4.0, -3.333984375, -2.666015625, -2.0, -1.3330078125, -0.66650390625, 0.0, 0.66650390625, 1.3330078125, 2.0, 2.666015625, 3.333984375, 4.0]> : tensor<13xf16>
  %empty = tensor.empty() : tensor<13xf16>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf16>) outs(%empty : tensor<13xf16>) {
  ^bb0(%in: f16, %out: f16):
    %r = math.absf %in : f16
    linalg.yield %r : f16
  } -> tensor<13xf16>
  check.expect_almost_eq_const(%y, dense<[4.0, 3.333984375, 2.666015625, 2.0, 1.3330078125, 0.66650390625, 0.0, 0.66650390625, 1.3330078125, 2.0, 2.666015625, 3.333984375, 4.0]> : tensor<13xf16>, atol 1.0e-12, rtol 2.0e-3) : tensor<13xf16>
  %z = math.absf %x : tensor<13xf16>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf16>
  return
}

func.func @roundeven_f16() {
  %x = util.unfoldable_constant dense<[-4.0, -3.333984375, -2.666015625, -2.0, -1.3330078125, -0.66650390625, 0.0, 0.66650390625, 1.3330078125, 2.0, 2.666015625, 3.333984375, 4.0]> : tensor<13xf16>
  %empty = tensor.empty() : tensor<13xf16>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf16>) outs(%empty : tensor<13xf16>) {
  ^bb0(%in: f16, %out: f16):
    %r = math.roundeven %in : f16
    linalg.yield %r : f16
  } -> tensor<13xf16>
  check.expect_almost_eq_const(%y, dense<[-4.0, -3.0, -3.0, -2.0, -1.0, -1.0, 0.0, 1.0, 1.0, 2.0, 3.0, 3.0, 4.0]> : tensor<13xf16>, atol 1.0e-12, rtol 2.0e-3) : tensor<13xf16>
  %z = math.roundeven %x : tensor<13xf16>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf16>
  return
}

func.func @trunc_f16() {
  %x = util.unfoldable_constant dense<[-4.0, -3.333984375, -2.666015625, -2.0, -1.3330078125, -0.66650390625, 0.0, 0.66650390625, 1.3330078125, 2.0, 2.666015625, 3.333984375, 4.0]> : tensor<13xf16>
  %empty = tensor.empty() : tensor<13xf16>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%x : tensor<13xf16>) outs(%empty : tensor<13xf16>) {
  ^bb0(%in: f16, %out: f16):
    %r = math.trunc %in : f16
    linalg.yield %r : f16
  } -> tensor<13xf16>
  check.expect_almost_eq_const(%y, dense<[-4.0, -3.0, -2.0, -2.0, -1.0, 0.0, 0.0, 0.0, 1.0, 2.0, 2.0, 3.0, 4.0]> : tensor<13xf16>, atol 1.0e-12, rtol 2.0e-3) : tensor<13xf16>
  %z = math.trunc %x : tensor<13xf16>
  check.expect_almost_eq(%y, %z, atol 0.0) : tensor<13xf16>
  return
}

func.func @atan2_f16() {
  %x = util.unfoldable_constant dense<[0.5, 0.79150390625, 1.0830078125, 1.375, 1.6669921875, 1.9580078125, 2.25, 2.541015625, 2.833984375, 3.125, 3.416015625, 3.708984375, 4.0]> : tensor<13xf16>
  %w = util.unfoldable_constant dense<[-3.0, -2.5, -2.0, -1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0]> : tensor<13xf16>
  %y = math.atan2 %x, %w : tensor<13xf16>
  check.expect_almost_eq_const(%y, dense<[2.976443976175166, 2.834975505960739, 2.6452957476885337, 2.399645385583876, 2.111129672159172, 1.8208147972280926, 1.5707963267948966, 1.3765068063574684, 1.231575812993238, 1.1232763516377267, 1.041123641343229, 0.9777071739221991, 0.9272952180016122]> : tensor<13xf16>, atol 1.0e-12, rtol 2.0e-3) : tensor<13xf16>
  return
}

func.func @powf_f16() {
  %x = util.unfoldable_constant dense<[0.5, 0.79150390625, 1.0830078125, 1.375, 1.6669921875, 1.9580078125, 2.25, 2.541015625, 2.833984375, 3.125, 3.416015625, 3.708984375, 4.0]> : tensor<13xf16>
  %w = util.unfoldable_constant dense<[-3.0, -2.5, -2.0, -1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0]> : tensor<13xf16>
  %y = math.powf %x, %w : tensor<13xf16>
  check.expect_almost_eq_const(%y, dense<[8.0, 1.794185504566508, 0.8525832987093873, 0.6202202657617758, 0.5998828353837141, 0.7146489991736853, 1.0, 1.5940563431071062, 2.833984375, 5.524271728019903, 11.66916275024414, 26.493388583023794, 64.0]> : tensor<13xf16>, atol 1.0e-12, rtol 2.0e-3) : tensor<13xf16>
  return
}

func.func @copysign_f16() {
  %x = util.unfoldable_constant dense<[0.5, 0.79150390625, 1.0830078125, 1.375, 1.6669921875, 1.9580078125, 2.25, 2.541015625, 2.833984375, 3.125, 3.416015625, 3.708984375, 4.0]> : tensor<13xf16>
  %w = util.unfoldable_constant dense<[-3.0, -2.5, -2.0, -1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0]> : tensor<13xf16>
  %y = math.copysign %x, %w : tensor<13xf16>
  check.expect_almost_eq_const(%y, dense<[-0.5, -0.79150390625, -1.0830078125, -1.375, -1.6669921875, -1.9580078125, 2.25, 2.541015625, 2.833984375, 3.125, 3.416015625, 3.708984375, 4.0]> : tensor<13xf16>, atol 1.0e-12, rtol 2.0e-3) : tensor<13xf16>
  return
}
