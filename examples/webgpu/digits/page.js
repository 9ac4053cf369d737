// Draws on a canvas and shows what the network says.
import { load } from './pydispatch.js';

const canvas = document.querySelector('#drawing');
const status = document.querySelector('#status');
const small = Object.assign(document.createElement('canvas'), { width: 28, height: 28 });
const pen = canvas.getContext('2d');
const pixels = small.getContext('2d', { willReadFrequently: true });

const rows = Array.from({ length: 10 }, (_, digit) => {
  const row = document.querySelector('#scores').insertRow();
  row.insertCell().textContent = digit;
  const bar = row.insertCell().appendChild(Object.assign(document.createElement('span'), { className: 'bar' }));
  return { row, bar, percent: row.insertCell() };
});

function show(scores) {
  const best = scores ? scores.indexOf(Math.max(...scores)) : -1;
  rows.forEach(({ row, bar, percent }, digit) => {
    const score = scores ? scores[digit] : 0;
    bar.style.width = `${100 * score}%`;
    percent.textContent = scores ? `${Math.round(100 * score)} %` : '';
    row.className = digit === best ? 'best' : '';
  });
  return best;
}

let program;
try {
  program = await load('program.json');
  status.textContent = 'Ready.';
} catch (error) {
  status.textContent = `It does not run here: ${error.message}`;
  throw error;
}

let isRunning = false;
let isNewer = false;

/** Reads what is drawn; drawing goes on meanwhile, and the last state is read last. */
async function classify() {
  isNewer = true;
  if (isRunning) return;
  isRunning = true;
  while (isNewer) {
    isNewer = false;
    pixels.drawImage(canvas, 0, 0, 28, 28);
    const { data: colours } = pixels.getImageData(0, 0, 28, 28);
    const image = Float32Array.from({ length: 784 }, (_, i) => colours[4 * i] / 255);
    const begin = performance.now();
    const [{ data }] = await program.call('classify', image);
    status.textContent = `A ${show([...data])}, after ${(performance.now() - begin).toFixed(1)} ms.`;
  }
  isRunning = false;
}

function clear() {
  pen.fillStyle = '#000';
  pen.fillRect(0, 0, 280, 280);
  Object.assign(pen, { strokeStyle: '#fff', lineWidth: 30, lineCap: 'round', lineJoin: 'round' });
  show(null);
  status.textContent = 'Ready.';
}

let last = null;
const place = (event) => {
  const box = canvas.getBoundingClientRect();
  return [(event.clientX - box.left) / box.width * 280, (event.clientY - box.top) / box.height * 280];
};
function draw(event) {
  if (!last) return;
  const next = place(event);
  pen.beginPath();
  pen.moveTo(...last);
  pen.lineTo(...next);
  pen.stroke();
  last = next;
  classify();
}
canvas.addEventListener('pointerdown', (event) => {
  canvas.setPointerCapture(event.pointerId);
  last = place(event);
  draw(event);
});
canvas.addEventListener('pointermove', draw);
canvas.addEventListener('pointerup', () => { last = null; });
canvas.addEventListener('pointercancel', () => { last = null; });
document.querySelector('#clear').addEventListener('click', clear);
clear();
