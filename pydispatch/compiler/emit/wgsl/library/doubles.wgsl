// Doubles are two words, low first, and computed with integers as IEEE 754 has it: exact, to nearest even.
fn pyd_f64_is_nan(a: vec2u) -> bool {
  return pyd_u64_lt(vec2u(0u, 0x7ff00000u), vec2u(a.x, a.y & 0x7fffffffu));
}

fn pyd_f64_eq(a: vec2u, b: vec2u) -> bool {
  let zeros = (a.x | b.x | ((a.y | b.y) << 1u)) == 0u;
  return (zeros | all(a == b)) & !pyd_f64_is_nan(a) & !pyd_f64_is_nan(b);
}

// In the order of their bits, which is that of the numbers where the sign is that of the bits.
fn pyd_f64_ordered(a: vec2u) -> vec2u {
  return select(a, pyd_i64_neg(a & vec2u(0xffffffffu, 0x7fffffffu)), i32(a.y) < 0);
}

fn pyd_f64_lt(a: vec2u, b: vec2u) -> bool {
  return pyd_i64_lt(pyd_f64_ordered(a), pyd_f64_ordered(b)) & !pyd_f64_is_nan(a) & !pyd_f64_is_nan(b);
}

fn pyd_f64_le(a: vec2u, b: vec2u) -> bool {
  return !pyd_i64_lt(pyd_f64_ordered(b), pyd_f64_ordered(a)) & !pyd_f64_is_nan(a) & !pyd_f64_is_nan(b);
}

// The digits with the leading one, shifted up by 10 bits: below 2^63, from 2^62 on for normal numbers.
fn pyd_f64_digits(a: vec2u) -> vec2u {
  let leading = select(0x100000u, 0u, (a.y & 0x7ff00000u) == 0u);
  return pyd_i64_shift_left(vec2u(a.x, (a.y & 0xfffffu) | leading), 10u);
}

// The exponent as it is stored; that of subnormal numbers is 1.
fn pyd_f64_exponent(a: vec2u) -> i32 {
  return max(i32((a.y >> 20u) & 0x7ffu), 1);
}

// Shifted right by any number of bits; the lowest bit says whether any of those cut off was set.
fn pyd_u64_shift_sticky(a: vec2u, n: i32) -> vec2u {
  if n >= 64 {
    return vec2u(u32(any(a != vec2u(0u, 0u))), 0u);
  }
  let count = u32(max(n, 0));
  let found = pyd_u64_shift_right(a, count);
  let lost = any(pyd_i64_shift_left(found, count) != a);
  return vec2u(found.x | u32(lost), found.y);
}

// A number of `digits` as pyd_f64_digits gives them, below 2^64, rounded; the exponent is that of a one at bit 62.
fn pyd_f64_rounded(sign: u32, exponent: i32, digits: vec2u) -> vec2u {
  let zeros = pyd_i64_clz(digits);
  if zeros == 64 {
    return vec2u(0u, sign);
  }
  var e = exponent + 1 - zeros;
  var d = pyd_i64_shift_left(digits, u32(max(zeros - 1, 0)));
  if zeros == 0 {
    d = pyd_u64_shift_sticky(digits, 1);
  }
  if e < 1 {
    d = pyd_u64_shift_sticky(d, 1 - e);
    e = 0;
  }
  let rest = d.x & 0x3ffu;
  var kept = pyd_u64_shift_right(d, 10u);
  let up = (rest > 0x200u) | ((rest == 0x200u) & ((kept.x & 1u) == 1u));
  kept = pyd_i64_add(kept, vec2u(u32(up), 0u));
  if e > 0 {
    e = select(e, e + 1, kept.y >= 0x200000u);
    kept = select(kept, pyd_u64_shift_right(kept, 1u), kept.y >= 0x200000u);
    kept.y = kept.y & 0xfffffu;
  }
  if e >= 2047 {
    return vec2u(0u, sign | 0x7ff00000u);
  }
  return vec2u(kept.x, sign | ((u32(e) << 20u) + kept.y));
}

