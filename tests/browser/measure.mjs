// Measures the page's speed in a real browser with a real server:
//
//     node tests/browser/measure.mjs target/release/orlop [--only commit|rows|graph] [--seconds 10] [--objects 1000] [--rate 200]
//
// * commit: the time from a change's commit to the first frame that shows it, in the list (visible rows) and in the graph. There are `--objects`
//   volumes and `--rate` changes per second over all of them. The commit happens between the request and its response: both times are printed.
// * rows: scrolling 10,000 volumes in the list; frames per second and frame times.
// * graph: 3,000 objects; the time to the first drawing, then panning, also while changes arrive.
//
// Chromium draws without a GPU here, so a user's machine is no slower. The machine must be otherwise idle.

import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { performance } from 'node:perf_hooks';
import { parseArgs } from 'node:util';
import { VOLUMES, WIDE, claim, connection, launch, open, until, volume } from './page.mjs';

const { values, positionals: [binary] } = parseArgs({
  allowPositionals: true,
  options: { only: { type: 'string' }, seconds: { type: 'string', default: '10' }, objects: { type: 'string', default: '1000' }, rate: { type: 'string', default: '200' } },
});
if (!binary) throw new Error('usage: node tests/browser/measure.mjs ORLOP [--only commit|rows|graph]');
const [SECONDS, OBJECTS, RATE] = [values.seconds, values.objects, values.rate].map(Number);
const AT_ONCE = 16;
const now = () => performance.timeOrigin + performance.now();
const rest = (ms) => new Promise((done) => setTimeout(done, ms));

/** Formats the median, the 95th and 99th percentile and the maximum of a list of milliseconds. */
function parts(list) {
  const sorted = [...list].sort((a, b) => a - b);
  const at = (part) => (sorted.length ? sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))].toFixed(1) : '-');
  return `median ${at(0.5)}, 95 % ${at(0.95)}, 99 % ${at(0.99)}, max ${at(1)} ms (${sorted.length} samples)`;
}

/** Starts a server without controllers, so that only this program writes. */
async function serve() {
  const dir = mkdtempSync(join(tmpdir(), 'orlop-measure-'));
  const file = join(dir, 'address');
  const child = spawn(resolve(binary), ['apiserver', '--listen', '127.0.0.1:0', '--data-dir', join(dir, 'data'), '--address-file', file], { stdio: ['ignore', 'ignore', 'ignore'] });
  const url = await until('the server is ready', async () => {
    const found = readFileSync(file, 'utf8').trim();
    return (await fetch(`${found}/readyz`)).ok && found;
  });
  return { url, stop: () => { child.kill('SIGKILL'); rmSync(dir, { recursive: true, force: true }); } };
}

const agent = new Agent({ keepAlive: true, maxSockets: AT_ONCE });
/** Sends one request. `fetch` would cost more than the measured operation. */
function send(url, method, path, body, type = 'application/json') {
  return new Promise((done, fail) => {
    const text = JSON.stringify(body);
    const sent = request(url + path, { method, agent, headers: { 'Content-Type': type, 'Content-Length': Buffer.byteLength(text) } }, (answer) => {
      const pieces = [];
      answer.on('data', (piece) => pieces.push(piece));
      answer.on('end', () => (answer.statusCode < 300 ? done() : fail(new Error(`${method} ${path}: ${answer.statusCode} ${Buffer.concat(pieces).toString().slice(0, 300)}`))));
    });
    sent.on('error', fail);
    sent.end(text);
  });
}
async function many(list, one) {
  const work = list[Symbol.iterator]();
  await Promise.all(Array.from({ length: AT_ONCE }, async () => {
    for (const each of work) await one(each);
  }));
}
const numbers = (count) => Array.from({ length: count }, (_, index) => index);
const name = (index) => `disk-${String(index).padStart(5, '0')}`;
// An odd number of Mi is never displayed in a larger unit.
const size = (number) => `${2 * number + 1}Mi`;
const fill = (url, count) => many(numbers(count), (index) => send(url, 'POST', VOLUMES, volume(name(index), { storageClassName: 'some', capacity: { storage: size(index) } })));

