// Runs programs that `pydispatch export --web` wrote, in pages with WebGPU:
//
//   import { load } from './pydispatch.js';
//   const program = await load('program.json');
//   const [result] = await program.call('main', new Float32Array(784));
//   result.data, result.shape
//
// program.json has the host program of pydispatch's docs/program.md: each function is a list of instructions over
// registers of 64 bits (BigInts here), which computes sizes, and of commands for the device.

const VERSION = 1;
const ARRAYS = {
  f32: Float32Array, f64: Float64Array, i8: Int8Array, si8: Int8Array, ui8: Uint8Array, i16: Int16Array,
  si16: Int16Array, ui16: Uint16Array, i32: Int32Array, si32: Int32Array, ui32: Uint32Array, i64: BigInt64Array,
  si64: BigInt64Array, ui64: BigUint64Array, f16: Uint16Array, bf16: Uint16Array,
}; // bits of f16 and bf16; bytes of all others
const STORAGE = 0x80 | 0x8 | 0x4; // GPUBufferUsage: STORAGE, COPY_DST, COPY_SRC
const LEAST = 16; // bytes of a binding

/** Loads a program. source: the address of program.json, relative to the page. device: a GPUDevice to use. */
export async function load(source, { device } = {}) {
  const base = new URL(source, globalThis.document?.baseURI ?? import.meta.url);
  const data = await (await fetched(base)).json();
  if (data.version !== VERSION) {
    throw new Error(`${base}: version ${data.version}, this pydispatch.js reads ${VERSION}: export the program again`);
  }
  const program = new Program(data, base, device ?? (await open(data)));
  await program.prepare();
  return program;
}

async function fetched(address) {
  const answer = await fetch(address);
  if (!answer.ok) throw new Error(`${address}: ${answer.status} ${answer.statusText}`);
  return answer;
}

/** A device with as much of what the program's variants ask for as the adapter has. */
async function open(data) {
  const adapter = await globalThis.navigator?.gpu?.requestAdapter();
  if (!adapter) throw new Error('this browser has no WebGPU, or no adapter for it');
  const requiredFeatures = new Set();
  const requiredLimits = {};
  for (const variant of data.executables.flatMap((each) => each.variants)) {
    if (!variant.requires.every((need) => has(adapter, need))) continue;
    for (const need of variant.requires) {
      const [name, least] = need.split('>=');
      if (least === undefined) requiredFeatures.add(name);
      else requiredLimits[name] = Math.max(requiredLimits[name] ?? 0, Number(least));
    }
  }
  for (const name of ['maxBufferSize', 'maxStorageBufferBindingSize']) requiredLimits[name] = adapter.limits[name];
  return adapter.requestDevice({ requiredFeatures: [...requiredFeatures], requiredLimits });
}

/** Whether an adapter or a device has a feature, or a limit such as "maxStorageBuffersPerShaderStage>=10". */
function has(where, need) {
  const [name, least] = need.split('>=');
  return least === undefined ? where.features.has(name) : where.limits[name] >= Number(least);
}

class Program {
  constructor(data, base, device) {
    Object.assign(this, { data, base, device });
    this.kernels = new Map(); // `executable ordinal` → { kernel, text, values, pipelines }
  }

  /** The names and signatures of the functions. */
  get functions() {
    return Object.fromEntries(this.data.functions.filter((f) => f.public).map((f) => [f.name, f.signature]));
  }