fn pyd_f64_is_special(a: vec2u) -> bool {
  return (a.y & 0x7ff00000u) == 0x7ff00000u;
}

fn pyd_f64_is_zero(a: vec2u) -> bool {
  return (a.x | (a.y << 1u)) == 0u;
}

fn pyd_f64_add(a: vec2u, b: vec2u) -> vec2u {
  let swaps = pyd_u64_lt(vec2u(a.x, a.y & 0x7fffffffu), vec2u(b.x, b.y & 0x7fffffffu));
  let large = select(a, b, swaps);
  let small = select(b, a, swaps);
  let unlike = ((a.y ^ b.y) >> 31u) == 1u;
  if pyd_f64_is_special(large) {
    let undefined = unlike & pyd_f64_is_special(small);
    return select(large, vec2u(0u, 0x7ff80000u), undefined & !pyd_f64_is_nan(large));
  }
  let e = pyd_f64_exponent(large);
  let x = pyd_f64_digits(large);
  let y = pyd_u64_shift_sticky(pyd_f64_digits(small), e - pyd_f64_exponent(small));
  let found = select(pyd_i64_add(x, y), pyd_i64_sub(x, y), unlike);
  let nothing = all(found == vec2u(0u, 0u));
  let sign = select(large.y & 0x80000000u, 0u, nothing & unlike);
  return pyd_f64_rounded(sign, e, found);
}

fn pyd_f64_sub(a: vec2u, b: vec2u) -> vec2u {
  return pyd_f64_add(a, select(b ^ vec2u(0u, 0x80000000u), b, pyd_f64_is_nan(b)));
}

// All 128 bits of a product, low word first.
fn pyd_u64_product(a: vec2u, b: vec2u) -> vec4u {
  let low = pyd_u32_product(a.x, b.x);
  let high = pyd_u32_product(a.y, b.y);
  let first = pyd_u32_product(a.x, b.y);
  let second = pyd_u32_product(a.y, b.x);
  let middle = pyd_i64_add(pyd_i64_add(vec2u(first.x, 0u), vec2u(second.x, 0u)), vec2u(low.y, 0u));
  let carried = pyd_i64_add(pyd_i64_add(vec2u(first.y, 0u), vec2u(second.y, 0u)), vec2u(middle.y, 0u));
  let top = pyd_i64_add(high, carried);
  return vec4u(low.x, middle.x, top.x, top.y);
}

// The digits of a number that is not 0, with a one at bit 62, and the exponent that goes with them.
struct PydF64Parts {
  digits: vec2u,
  exponent: i32,
}

fn pyd_f64_parts(a: vec2u) -> PydF64Parts {
  let digits = pyd_f64_digits(a);
  let n = pyd_i64_clz(digits) - 1;
  return PydF64Parts(pyd_i64_shift_left(digits, u32(max(n, 0))), pyd_f64_exponent(a) - n);
}

fn pyd_f64_mul(a: vec2u, b: vec2u) -> vec2u {
  let sign = (a.y ^ b.y) & 0x80000000u;
  if pyd_f64_is_special(a) | pyd_f64_is_special(b) {
    if pyd_f64_is_nan(a) {
      return a;
    }
    let undefined = pyd_f64_is_zero(a) | pyd_f64_is_zero(b);
    return select(select(vec2u(0u, sign | 0x7ff00000u), vec2u(0u, 0x7ff80000u), undefined), b, pyd_f64_is_nan(b));
  }
  if pyd_f64_is_zero(a) | pyd_f64_is_zero(b) {
    return vec2u(0u, sign);
  }
  let x = pyd_f64_parts(a);
  let y = pyd_f64_parts(b);
  let p = pyd_u64_product(x.digits, y.digits);
  let sticky = u32((p.x | p.y) != 0u);
  return pyd_f64_rounded(sign, x.exponent + y.exponent - 1021, vec2u(p.z | sticky, p.w));
}

