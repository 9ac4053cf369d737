// By its bits: compilers may take x == x to be true.
fn pyd_f32_is_nan(a: f32) -> bool {
  return (bitcast<u32>(a) & 0x7fffffffu) > 0x7f800000u;
}

// Toward zero; what lies outside becomes the nearest number, NaN 0.
fn pyd_f32_to_i32(a: f32) -> i32 {
  let inside = (a > -2147483648.0f) & (a < 2147483648.0f);
  let outside = select(select(i32(-2147483648), 2147483647, a > 0.0f), 0, pyd_f32_is_nan(a));
  return select(outside, i32(select(0.0f, a, inside)), inside);
}

fn pyd_f32_to_u32(a: f32) -> i32 {
  let inside = (a > 0.0f) & (a < 4294967296.0f);
  let outside = select(0u, 0xffffffffu, a >= 4294967296.0f);
  return i32(select(outside, u32(select(0.0f, a, inside)), inside));
}

// A magnitude below 2^64, cut off.
fn pyd_f32_whole(a: f32) -> vec2u {
  let bits = bitcast<u32>(a);
  let exponent = (bits >> 23u) & 255u;
  let digits = (bits & 0x7fffffu) | 0x800000u;
  if exponent < 127u {
    return vec2u(0u, 0u);
  }
  if exponent <= 150u {
    return vec2u(digits >> (150u - exponent), 0u);
  }
  return pyd_i64_shift_left(vec2u(digits, 0u), (exponent - 150u) & 63u);
}

fn pyd_f32_to_i64(a: f32) -> vec2u {
  if pyd_f32_is_nan(a) {
    return vec2u(0u, 0u);
  }
  if abs(a) >= 9223372036854775808.0f {
    return select(vec2u(0xffffffffu, 0x7fffffffu), vec2u(0u, 0x80000000u), a < 0.0f);
  }
  let found = pyd_f32_whole(a);
  return select(found, pyd_i64_neg(found), a < 0.0f);
}

fn pyd_f32_to_u64(a: f32) -> vec2u {
  if !(a > 0.0f) || pyd_f32_is_nan(a) {
    return vec2u(0u, 0u);
  }
  if a >= 18446744073709551616.0f {
    return vec2u(0xffffffffu, 0xffffffffu);
  }
  return pyd_f32_whole(a);
}

// Rounded once: what is cut off is kept as one bit below those that rounding looks at.
fn pyd_u64_to_f32(a: vec2u) -> f32 {
  if a.y == 0u {
    return f32(a.x);
  }
  let n = 32u - countLeadingZeros(a.y);
  let top = pyd_u64_shift_right(a, n).x;
  let lost = any(pyd_i64_shift_left(vec2u(top, 0u), n) != a);
  return f32(top | u32(lost)) * bitcast<f32>((127u + n) << 23u);
}

fn pyd_i64_to_f32(a: vec2u) -> f32 {
  let found = pyd_u64_to_f32(pyd_i64_abs(a));
  return select(found, -found, i32(a.y) < 0);
}