  /** Reads shaders and constants, and runs what is computed once. */
  async prepare() {
    const { data, base } = this;
    this.variants = data.executables.map((executable) => this.choose(executable));
    await Promise.all(this.variants.map(async (variant, number) => {
      const texts = await Promise.all(variant.modules.map(async (path) => (await fetched(new URL(path, base))).text()));
      const { name, constants } = data.executables[number];
      const words = constants === null ? [] : this.evaluate(constants, [BigInt(variant.index)]);
      variant.kernels.forEach((kernel, ordinal) => {
        const values = kernel.overrides.filter((each) => each.word < words.length)
          .map(({ key, type, word }) => [key, override(type, words[word])]);
        const known = { kernel, name, text: texts[kernel.module], values: Object.fromEntries(values), made: new Map() };
        this.kernels.set(`${number} ${ordinal}`, known);
      });
    }));
    const files = new Map();
    this.constants = await Promise.all(data.constants.map(async ({ file, offset, bytes }) => {
      if (file === undefined) return null;
      if (!files.has(file)) files.set(file, fetched(new URL(file, base)).then((answer) => answer.arrayBuffer()));
      return this.upload(new Uint8Array(await files.get(file), offset, bytes));
    }));
    for (let i = 0; i < data.constants.length; i += 1) {
      const { function: number, result } = data.constants[i];
      if (number === undefined || this.constants[i]) continue;
      const { buffers, owned } = await this.run(data.functions[number], []);
      const kept = new Set();
      data.constants.forEach((each, k) => {
        if (each.function !== number) return;
        this.constants[k] = buffers[data.functions[number].results[each.result].buffer];
        kept.add(this.constants[k].buffer);
      });
      for (const buffer of owned) if (!kept.has(buffer)) buffer.destroy();
      if (!this.constants[i]) throw new Error(`constant ${i}: function ${number} has no result ${result}`);
    }
  }

  /** The variant of an executable that asks for most of what the device has. */
  choose({ name, variants }) {
    let best = null;
    for (const each of variants) {
      if (best && each.requires.length <= best.requires.length) continue;
      if (!each.requires.every((need) => has(this.device, need))) continue;
      if (each.condition === null || this.evaluate(each.condition, [])[0] & 1n) best = each;
    }
    if (best) return best;
    const lacking = variants.flatMap((each) => each.requires.filter((need) => !has(this.device, need)));
    throw new Error(`executable '${name}' does not run on this device; it lacks ${lacking.join(', ') || 'nothing, '
      + 'but no condition of a variant holds'}`);
  }

  /**
   * Calls a function. values: a typed array for each tensor, or { data, shape } where more than one size is free; a
   * number or BigInt for a scalar. Resolves to a list of { data, shape } and scalars.
   */
  async call(name, ...values) {
    const found = this.data.functions.find((each) => each.public && each.name === name);
    if (!found) throw new Error(`there is no function '${name}'; the program has ${Object.keys(this.functions).join(', ')}`);
    if (values.length !== found.arguments.length) {
      throw new Error(`${name} takes ${found.arguments.length} values, got ${values.length}: ${found.signature}`);
    }
    const given = found.arguments.map((argument, i) => argumentOf(argument, values[i], `${name}, argument ${i}`));
    const { buffers, registers, owned } = await this.run(found, given);
    const results = await Promise.all(found.results.map(async (result) => {
      if (result.shape === null) return scalarOf(result.type, registers[result.register]);
      const shape = result.shape.map((register) => Number(registers[register]));
      const bytes = Math.ceil((shape.reduce((a, b) => a * b, 1) * result.bits) / 8);
      const memory = await this.download(buffers[result.buffer], bytes);
      return { data: new (ARRAYS[result.type] ?? Uint8Array)(memory), shape };
    }));
    for (const buffer of owned) buffer.destroy();
    return results;
  }

  /** The scalar results of a function that only computes. */
  evaluate(number, scalars) {
    const found = this.data.functions[number];
    const registers = [];
    for (const each of found.code) compute(each, registers, scalars, this);
    return found.results.map((result) => registers[result.register]);
  }