fn pyd_f64_div(a: vec2u, b: vec2u) -> vec2u {
  let sign = (a.y ^ b.y) & 0x80000000u;
  if pyd_f64_is_special(a) | pyd_f64_is_special(b) {
    if pyd_f64_is_nan(a) {
      return a;
    }
    if pyd_f64_is_nan(b) {
      return b;
    }
    if pyd_f64_is_special(a) {
      return select(vec2u(0u, sign | 0x7ff00000u), vec2u(0u, 0x7ff80000u), pyd_f64_is_special(b));
    }
    return vec2u(0u, sign);
  }
  if pyd_f64_is_zero(b) {
    return select(vec2u(0u, sign | 0x7ff00000u), vec2u(0u, 0x7ff80000u), pyd_f64_is_zero(a));
  }
  if pyd_f64_is_zero(a) {
    return vec2u(0u, sign);
  }
  let x = pyd_f64_parts(a);
  let y = pyd_f64_parts(b);
  // 53 bits each; the quotient of x by 2y is below 1, and its next 64 bits are found in two steps of 32.
  var rest = pyd_u64_shift_right(x.digits, 10u);
  let divisor = pyd_u64_shift_right(y.digits, 9u);
  let high = pyd_f64_step(rest, divisor);
  rest = vec2u(high.y, high.z);
  let low = pyd_f64_step(rest, divisor);
  let sticky = u32((low.y | low.z) != 0u);
  return pyd_f64_rounded(sign, x.exponent - y.exponent + 1022, vec2u(low.x | sticky, high.x));
}

// (quotient, remainder in two words) of a * 2^32 by b, both below 2^54, a below b.
fn pyd_f64_step(a: vec2u, b: vec2u) -> vec3u {
  // By the top words, normalised: at most two too large.
  let n = countLeadingZeros(b.y);
  let y = pyd_i64_shift_left(b, n);
  let x = pyd_i64_shift_left(a, n);
  var q = 0xffffffffu;
  if x.y < y.y {
    q = pyd_divide_words(x.y, x.x, y.y).x;
  }
  let p = pyd_u64_product(vec2u(q, 0u), b);
  // a * 2^32 - p lies between -2b and b: its low 64 bits tell.
  var rest = pyd_i64_sub(vec2u(0u, a.x), vec2u(p.x, p.y));
  if i32(rest.y) < 0 {
    rest = pyd_i64_add(rest, b);
    q -= 1u;
  }
  if i32(rest.y) < 0 {
    rest = pyd_i64_add(rest, b);
    q -= 1u;
  }
  return vec3u(q, rest.x, rest.y);
}

