// Numbers of 64 bits are two words, low first.
fn pyd_i64_from_i32(a: i32) -> vec2u {
  return vec2u(u32(a), u32(a >> 31u));
}

fn pyd_i64_add(a: vec2u, b: vec2u) -> vec2u {
  let low = a.x + b.x;
  return vec2u(low, a.y + b.y + u32(low < a.x));
}

fn pyd_i64_sub(a: vec2u, b: vec2u) -> vec2u {
  return vec2u(a.x - b.x, a.y - b.y - u32(a.x < b.x));
}

fn pyd_i64_neg(a: vec2u) -> vec2u {
  return vec2u(~a.x + 1u, ~a.y + u32(a.x == 0u));
}

// Both words of a product, from products of halves of words.
fn pyd_u32_product(a: u32, b: u32) -> vec2u {
  let a0 = a & 0xffffu;
  let a1 = a >> 16u;
  let b0 = b & 0xffffu;
  let b1 = b >> 16u;
  let q = (a1 * b0) + ((a0 * b0) >> 16u);
  let r = (a0 * b1) + (q & 0xffffu);
  return vec2u(a * b, (a1 * b1) + (q >> 16u) + (r >> 16u));
}

fn pyd_i32_product(a: i32, b: i32) -> vec2u {
  let p = pyd_u32_product(u32(a), u32(b));
  return vec2u(p.x, p.y - (u32(a >> 31u) & u32(b)) - (u32(b >> 31u) & u32(a)));
}

fn pyd_i64_mul(a: vec2u, b: vec2u) -> vec2u {
  let p = pyd_u32_product(a.x, b.x);
  return vec2u(p.x, p.y + (a.x * b.y) + (a.y * b.x));
}

fn pyd_u64_lt(a: vec2u, b: vec2u) -> bool {
  return select(a.y < b.y, a.x < b.x, a.y == b.y);
}

fn pyd_i64_lt(a: vec2u, b: vec2u) -> bool {
  return select(i32(a.y) < i32(b.y), a.x < b.x, a.y == b.y);
}

// Shifts by less than 64.
fn pyd_i64_shift_left(a: vec2u, n: u32) -> vec2u {
  if n >= 32u {
    return vec2u(0u, a.x << (n & 31u));
  }
  return vec2u(a.x << n, (a.y << n) | select(a.x >> ((32u - n) & 31u), 0u, n == 0u));
}

fn pyd_u64_shift_right(a: vec2u, n: u32) -> vec2u {
  if n >= 32u {
    return vec2u(a.y >> (n & 31u), 0u);
  }
  return vec2u((a.x >> n) | select(a.y << ((32u - n) & 31u), 0u, n == 0u), a.y >> n);
}

fn pyd_i64_shift_right(a: vec2u, n: u32) -> vec2u {
  let sign = u32(i32(a.y) >> 31u);
  if n >= 32u {
    return vec2u(u32(i32(a.y) >> (n & 31u)), sign);
  }
  return vec2u((a.x >> n) | select(a.y << ((32u - n) & 31u), 0u, n == 0u), u32(i32(a.y) >> n));
}

// (quotient, remainder) of high * 2^32 + low by a divisor above `high`, a digit of 16 bits at a time.
fn pyd_divide_words(high: u32, low: u32, divisor: u32) -> vec2u {
  let s = countLeadingZeros(divisor);
  let v = divisor << s;
  let v1 = v >> 16u;
  let v0 = v & 0xffffu;
  let u2 = (high << s) | select(low >> ((32u - s) & 31u), 0u, s == 0u);
  let u1 = (low << s) >> 16u;
  let u0 = (low << s) & 0xffffu;
  var q1 = u2 / v1;
  var r1 = u2 - (q1 * v1);
  if (q1 > 0xffffu) || ((q1 * v0) > ((r1 << 16u) | u1)) {
    q1 -= 1u;
    r1 += v1;
    if (r1 <= 0xffffu) && ((q1 > 0xffffu) || ((q1 * v0) > ((r1 << 16u) | u1))) {
      q1 -= 1u;
    }
  }
  let rest = (u2 << 16u) + u1 - (q1 * v);
  var q0 = rest / v1;
  var r0 = rest - (q0 * v1);
  if (q0 > 0xffffu) || ((q0 * v0) > ((r0 << 16u) | u0)) {
    q0 -= 1u;
    r0 += v1;
    if (r0 <= 0xffffu) && ((q0 > 0xffffu) || ((q0 * v0) > ((r0 << 16u) | u0))) {
      q0 -= 1u;
    }
  }
  return vec2u((q1 << 16u) + q0, ((rest << 16u) + u0 - (q0 * v)) >> s);
}

// By a divisor that is not 0.
fn pyd_u64_div(a: vec2u, b: vec2u) -> vec2u {
  if b.y == 0u {
    let high = a.y / b.x;
    return vec2u(pyd_divide_words(a.y - (high * b.x), a.x, b.x).x, high);
  }
  let n = countLeadingZeros(b.y);
  let half = pyd_u64_shift_right(a, 1u);
  let q = pyd_divide_words(half.y, half.x, pyd_i64_shift_left(b, n).y).x;
  var found = pyd_u64_shift_right(pyd_i64_shift_left(vec2u(q, 0u), n), 31u).x;
  if found != 0u {
    found -= 1u;
  }
  let rest = pyd_i64_sub(a, pyd_i64_mul(vec2u(found, 0u), b));
  return vec2u(found + u32(!pyd_u64_lt(rest, b)), 0u);
}

fn pyd_u64_rem(a: vec2u, b: vec2u) -> vec2u {
  return pyd_i64_sub(a, pyd_i64_mul(pyd_u64_div(a, b), b));
}

fn pyd_i64_abs(a: vec2u) -> vec2u {
  return select(a, pyd_i64_neg(a), i32(a.y) < 0);
}

fn pyd_i64_div(a: vec2u, b: vec2u) -> vec2u {
  let found = pyd_u64_div(pyd_i64_abs(a), pyd_i64_abs(b));
  return select(found, pyd_i64_neg(found), i32(a.y ^ b.y) < 0);
}

fn pyd_i64_rem(a: vec2u, b: vec2u) -> vec2u {
  return pyd_i64_sub(a, pyd_i64_mul(pyd_i64_div(a, b), b));
}

fn pyd_i64_clz(a: vec2u) -> i32 {
  return i32(select(countLeadingZeros(a.y), 32u + countLeadingZeros(a.x), a.y == 0u));
}

fn pyd_i64_ctz(a: vec2u) -> i32 {
  return i32(select(countTrailingZeros(a.x), 32u + countTrailingZeros(a.y), a.x == 0u));
}

fn pyd_i64_ones(a: vec2u) -> i32 {
  return i32(countOneBits(a.x) + countOneBits(a.y));
}

// To 32 bits; what lies outside becomes the nearest number.
fn pyd_i64_saturated(a: vec2u) -> i32 {
  return select(select(2147483647, i32(-2147483648), i32(a.y) < 0), i32(a.x), a.y == u32(i32(a.x) >> 31u));
}
