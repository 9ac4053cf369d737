// An f16 of its bits, which are the low half of a register.
fn pyd_f16(bits: i32) -> f16 {
  return f16(unpack2x16float(u32(bits)).x);
}

// The bits of an f16, extended with the sign.
fn pyd_f16_bits(value: f16) -> i32 {
  return extractBits(i32(pack2x16float(vec2f(f32(value), 0f))), 0u, 16u);
}

// The f16 that is nearest to an f32: infinite where it is too large, which the language leaves open.
fn pyd_f16_nearest(value: f32) -> f16 {
  let held = f16(clamp(value, -65504f, 65504f));
  let large = pyd_f16(select(31744i, -1024i, value < 0f));
  return select(select(held, large, abs(value) >= 65520f), pyd_f16(32256i), pyd_f32_is_nan(value));
}