// a * b + c, rounded once: the product and the addend as digits of 128 bits.
fn pyd_f64_fma(a: vec2u, b: vec2u, c: vec2u) -> vec2u {
  let special = pyd_f64_is_special(a) | pyd_f64_is_special(b) | pyd_f64_is_special(c);
  if special | pyd_f64_is_zero(a) | pyd_f64_is_zero(b) | pyd_f64_is_zero(c) {
    if special | pyd_f64_is_zero(a) | pyd_f64_is_zero(b) {
      return pyd_f64_add(pyd_f64_mul(a, b), c);
    }
    return pyd_f64_mul(a, b);
  }
  let x = pyd_f64_parts(a);
  let y = pyd_f64_parts(b);
  let z = pyd_f64_parts(c);
  // Products lie from 2^124 on below 2^126; the addend begins at bit 124 as well.
  var one = pyd_u64_product(x.digits, y.digits);
  var one_exponent = x.exponent + y.exponent - 1023;
  var one_sign = (a.y ^ b.y) & 0x80000000u;
  var two = pyd_u128_shift_left_62(z.digits);
  var two_exponent = z.exponent;
  var two_sign = c.y & 0x80000000u;
  let swaps = (two_exponent > one_exponent) | ((two_exponent == one_exponent) & pyd_u128_lt(one, two));
  if swaps {
    let held = one;
    one = two;
    two = held;
    let exponent = one_exponent;
    one_exponent = two_exponent;
    two_exponent = exponent;
    let sign = one_sign;
    one_sign = two_sign;
    two_sign = sign;
  }
  two = pyd_u128_shift_right(two, one_exponent - two_exponent);
  let unlike = one_sign != two_sign;
  var found = pyd_u128_add(one, two);
  if unlike {
    found = pyd_u128_add(one, pyd_u128_add(~two, vec4u(1u, 0u, 0u, 0u)));
    if i32(found.w) < 0 {
      found = pyd_u128_add(~found, vec4u(1u, 0u, 0u, 0u));
      one_sign = two_sign;
    }
  }
  if all(found == vec4u(0u, 0u, 0u, 0u)) {
    return vec2u(0u, select(one_sign, 0u, unlike));
  }
  // The highest one to bit 62 of two words.
  let zeros = select(pyd_i64_clz(found.zw), 64 + pyd_i64_clz(found.xy), all(found.zw == vec2u(0u, 0u)));
  let moved = pyd_u128_shift_left(found, zeros - 1);
  let sticky = u32(any(moved.xy != vec2u(0u, 0u)));
  return pyd_f64_rounded(one_sign, one_exponent + 3 - zeros, vec2u(moved.z | sticky, moved.w));
}

fn pyd_u128_lt(a: vec4u, b: vec4u) -> bool {
  return select(pyd_u64_lt(a.zw, b.zw), pyd_u64_lt(a.xy, b.xy), all(a.zw == b.zw));
}

fn pyd_u128_add(a: vec4u, b: vec4u) -> vec4u {
  let low = pyd_i64_add(a.xy, b.xy);
  let high = pyd_i64_add(pyd_i64_add(a.zw, b.zw), vec2u(u32(pyd_u64_lt(low, a.xy)), 0u));
  return vec4u(low, high);
}

fn pyd_u128_shift_left_62(a: vec2u) -> vec4u {
  return vec4u(0u, a.x << 30u, (a.x >> 2u) | (a.y << 30u), a.y >> 2u);
}

// By -1 to 127 bits.
fn pyd_u128_shift_left(a: vec4u, n: i32) -> vec4u {
  if n < 0 {
    return pyd_u128_shift_right(a, -n);
  }
  if n >= 64 {
    return vec4u(0u, 0u, pyd_i64_shift_left(a.xy, u32(n - 64)));
  }
  let crossing = select(pyd_u64_shift_right(a.xy, u32(64 - n) & 63u), vec2u(0u, 0u), n == 0);
  return vec4u(pyd_i64_shift_left(a.xy, u32(n)), pyd_i64_shift_left(a.zw, u32(n)) | crossing);
}

// The lowest bit says whether any of those cut off was set.
fn pyd_u128_shift_right(a: vec4u, n: i32) -> vec4u {
  if n >= 128 {
    return vec4u(u32(any(a != vec4u(0u, 0u, 0u, 0u))), 0u, 0u, 0u);
  }
  if n >= 64 {
    let low = pyd_u64_shift_sticky(a.zw, n - 64);
    return vec4u(low.x | u32(any(a.xy != vec2u(0u, 0u))), low.y, 0u, 0u);
  }
  let crossing = select(pyd_i64_shift_left(a.zw, u32(64 - n) & 63u), vec2u(0u, 0u), n == 0);
  let low = pyd_u64_shift_sticky(a.xy, n) | crossing;
  return vec4u(low, pyd_u64_shift_right(a.zw, u32(n)));
}

