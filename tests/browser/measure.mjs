// Figures of the page's speed, in a real browser with a real server:
//
//     node tests/browser/measure.mjs target/release/orlop [--only commit|rows|graph] [--seconds 10] [--objects 1000] [--rate 200]
//
// * commit: volumes in sight, and so many changes per second over all of them. From a change's commit to the first frame that has been painted with it,
//   in the list (its rows in sight) and in the graph. The commit lies between the request and its answer: both are told.
// * rows: 10,000 volumes in the list, scrolled; frames per second, and how long frames took.
// * graph: 3,000 objects; until the first picture, then moved about with changes coming in.
//
// Chromium draws here without a GPU: what a person's machine does is no slower. The machine must do nothing else.

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

/** Parts of a list of numbers: median, 95 and 99 of a hundred, the largest. */
function parts(list) {
  const sorted = [...list].sort((a, b) => a - b);
  const at = (part) => (sorted.length ? sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))].toFixed(1) : '-');
  return `median ${at(0.5)}, 95 % ${at(0.95)}, 99 % ${at(0.99)}, most ${at(1)} ms (${sorted.length} of them)`;
}

/** A server without controllers: nobody but this writes. */
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
/** One request. `fetch` would cost more than what is measured. */
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
// An odd number of Mi is written as it is and in no larger unit.
const size = (number) => `${2 * number + 1}Mi`;
const fill = (url, count) => many(numbers(count), (index) => send(url, 'POST', VOLUMES, volume(name(index), { storageClassName: 'some', capacity: { storage: size(index) } })));

/** So many changes per second, evenly, for so many seconds. `which` says which object is next. Gives `Map(size → {sent, answered})`. */
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

/** Starts to look, in each frame, at what it shows; `painted` is told once the frame after it has begun. */
const watchFrames = (page, read) => page.evaluate((source) => {
  const look = new Function(`return (${source})`)();
  const known = new Set();
  globalThis.painted = [];
  const frame = () => {
    const fresh = look().filter((one) => !known.has(one));
    for (const one of fresh) known.add(one);
    // When this callback has run the frame is painted; the message comes behind it.
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
// What the graph has painted is what its model held when it was drawn last: the canvas is drawn in the frame in which the model was marked.
const nodesDrawn = () => [...document.querySelector('canvas').stage.model.nodes.values()].map((node) => node.object.spec?.capacity?.storage);

function report(what, log, painted) {
  const [fromRequest, fromAnswer] = [[], []];
  for (const [text, at] of painted) {
    const entry = log.get(text);
    if (!entry?.answered) continue;
    fromRequest.push(at - entry.sent);
    // The page may have been told before the writer was.
    fromAnswer.push(Math.max(0, at - entry.answered));
  }
  console.log(`   ${what}, from the answer: ${parts(fromAnswer)}\n   ${what}, from the request: ${parts(fromRequest)}`);
}

/** How long frames take while `move` is called in each. */
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

const complaints = { add: (text) => console.log(`   the page complains: ${text}`), allow() {} };

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
    // Half of the changes are of rows in sight, the others of all: what is not seen costs too.
    const log = await change(url, (index) => (index % 2 ? index % OBJECTS : (index / 2) % Math.min(20, seen)), SECONDS, OBJECTS);
    await rest(1000);
    report('the list', log, await page.evaluate(() => globalThis.painted));
    // All of the objects on the screen.
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
    console.log(`   from the address to the rows: ${(now() - begun).toFixed(0)} ms`);
    tell('at rest', await frames(page, 2, () => {}));
    const scroll = (count) => {
      document.querySelector('.scroller').scrollTop += count % 600 < 300 ? 90 : -60;
    };
    tell('scrolling', await frames(page, SECONDS, scroll));
    const leap = (count) => {
      const box = document.querySelector('.scroller');
      box.scrollTop = ((count * 7919) % 9900) * 36;
    };
    tell('somewhere else in each frame', await frames(page, SECONDS / 2, leap));
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
    console.log(`   from the address to the picture: ${(now() - begun).toFixed(0)} ms`);
    const move = (count) => {
      const { stage } = document.querySelector('canvas');
      stage.moved = true;
      stage.camera.pan(0, count % 200 < 100 ? -25 : 25);
      stage.wake();
    };
    tell('moving, names in sight', await frames(page, SECONDS, move));
    await page.getByRole('button', { name: 'Fit' }).click();
    const sway = (count) => {
      const { stage } = document.querySelector('canvas');
      stage.camera.pan(count % 40 < 20 ? -3 : 3, 0);
      stage.wake();
    };
    tell('moving, all 3,000 in sight', await frames(page, SECONDS, sway));
    const [, times] = await Promise.all([change(url, (index) => index % half, SECONDS, 20_000), frames(page, SECONDS, sway)]);
    tell(`moving, all in sight, with ${RATE} changes per second`, times);
    await page.context().close();
    stop();
  },
};

const browser = await launch();
console.log(`Chromium ${browser.version()}, ${WIDE.width} by ${WIDE.height}, without a GPU`);
for (const [title, measure] of Object.entries(MEASURES)) if (!values.only || values.only === title) await measure(browser);
await browser.close();
process.exit(0);