/** Sends `RATE` evenly spaced changes per second for `seconds`. `which` selects the next object. Returns `Map(size → {sent, answered})`. */
async function change(url, which, seconds, from) {
  const log = new Map();
  const begun = now();
  const pending = [];
  for (let index = 0; index < RATE * seconds; index += 1) {
    const wait = begun + (1000 * index) / RATE - now();
    if (wait > 1) await rest(wait);
    const entry = { sent: now(), answered: 0 };
    const text = size(from + index);
    log.set(text, entry);
    pending.push(send(url, 'PATCH', `${VOLUMES}/${name(which(index))}`, { spec: { capacity: { storage: text } } }, 'application/merge-patch+json').then(() => {
      entry.answered = now();
    }));
  }
  await Promise.all(pending);
  console.log(`   ${log.size} changes in ${((now() - begun) / 1000).toFixed(1)} s; a write took ${parts([...log.values()].map((one) => one.answered - one.sent))}`);
  return log;
}

/** Calls `read` in each frame; adds each new value to `painted`, with the time, after the frame is painted. */
const watchFrames = (page, read) => page.evaluate((source) => {
  const look = new Function(`return (${source})`)();
  const known = new Set();
  globalThis.painted = [];
  const frame = () => {
    const fresh = look().filter((one) => !known.has(one));
    for (const one of fresh) known.add(one);
    // The browser paints the frame after this callback and delivers the message after that.
    if (fresh.length) {
      const { port1, port2 } = new MessageChannel();
      port1.onmessage = () => {
        const at = performance.timeOrigin + performance.now();
        for (const one of fresh) globalThis.painted.push([one, at]);
        port1.close();
      };
      port2.postMessage(0);
    }
    requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
}, read.toString());

const rowsInSight = () => [...document.querySelectorAll('.scroller .body [role=cell][data-label=Capacity]')].map((cell) => cell.textContent);
// The canvas is drawn in the frame in which the model changes, so the model's values are those on the screen.
const nodesDrawn = () => [...document.querySelector('canvas').stage.model.nodes.values()].map((node) => node.object.spec?.capacity?.storage);

function report(what, log, painted) {
  const [fromRequest, fromAnswer] = [[], []];
  for (const [text, at] of painted) {
    const entry = log.get(text);
    if (!entry?.answered) continue;
    fromRequest.push(at - entry.sent);
    // The page may receive the change before the writer receives its response.
    fromAnswer.push(Math.max(0, at - entry.answered));
  }
  console.log(`   ${what}, from the response: ${parts(fromAnswer)}\n   ${what}, from the request: ${parts(fromRequest)}`);
}

/** Returns the frame times in milliseconds while `move` is called in each frame. */
const frames = (page, seconds, move) => page.evaluate(([length, source]) => new Promise((done) => {
  const step = new Function(`return (${source})`)();
  const times = [];
  let last = performance.now();
  const begun = last;
  const frame = (at) => {
    times.push(at - last);
    last = at;
    if (at - begun > length * 1000) return done(times.slice(1));
    step(times.length);
    return requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
}), [seconds, move.toString()]);
const tell = (what, times) => console.log(`   ${what}: ${(1000 / (times.reduce((sum, one) => sum + one, 0) / times.length)).toFixed(1)} frames per second; a frame ${parts(times)}`);

const complaints = { add: (text) => console.log(`   the page reported: ${text}`), allow() {} };

const MEASURES = {
  async commit(browser) {
    console.log(`commit to pixels: ${OBJECTS} objects, ${RATE} changes per second, ${SECONDS} s`);
    const { url, stop } = await serve();
    await fill(url, OBJECTS);
    const page = await open(browser, url, complaints, { bypassCSP: true });
    await page.goto(`${url}/ui/#/list/persistentvolumes`);
    await connection(page, 'live');
    await page.getByRole('rowheader', { name: name(0) }).waitFor();
    await watchFrames(page, rowsInSight);
    const seen = (await page.evaluate(rowsInSight)).length;
    // Half of the changes are of visible rows, the others of all objects: changes off the screen cost time, too.
    const log = await change(url, (index) => (index % 2 ? index % OBJECTS : (index / 2) % Math.min(20, seen)), SECONDS, OBJECTS);
    await rest(1000);
    report('the list', log, await page.evaluate(() => globalThis.painted));
    // The graph with all objects on the screen.
    await page.goto('about:blank');
    await page.goto(`${url}/ui/#/graph`);
    await connection(page, 'live');
    await page.waitForFunction((count) => document.querySelector('canvas')?.stage?.drawn?.nodes > 0 && document.querySelector('canvas').stage.model.nodes.size >= count, OBJECTS);
    await page.getByRole('button', { name: 'Fit' }).click();
    await watchFrames(page, nodesDrawn);
    const again = await change(url, (index) => index % OBJECTS, SECONDS, OBJECTS + RATE * SECONDS);
    await rest(1000);
    report('the graph', again, await page.evaluate(() => globalThis.painted));
    await page.context().close();
    stop();
  },

  async rows(browser) {
    console.log('10,000 rows');
    const { url, stop } = await serve();
    await fill(url, 10_000);
    const page = await open(browser, url, complaints, { bypassCSP: true });
    const begun = now();
    await page.goto(`${url}/ui/#/list/persistentvolumes`);
    await page.getByRole('rowheader', { name: name(0) }).waitFor();
    console.log(`   from the navigation to the rows: ${(now() - begun).toFixed(0)} ms`);
    tell('at rest', await frames(page, 2, () => {}));
    const scroll = (count) => {
      document.querySelector('.scroller').scrollTop += count % 600 < 300 ? 90 : -60;
    };
    tell('scrolling', await frames(page, SECONDS, scroll));
    const leap = (count) => {
      const box = document.querySelector('.scroller');
      box.scrollTop = ((count * 7919) % 9900) * 36;
    };
    tell('jumping to another position in each frame', await frames(page, SECONDS / 2, leap));
    const [, times] = await Promise.all([change(url, (index) => index % 10_000, SECONDS, 20_000), frames(page, SECONDS, scroll)]);
    tell(`scrolling with ${RATE} changes per second`, times);
    await page.context().close();
    stop();
  },

  async graph(browser) {
    console.log('a graph of 3,000 objects');
    const { url, stop } = await serve();
    const half = 1000;
    // Pairs of volumes and claims, and pods that use them.
    await fill(url, half);
    await many(numbers(half), (index) => send(url, 'POST', '/api/v1/namespaces/default/persistentvolumeclaims', claim(`claim-${index}`, { storageClassName: 'some', volumeName: name(index) })));
    await many(numbers(half), (index) => send(url, 'POST', '/api/v1/namespaces/default/pods', {
      apiVersion: 'v1', kind: 'Pod', metadata: { name: `pod-${index}` },
      spec: { nodeName: `node-${index % 20}`, containers: [{ name: 'main', image: 'none' }], volumes: [{ name: 'data', persistentVolumeClaim: { claimName: `claim-${index}` } }] },
    }));
    const page = await open(browser, url, complaints, { bypassCSP: true });
    const begun = now();
    await page.goto(`${url}/ui/#/graph`);
    await page.waitForFunction(() => document.querySelector('canvas')?.stage?.drawn?.nodes > 0 && document.querySelector('canvas').stage.model.nodes.size >= 3000);
    console.log(`   from the navigation to the drawing: ${(now() - begun).toFixed(0)} ms`);
    const move = (count) => {
      const { stage } = document.querySelector('canvas');
      stage.moved = true;
      stage.camera.pan(0, count % 200 < 100 ? -25 : 25);
      stage.wake();
    };
    tell('moving, names visible', await frames(page, SECONDS, move));
    await page.getByRole('button', { name: 'Fit' }).click();
    const sway = (count) => {
      const { stage } = document.querySelector('canvas');
      stage.camera.pan(count % 40 < 20 ? -3 : 3, 0);
      stage.wake();
    };
    tell('moving, all 3,000 visible', await frames(page, SECONDS, sway));
    const [, times] = await Promise.all([change(url, (index) => index % half, SECONDS, 20_000), frames(page, SECONDS, sway)]);
    tell(`moving, all visible, with ${RATE} changes per second`, times);
    await page.context().close();
    stop();
  },
};

const browser = await launch();
console.log(`Chromium ${browser.version()}, ${WIDE.width} by ${WIDE.height}, without a GPU`);
for (const [title, measure] of Object.entries(MEASURES)) if (!values.only || values.only === title) await measure(browser);
await browser.close();
process.exit(0);