// Digit by digit, 55 of them; the remainder says how the last one is rounded.
fn pyd_f64_sqrt(a: vec2u) -> vec2u {
  if pyd_f64_is_nan(a) | pyd_f64_is_zero(a) {
    return a;
  }
  if i32(a.y) < 0 {
    return vec2u(0u, 0x7ff80000u);
  }
  if pyd_f64_is_special(a) {
    return a;
  }
  let parts = pyd_f64_parts(a);
  // digits * 2^(e - 1023 - 62) with an even exponent: x from 2^62 on, below 2^64.
  let odd = ((parts.exponent - 1023) & 1) != 0;
  let x = select(parts.digits, pyd_i64_shift_left(parts.digits, 1u), odd);
  let half = ((parts.exponent - 1023) - select(0, 1, odd)) / 2;
  var rest = x;
  var root = vec2u(0u, 0u);
  var bit = vec2u(0u, 0x40000000u);
  for (var i = 0; i < 32; i += 1) {
    let tried = pyd_i64_add(root, bit);
    let fits = !pyd_u64_lt(rest, tried);
    rest = select(rest, pyd_i64_sub(rest, tried), fits);
    root = pyd_u64_shift_right(root, 1u);
    root = select(root, pyd_i64_add(root, bit), fits);
    bit = pyd_u64_shift_right(bit, 2u);
  }
  // 32 digits so far, and 24 more: the remainder grows by two bits for each.
  for (var i = 0; i < 24; i += 1) {
    rest = pyd_i64_shift_left(rest, 2u);
    let tried = pyd_i64_add(pyd_i64_shift_left(root, 2u), vec2u(1u, 0u));
    let fits = !pyd_u64_lt(rest, tried);
    rest = select(rest, pyd_i64_sub(rest, tried), fits);
    root = pyd_i64_add(pyd_i64_shift_left(root, 1u), vec2u(u32(fits), 0u));
  }
  // The root has its first one at bit 55.
  let sticky = u32(any(rest != vec2u(0u, 0u)));
  let digits = pyd_i64_shift_left(root, 7u);
  return pyd_f64_rounded(0u, half + 1023, vec2u(digits.x | sticky, digits.y));
}

// To a whole number; rounding: 0 toward zero, 1 down, 2 up, 3 to nearest even.
fn pyd_f64_to_whole(a: vec2u, rounding: u32) -> vec2u {
  let e = i32((a.y >> 20u) & 0x7ffu) - 1023;
  if e >= 52 {
    return a;
  }
  let sign = vec2u(0u, a.y & 0x80000000u);
  let size = vec2u(a.x, a.y & 0x7fffffffu);
  let negative = i32(a.y) < 0;
  if e < 0 {
    let something = any(size != vec2u(0u, 0u));
    let nearest = pyd_u64_lt(vec2u(0u, 0x3fe00000u), size);
    let away = select(select(something & !negative, something & negative, rounding == 1u), nearest, rounding == 3u);
    return sign | select(vec2u(0u, 0u), vec2u(0u, 0x3ff00000u), away & (rounding != 0u));
  }
  let n = u32(52 - e);
  let one = pyd_i64_shift_left(vec2u(1u, 0u), n);
  let mask = pyd_i64_sub(one, vec2u(1u, 0u));
  let rest = size & mask;
  let kept = size & ~mask;
  let half = pyd_u64_shift_right(one, 1u);
  let is_odd = any((kept & one) != vec2u(0u, 0u));
  let nearest = pyd_u64_lt(half, rest) | (all(half == rest) & is_odd);
  let something = any(rest != vec2u(0u, 0u));
  let away = select(select(something & !negative, something & negative, rounding == 1u), nearest, rounding == 3u);
  return sign | select(kept, pyd_i64_add(kept, one), away & (rounding != 0u));
}

fn pyd_f64_trunc(a: vec2u) -> vec2u {
  return pyd_f64_to_whole(a, 0u);
}

fn pyd_f64_floor(a: vec2u) -> vec2u {
  return pyd_f64_to_whole(a, 1u);
}

fn pyd_f64_ceil(a: vec2u) -> vec2u {
  return pyd_f64_to_whole(a, 2u);
}

fn pyd_f64_round(a: vec2u) -> vec2u {
  return pyd_f64_to_whole(a, 3u);
}