  /** Runs a function; `given` are registers for scalars, { data, shape } for tensors. */
  async run(found, given) {
    const { device } = this;
    const registers = [];
    const commands = [];
    for (const each of found.code) {
      if (COMMANDS.has(each.op)) commands.push(each);
      else compute(each, registers, given, this);
    }
    const owned = [];
    const own = (buffer) => { owned.push(buffer); return buffer; };
    device.pushErrorScope('validation');
    device.pushErrorScope('out-of-memory');
    const state = { registers, own, encoder: device.createCommandEncoder() };
    let failure = null;
    try {
      state.buffers = found.buffers.map(({ kind, index, bytes }) => {
        if (kind === 'constant') return { buffer: this.constants[index].buffer, bytes: this.constants[index].bytes };
        if (kind !== 'argument') return this.memory(Number(registers[bytes]), own);
        const { data } = given[index];
        return this.upload(new Uint8Array(data.buffer, data.byteOffset, data.byteLength), own);
      });
      for (const command of commands) this[command.op](command, state);
      device.queue.submit([state.encoder.finish()]);
    } catch (error) {
      failure = error;
    }
    // Both at once: other calls may open scopes of their own meanwhile.
    const [memory, invalid] = await Promise.all([device.popErrorScope(), device.popErrorScope()]);
    if (failure ?? memory ?? invalid) {
      for (const buffer of owned) buffer.destroy();
      throw failure ?? new Error(`${found.name}: ${(memory ?? invalid).message}`);
    }
    return { buffers: state.buffers, registers, owned };
  }

  // Memory: { buffer, bytes }

  memory(bytes, own = (buffer) => buffer) {
    const size = Math.max(LEAST, Math.ceil(bytes / 16) * 16);
    return { buffer: own(this.device.createBuffer({ size, usage: STORAGE })), bytes };
  }

  upload(data, own) {
    const made = this.memory(data.byteLength, own);
    const padded = new Uint8Array(Math.ceil(data.byteLength / 4) * 4);
    padded.set(data);
    this.device.queue.writeBuffer(made.buffer, 0, padded);
    return made;
  }

  async download({ buffer }, bytes) {
    if (bytes === 0) return new ArrayBuffer(0);
    const size = Math.ceil(bytes / 4) * 4;
    const copy = this.device.createBuffer({ size, usage: 0x1 | 0x8 }); // MAP_READ, COPY_DST
    const encoder = this.device.createCommandEncoder();
    encoder.copyBufferToBuffer(buffer, 0, copy, 0, size);
    this.device.queue.submit([encoder.finish()]);
    await copy.mapAsync(0x1);
    const data = copy.getMappedRange().slice(0, bytes);
    copy.destroy();
    return data;
  }

  // Commands

  copy({ from, to, bytes }, { registers, buffers, encoder, own }) {
    const [source, target] = [buffers[from[0]], buffers[to[0]]];
    const [at, start, size] = [at_(registers, from[1]), at_(registers, to[1]), Number(registers[bytes])];
    if (size === 0) return;
    within(source, at, size, 'a copy');
    within(target, start, size, 'a copy');
    // Whole words, and the padding after the last byte of a target.
    if (at % 4 || start % 4 || (size % 4 && start + size !== target.bytes)) {
      throw new Error(`a copy of ${size} bytes from ${at} to ${start}: pages copy multiples of 4 bytes`);
    }
    const whole = Math.ceil(size / 4) * 4;
    let [origin, first] = [source.buffer, at];
    if (source.buffer === target.buffer) { // which WebGPU does not do
      [origin, first] = [this.memory(whole, own).buffer, 0];
      encoder.copyBufferToBuffer(source.buffer, at, origin, 0, whole);
    }
    encoder.copyBufferToBuffer(origin, first, target.buffer, start, whole);
  }

