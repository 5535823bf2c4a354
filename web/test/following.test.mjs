// Following a server and viewing its past, against a fake server: which requests the page sends, and when.

import assert from 'node:assert/strict';
import { mock, test } from 'node:test';

const asked = [];
let answer = () => new Response('', { status: 404 });
globalThis.fetch = async (url, { signal } = {}) => {
  asked.push(url);
  const response = await answer(url, signal);
  if (signal?.aborted) throw signal.reason;
  return response;
};
const heard = {};
globalThis.document = { hidden: false, addEventListener: (name, fn) => { heard[name] = fn; } };
globalThis.window = { addEventListener() {} };
Object.defineProperty(globalThis, 'navigator', { value: { onLine: true }, configurable: true });

const { connection, start } = await import('../static/state/stream.js');
const { objects } = await import('../static/state/objects.js');
const { time } = await import('../static/state/time.js');

const pv = (name, revision, type = 'ADDED') => ({ type, resource: 'persistentvolumes', revision: String(revision), time: new Date(1e12 + 1000 * revision).toISOString(), object: { metadata: { name, uid: name }, spec: {} } });
const header = (revision, oldest = 0, more) => ({ type: 'HEADER', format: 'orlop.dev/stream.1', revision: String(revision), oldest: String(oldest), time: new Date().toISOString(), ...more });
const synced = (revision) => ({ type: 'SYNCED', revision: String(revision) });
const lines = (...all) => all.map((one) => `${JSON.stringify(one)}\n`).join('');
/** Returns a response that stays open until it is aborted or `end` is called; `more` sends more text. */
function open(text, signal) {
  let [end, more] = [null, null];
  const body = new ReadableStream({
    start(controller) {
      more = (next) => controller.enqueue(new TextEncoder().encode(next));
      more(text);
      end = () => controller.close();
      signal.addEventListener('abort', () => controller.error(signal.reason));
    },
  });
  return { response: new Response(body), end, more };
}
const status = (code, more = {}) => new Response(JSON.stringify({ kind: 'Status', code, ...more }), { status: code });
const tooLarge = () => status(504, { message: 'Too large resource version', details: { causes: [{ reason: 'ResourceVersionTooLarge' }] } });
const names = () => objects.list('persistentvolumes').map((one) => one.metadata.name).join();
const until = async (is) => {
  for (let i = 0; i < 500; i += 1) {
    if (is()) return;
    await new Promise((resolve) => setImmediate(resolve));
  }
  assert.fail(`timeout: ${is}`);
};

test('the page reloads the state of a replaced server, whatever its revisions', async () => {
  mock.timers.enable({ apis: ['setTimeout'] });
  let [uid, head, name, end, more, held] = ['first', 300, 'old', null, null, false];
  const streams = [];
  answer = async (url, signal) => {
    if (url === '/apis/orlop.dev/v1/revisions') return new Response(JSON.stringify({ newest: { revision: String(head) } }));
    if (url.endsWith('/kube-system')) return new Response(JSON.stringify({ metadata: { uid } }));
    if (!url.includes('/stream')) return status(404);
    streams.push(url.split('stream')[1]);
    const from = Number(/from=(\d+)/.exec(url)?.[1] || 0);
    if (from > head) return tooLarge();
    // The header of a resumed stream contains its first revision, not the newest one.
    const rest = held ? '' : lines({ type: 'PROGRESS', revision: String(head) });
    const found = open(from ? lines(header(from)) + rest : lines(header(head), pv(name, head), synced(head)), signal);
    ({ end, more } = found);
    return found.response;
  };
  const again = async () => {
    end();
    await until(() => connection.state !== 'live');
    await until(() => {
      mock.timers.tick(100);
      return connection.state === 'live';
    });
  };
  start();
  await until(() => connection.state === 'live');
  assert.equal(names(), 'old');
  await again();
  assert.deepEqual(streams.splice(0), ['', '?from=300'], 'the stream of the same server is resumed');
  // The page is not live while it receives the missed changes.
  [head, held] = [302, true];
  end();
  await until(() => connection.state !== 'live');
  await until(() => {
    mock.timers.tick(100);
    return streams.length === 1;
  });
  const quiet = async () => {
    for (let i = 0; i < 50; i += 1) await new Promise((resolve) => setImmediate(resolve));
    return connection.state;
  };
  assert.notEqual(await quiet(), 'live', 'live before the first missed change');
  more(lines(pv('first', 301)));
  await until(() => names().includes('first'));
  assert.notEqual(await quiet(), 'live', 'live after half of the missed changes');
  more(lines(pv('second', 302)));
  await until(() => connection.state === 'live');
  assert.deepEqual([streams.splice(0), time.newest], [['?from=300'], 302]);
  held = false;
  // Another server with a higher revision.
  [uid, head, name] = ['second', 900, 'new'];
  await again();
  assert.deepEqual(streams.splice(0), ['']);
  assert.equal(names(), 'new');
  assert.equal(time.newest, 900);
  // The same server, restored to an earlier state.
  [head, name] = [500, 'restored'];
  await again();
  assert.deepEqual(streams.splice(0), ['?from=900', '']);
  assert.equal(names(), 'restored');
  assert.equal(time.newest, 500);
});

