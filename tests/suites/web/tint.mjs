// Dawn's compiler of WGSL over all files of a folder: `node tint.mjs NODE_MODULES FOLDER`. A line for each error.
import fs from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

const [, , modules, folder] = process.argv;
const { create } = await import(pathToFileURL(path.join(modules, 'webgpu', 'index.js')));
const gpu = create(['backend=null', 'enable-dawn-features=allow_unsafe_apis']);
const device = await (await gpu.requestAdapter()).requestDevice({ requiredFeatures: ['shader-f16'] });
let count = 0;
for (const name of fs.readdirSync(folder).sort()) {
  device.pushErrorScope('validation');
  const module = device.createShaderModule({ code: fs.readFileSync(path.join(folder, name), 'utf8') });
  const said = [...(await module.getCompilationInfo()).messages].filter((each) => each.type === 'error');
  const error = await device.popErrorScope();
  count += 1;
  if (said.length) console.log(`${name}:${said[0].lineNum}: ${said[0].message}`);
  else if (error) console.log(`${name}: ${error.message}`);
}
console.error(`${count} shaders`);
process.exit(0);