  fill({ to, pattern, patternBytes }, { registers, buffers, encoder, own }) {
    const target = buffers[to[0]];
    const start = at_(registers, to[1]);
    const size = to[2] === null ? target.bytes - start : Number(registers[to[2]]);
    if (size === 0) return;
    within(target, start, size, 'a fill');
    if (start % 4 || (size % 4 && start + size !== target.bytes)) {
      throw new Error(`a fill of ${size} bytes at ${start}: pages fill multiples of 4 bytes`);
    }
    const whole = Math.ceil(size / 4) * 4;
    const word = BigInt.asUintN(8 * patternBytes, registers[pattern]);
    if (word === 0n) {
      encoder.clearBuffer(target.buffer, start, whole);
      return;
    }
    const from = own(this.device.createBuffer({ size: whole, usage: 0x4, mappedAtCreation: true })); // COPY_SRC
    const bytes = new Uint8Array(from.getMappedRange());
    for (let i = 0; i < whole; i += 1) bytes[i] = Number((word >> BigInt(8 * (i % patternBytes))) & 0xffn);
    from.unmap();
    encoder.copyBufferToBuffer(from, 0, target.buffer, start, whole);
  }

  dispatch({ export: exported, grid, constants, bindings }, { registers, buffers, encoder, own }) {
    const { executable, ordinal } = this.data.exports[Number(registers[exported])];
    const known = this.kernels.get(`${executable} ${ordinal}`);
    const label = `@${known.name}::@${known.kernel.entry}`;
    const groups = grid.map((register) => Number(registers[register]));
    if (groups.includes(0)) return;
    const most = this.device.limits.maxComputeWorkgroupsPerDimension;
    if (Math.max(...groups) > most) {
      throw new Error(`${label}: a grid of ${groups.join(' x ')} workgroups; this device starts ${most} a dimension`);
    }
    const ranges = bindings.map(([number, offset, length]) => {
      const at = at_(registers, offset);
      const bytes = length === null ? buffers[number].bytes - at : Number(registers[length]);
      within(buffers[number], at, bytes, label);
      return { buffer: buffers[number].buffer, at, bytes };
    });
    const { merged } = known.kernel;
    const { places, offsets, back } = merged
      ? this.merged(known.kernel, ranges, label, encoder, own)
      : this.placed(known.kernel, ranges, label, encoder, own);
    const { pipeline, layouts } = this.pipeline(known, places.length, label);
    const pass = encoder.beginComputePass({ label });
    pass.setPipeline(pipeline);
    pass.setBindGroup(0, this.device.createBindGroup({
      layout: layouts[0], entries: places.map((resource, binding) => ({ binding, resource })),
    }));
    const bind = (group, words) => {
      const entries = [];
      if (words) {
        const size = Math.max(16, Math.ceil(words.length / 4) * 16);
        const uniform = own(this.device.createBuffer({ size, usage: 0x40, mappedAtCreation: true })); // UNIFORM
        new Uint32Array(uniform.getMappedRange()).set(words);
        uniform.unmap();
        entries.push({ binding: 0, resource: { buffer: uniform } });
      }
      pass.setBindGroup(group, this.device.createBindGroup({ layout: layouts[group], entries }));
    };
    if (layouts.length > 1) bind(1, offsets);
    if (known.kernel.hasConstants) {
      bind(2);
      bind(3, constants.map(([register, shift]) => Number(BigInt.asUintN(32, registers[register] >> BigInt(shift)))));
    }
    pass.dispatchWorkgroups(...groups);
    pass.end();
    for (const each of back) encoder.copyBufferToBuffer(...each);
  }