test('a paused page is as of the last data, even after the machine was asleep', async () => {
  const real = Date.now;
  const before = real();
  try {
    Date.now = () => real() + 9 * 3600000;
    document.hidden = true;
    heard.visibilitychange();
    mock.timers.tick(5000);
    await until(() => connection.state === 'paused');
    assert.ok(connection.since <= real() && connection.since > before - 10000);
    assert.ok(time.now() < real() + 3600000, 'the clock does not stop');
  } finally {
    Date.now = real;
    mock.timers.reset();
  }
});

test('concurrent seeks load one revision at a time and end at the last one', async () => {
  const waiting = [];
  let slow = false;
  time.ends(0, 100000);
  answer = (url) => new Promise((resolve) => {
    const query = new URLSearchParams(url.split('?')[1]);
    const at = Number(query.get('at') || query.get('from'));
    const end = query.get('until') ? { until: query.get('until') } : {};
    const go = () => resolve(new Response(lines(header(at, 0, end), pv(`v${at}`, at), synced(at))));
    if (url.includes('stream?at') || slow) waiting.push(go);
    else go();
  });
  asked.length = 0;
  const all = [5000, 9000, 13000, 17000].map((at) => time.seek(at));
  assert.equal(waiting.length, 1);
  assert.equal(time.wanted, 17000);
  waiting.shift()();
  await until(() => waiting.length === 1);
  assert.equal(time.revision, '5000');
  assert.equal(time.wanted, 17000);
  waiting.shift()();
  await Promise.all(all);
  assert.equal(time.revision, '17000');
  assert.equal(time.busy, false);
  assert.deepEqual(asked.map((url) => url.split('v1/')[1]), ['stream?at=5000&follow=false', 'stream?at=17000&follow=false', 'capture?from=16000&until=19000']);
  // Seeking within the loaded range sends no requests.
  asked.length = 0;
  for (let at = 17000; at > 16800; at -= 1) await time.seek(at);
  assert.deepEqual(asked, []);
  assert.equal(time.revision, '16801');
  // A seek within the loaded range cancels an earlier seek that is still loading.
  const away = time.seek(50000);
  await time.seek(16900);
  waiting.shift()();
  await away;
  assert.equal(time.revision, '16900');
  assert.equal(time.busy, false);
  // A seek to a revision that is already being loaded waits for that request.
  slow = true;
  const there = time.seek(50000);
  waiting.shift()();
  await until(() => waiting.length === 1);
  asked.length = 0;
  const near = [50100, 50200, 51900].map((at) => time.seek(at));
  assert.deepEqual([asked.length, time.revision, time.busy], [0, '50000', true]);
  waiting.shift()();
  await Promise.all([there, ...near]);
  assert.deepEqual([asked.length, time.revision, time.busy, waiting.length], [0, '51900', false, 0]);
  time.live();
});

test('compaction during a seek causes no error, and a seek to a compacted revision reports one', async () => {
  time.ends(0, 12000);
  answer = async (url) => {
    if (url.endsWith('/revisions')) return new Response(JSON.stringify({ oldest: { revision: '2000' }, newest: { revision: '12000' } }));
    const query = new URLSearchParams(url.split('?')[1]);
    const at = Number(query.get('at') || query.get('from'));
    if (at < 2000) return status(410, { message: 'the oldest revision is 2000' });
    return new Response(lines(header(at, 2000, query.get('until') ? { until: query.get('until') } : {}), synced(at)));
  };
  asked.length = 0;
  await time.seek(2500);
  assert.deepEqual(asked.map((url) => url.split('v1/')[1]), ['stream?at=2500&follow=false', 'capture?from=1500&until=4500', 'revisions', 'capture?from=2000&until=4500']);
  assert.deepEqual([time.problem, time.oldest, time.mode], ['', 2000, 'paused']);
  await time.seek(900);
  assert.match(time.problem, /2000/);
  assert.equal(time.revision, '2500');
  // A server replacement ends the view of the past.
  time.another();
  assert.equal(time.mode, 'live');
  assert.match(time.problem, /different server/);
  time.live();
});