fn pyd_f32_to_f64(a: f32) -> vec2u {
  let bits = bitcast<u32>(a);
  let sign = bits & 0x80000000u;
  let e = (bits >> 23u) & 255u;
  let digits = bits & 0x7fffffu;
  if e == 255u {
    return vec2u(digits << 29u, sign | 0x7ff00000u | (digits >> 3u) | select(0u, 0x80000u, digits != 0u));
  }
  if e == 0u {
    return pyd_f64_rounded(sign, 936, vec2u(digits, 0u));
  }
  return vec2u(digits << 29u, sign | ((e + 896u) << 20u) | (digits >> 3u));
}

fn pyd_f64_to_f32(a: vec2u) -> f32 {
  let sign = a.y & 0x80000000u;
  if pyd_f64_is_nan(a) {
    let quiet = sign | 0x7fc00000u;
    return bitcast<f32>(quiet);
  }
  if pyd_f64_is_special(a) {
    let infinity = sign | 0x7f800000u;
    return bitcast<f32>(infinity);
  }
  // 24 digits and two more, with a sticky bit; fewer where the result is subnormal.
  let digits = pyd_f64_digits(a);
  var e = pyd_f64_exponent(a) - 896;
  var d = pyd_u64_shift_sticky(digits, 32).x;
  if e < 1 {
    d = pyd_u64_shift_sticky(vec2u(d, 0u), 1 - e).x;
    e = 1;
  }
  let rest = d & 0x7fu;
  var kept = d >> 7u;
  kept += u32((rest > 0x40u) | ((rest == 0x40u) & ((kept & 1u) == 1u)));
  if e >= 255 {
    kept = 0x7f800000u;
  } else {
    kept = min(kept + (u32(e - 1) << 23u), 0x7f800000u);
  }
  kept |= sign;
  return bitcast<f32>(kept);
}

fn pyd_u64_to_f64(a: vec2u) -> vec2u {
  return pyd_f64_rounded(0u, 1085, a);
}

fn pyd_i64_to_f64(a: vec2u) -> vec2u {
  return pyd_f64_rounded(a.y & 0x80000000u, 1085, pyd_i64_abs(a));
}

// A magnitude below 2^64, cut off.
fn pyd_f64_whole(a: vec2u) -> vec2u {
  let e = i32((a.y >> 20u) & 0x7ffu) - 1023;
  let digits = vec2u(a.x, (a.y & 0xfffffu) | 0x100000u);
  if e < 0 {
    return vec2u(0u, 0u);
  }
  if e <= 52 {
    return pyd_u64_shift_right(digits, u32(52 - e));
  }
  return pyd_i64_shift_left(digits, u32(e - 52) & 63u);
}

// What lies outside becomes the nearest number, NaN 0.
fn pyd_f64_to_i64(a: vec2u) -> vec2u {
  if pyd_f64_is_nan(a) {
    return vec2u(0u, 0u);
  }
  let negative = i32(a.y) < 0;
  if (a.y & 0x7fffffffu) >= 0x43e00000u {
    return select(vec2u(0xffffffffu, 0x7fffffffu), vec2u(0u, 0x80000000u), negative);
  }
  let found = pyd_f64_whole(a);
  return select(found, pyd_i64_neg(found), negative);
}

fn pyd_f64_to_u64(a: vec2u) -> vec2u {
  if pyd_f64_is_nan(a) | (i32(a.y) < 0) {
    return vec2u(0u, 0u);
  }
  if a.y >= 0x43f00000u {
    return vec2u(0xffffffffu, 0xffffffffu);
  }
  return pyd_f64_whole(a);
}

fn pyd_f64_to_i32(a: vec2u) -> i32 {
  return pyd_i64_saturated(pyd_f64_to_i64(a));
}

fn pyd_f64_to_u32(a: vec2u) -> i32 {
  let found = pyd_f64_to_u64(a);
  return i32(select(found.x, 0xffffffffu, found.y != 0u));
}