  /** Where the bindings of a dispatch lie: the bytes of buffers, or of copies, of which `back` says what to write. */
  placed(kernel, ranges, label, encoder, own) {
    // A dispatch either reads a buffer or writes it, and no byte through two bindings: what is only read of a buffer that
    // is bound for writing is read from a copy when it is declared so, or lies in what another binding has.
    const isWritten = (i) => kernel.written[i] === true;
    const isOpen = (i) => kernel.declared[i] === 'read_write';
    const end = ({ at, bytes }) => at + Math.max(LEAST, bytes);
    const isShared = (i) => ranges.some((other, k) => {
      if (k === i || other.buffer !== ranges[i].buffer || other.bytes === 0) return false;
      if (isOpen(i) !== isOpen(k)) return !isOpen(i);
      return isOpen(i) && (isWritten(k) || k < i) && other.at < end(ranges[i]) && ranges[i].at < end(other);
    });
    const back = [];
    const places = ranges.map(({ buffer, at, bytes }, binding) => {
      const size = Math.max(LEAST, Math.ceil(bytes / 4) * 4);
      const moves = at % this.device.limits.minStorageBufferOffsetAlignment !== 0 || at + size > buffer.size;
      if (bytes === 0) return { buffer: this.memory(LEAST, own).buffer, offset: 0, size };
      if (!moves && (isWritten(binding) || !isShared(binding))) return { buffer, offset: at, size };
      if (at % 4) throw new Error(`${label}, binding ${binding}: byte ${at} of a buffer; pages bind multiples of 4`);
      const middle = this.memory(bytes, own).buffer;
      const whole = Math.ceil(bytes / 4) * 4;
      encoder.copyBufferToBuffer(buffer, at, middle, 0, whole);
      if (isWritten(binding)) back.push([middle, 0, buffer, at, whole]);
      return { buffer: middle, offset: 0, size };
    });
    return { places, back };
  }

  /** The same for a kernel over fewer buffers, in which several are parts of one; offsets: of each, in elements. */
  merged({ merged, written }, ranges, label, encoder, own) {
    const offsets = [];
    const back = [];
    const places = merged.bindings.map((group, number) => {
      const starts = [];
      let total = 0;
      for (const binding of group) {
        starts.push(total);
        total += Math.max(16, Math.ceil(ranges[binding].bytes / 16) * 16);
      }
      const { buffer } = this.memory(total, own);
      group.forEach((binding, i) => {
        const { buffer: from, at, bytes } = ranges[binding];
        offsets.push(starts[i] / merged.bytes[number]);
        if (bytes === 0) return;
        if (at % 4) throw new Error(`${label}, binding ${binding}: byte ${at} of a buffer; pages bind multiples of 4`);
        const whole = Math.ceil(bytes / 4) * 4;
        encoder.copyBufferToBuffer(from, at, buffer, starts[i], whole);
        if (written[binding]) back.push([buffer, starts[i], from, at, whole]);
      });
      return { buffer, offset: 0, size: total };
    });
    return { places, offsets, back };
  }

  /** The pipeline of a kernel with a number of bindings, made once. */
  pipeline(known, count, label) {
    if (known.made.has(count)) return known.made.get(count);
    const { device } = this;
    const { kernel } = known;
    const group = (types) => device.createBindGroupLayout({
      entries: types.map((type, binding) => ({ binding, visibility: 0x4, buffer: { type } })), // COMPUTE
    });
    const storage = Array.from({ length: count }, (_, i) => (
      kernel.merged || kernel.declared[i] === 'read_write' ? 'storage' : 'read-only-storage'));
    const layouts = [group(storage)];
    if (kernel.merged || kernel.hasConstants) layouts.push(group(kernel.merged ? ['uniform'] : []));
    if (kernel.hasConstants) layouts.push(group([]), group(['uniform']));
    known.module ??= device.createShaderModule({ label, code: known.text });
    const pipeline = device.createComputePipeline({
      label, layout: device.createPipelineLayout({ bindGroupLayouts: layouts }),
      compute: { module: known.module, entryPoint: kernel.entry, constants: known.values },
    });
    const made = { pipeline, layouts };
    known.made.set(count, made);
    return made;
  }
}

const COMMANDS = new Set(['dispatch', 'fill', 'copy']);

function at_(registers, register) {
  return register === null ? 0 : Number(registers[register]);
}

function within({ bytes }, at, size, what) {
  if (at < 0 || size < 0 || at + size > bytes) throw new Error(`${what}: ${size} bytes at ${at} of ${bytes}`);
}

/** A value of a call as { data, shape }, or as a register. */
function argumentOf({ name, type, shape, bits }, value, where) {
  const what = name ? `${where} (${name})` : where;
  if (shape === null) {
    if (typeof value !== 'number' && typeof value !== 'bigint' && typeof value !== 'boolean') {
      throw new Error(`${what}: expected a number for ${type}, got ${typeof value}`);
    }
    return registerOf(type, value, what);
  }
  const wanted = ARRAYS[type] ?? Uint8Array;
  const data = value?.data ?? value;
  if (!(data instanceof wanted)) throw new Error(`${what}: expected a ${wanted.name} for ${type}`);
  const text = `${shape.map((size) => (size < 0 ? '?' : size)).join('x')}x${type}`;
  const given = value.shape ?? inferred(shape, (data.byteLength * 8) / bits);
  const fits = given?.length === shape.length && given.every((size, i) => (
    Number.isSafeInteger(size) && size >= 0 && (shape[i] < 0 || shape[i] === size)));
  const bytes = fits ? Math.ceil((given.reduce((a, b) => a * b, 1) * bits) / 8) : -1;
  if (bytes !== data.byteLength) {
    const have = value.shape ? `, shape ${value.shape.join('x')}` : '';
    throw new Error(`${what}: expected ${text}, got ${data.length} elements${have}`);
  }
  return { data, shape: given };
}

/** The shape of so many elements when at most one size is free. */
function inferred(shape, count) {
  const known = shape.filter((size) => size >= 0).reduce((a, b) => a * b, 1);
  if (shape.filter((size) => size < 0).length > 1) return null;
  return shape.map((size) => (size < 0 ? count / known : size));
}

// Scalars: integers are sign-extended, floats are their bits.

const view = new DataView(new ArrayBuffer(8));
const floatOf = (width, bits) => {
  view.setBigUint64(0, BigInt.asUintN(64, bits));
  return width === 64 ? view.getFloat64(0) : view.getFloat32(4);
};
const bitsOf = (width, value) => {
  view.setBigUint64(0, 0n);
  if (width === 64) view.setFloat64(0, value);
  else view.setFloat32(4, value);
  return view.getBigUint64(0);
};

function registerOf(type, value, what) {
  if (type === 'f32' || type === 'f64') return bitsOf(type === 'f64' ? 64 : 32, Number(value));
  if (!/^(i|si|ui|i1)\d*$/.test(type) || (typeof value === 'number' && !Number.isInteger(value))) {
    throw new Error(`${what}: ${value} is no ${type}`);
  }
  return BigInt.asIntN(64, BigInt(value));
}

function scalarOf(type, register) {
  if (type === 'f32' || type === 'f64') return floatOf(type === 'f64' ? 64 : 32, register);
  return type.endsWith('64') ? register : Number(register);
}

/** A word as the value of an `override`. */
function override(type, word) {
  const bits = Number(BigInt.asUintN(32, word));
  if (type === 'f32' || type === 'f16') return floatOf(32, BigInt(bits));
  return type === 'u32' ? bits : type === 'bool' ? Number(bits !== 0) : bits | 0;
}

const smaller = (a, b) => (a < b ? a : b);
const larger = (a, b) => (a > b ? a : b);
const floor = (a, b) => a / b - (a % b !== 0n && a < 0n !== b < 0n ? 1n : 0n);
const ceil = (a, b) => a / b + (a % b !== 0n && a < 0n === b < 0n ? 1n : 0n);

/** Of two integers and a width; those of U read them without a sign. */
const INTEGERS = {
  add: (a, b) => a + b, sub: (a, b) => a - b, mul: (a, b) => a * b, neg: (a) => -a,
  divs: (a, b) => a / b, rems: (a, b) => a % b, ceildivs: ceil, floordivs: floor, mods: (a, b) => a - floor(a, b) * b,
  mins: smaller, maxs: larger, and: (a, b) => a & b, or: (a, b) => a | b, xor: (a, b) => a ^ b,
  shl: (a, b, w) => (b < 0n || b >= w ? 0n : a << b),
  shrs: (a, b, w) => a >> (b < 0n || b >= w ? w - 1n : b),
  abs: (a) => (a < 0n ? -a : a), mulhs: (a, b, w) => (a * b) >> w, sext: (a) => a,
};
const UNSIGNED = {
  divu: (a, b) => a / b, remu: (a, b) => a % b, ceildivu: ceil, minu: smaller, maxu: larger,
  shru: (a, b, w) => (b >= w ? 0n : a >> b), mulhu: (a, b, w) => (a * b) >> w,
  ctpop: (a) => BigInt([...a.toString(2)].filter((digit) => digit === '1').length),
  ctlz: (a, _, w) => w - BigInt(a === 0n ? 0 : a.toString(2).length),
  cttz: (a, _, w) => (a === 0n ? w : BigInt((a & -a).toString(2).length - 1)),
};
const COMPARISONS = [
  (a, b) => a === b, (a, b) => a !== b, (a, b) => a < b, (a, b) => a <= b, (a, b) => a > b, (a, b) => a >= b,
]; // the last four again for numbers without a sign
const FLOATS = { fadd: (a, b) => a + b, fsub: (a, b) => a - b, fmul: (a, b) => a * b, fdiv: (a, b) => a / b };

/** Runs one instruction that is no command. */
function compute({ op, to, a, b, c, width, value, predicate, message }, registers, given, { data, variants }) {
  const set = (result) => { registers[to] = result; };
  const [x, y, w] = [registers[a], registers[b], BigInt(width ?? 64)];
  const signed = (each) => BigInt.asIntN(Number(w), each);
  const plain = (each) => BigInt.asUintN(Number(w), each);
  if (op === 'const') set(BigInt(value));
  else if (op === 'dim') set(BigInt(given[a].shape[b]));
  else if (op === 'scalar') set(given[a]);
  else if (op === 'query') {
    const { category, key, default: otherwise } = data.queries[a];
    const answers = { 'hal.executable.format': BigInt(key === 'webgpu-wgsl-fb'), 'hal.device.id': BigInt(key === 'webgpu') };
    const answer = answers[category];
    set(width ? BigInt(answer !== undefined) : (answer ?? BigInt.asIntN(64, BigInt(otherwise))));
  } else if (op === 'variant') set(BigInt(variants[a].index));
  else if (op === 'select') set(x !== 0n ? registers[b] : registers[c]);
  else if (op === 'check' || op === 'check_eq') {
    if (op === 'check' ? x === 0n : x !== y) throw new Error(message.replaceAll('{a}', x).replaceAll('{b}', y));
  } else if (op === 'zext') set(plain(x));
  else if (op === 'cmp') {
    const read = predicate > 5 ? plain : signed;
    set(BigInt(COMPARISONS[predicate > 5 ? predicate - 4 : predicate](read(x), read(y))));
  } else if (op in INTEGERS || op in UNSIGNED) {
    const [made, read] = op in INTEGERS ? [INTEGERS[op], signed] : [UNSIGNED[op], plain];
    if (/div|rem|mods/.test(op) && read(y) === 0n) throw new Error(`${op}: a division by zero`);
    const result = made(read(x), y === undefined ? 0n : (op.startsWith('sh') ? plain : read)(y), w);
    const extended = signed(result);
    if (op === 'divs' && extended !== result) throw new Error('divs: the quotient has more bits than its type');
    set(extended);
  } else if (op in FLOATS) set(bitsOf(width, FLOATS[op](floatOf(width, x), floatOf(width, y))));
  else if (op === 'fneg') set(bitsOf(width, -floatOf(width, x)));
  else if (op === 'fcvt') set(bitsOf(width, floatOf(b, x)));
  else if (op === 'sitofp') set(bitsOf(width, Number(BigInt.asIntN(b, x))));
  else if (op === 'uitofp') set(bitsOf(width, Number(BigInt.asUintN(b, x))));
  else throw new Error(`the instruction ${op} is unknown here: export the program again`);
}
