// Follows the server: one stream for all kinds, or on a server without the group orlop.dev, watches and lists. Reports whether the page is
// live, and if not, since when its state is out of date.

import { request, session } from '../session.js';
import { KINDS, kindOf } from './kinds.js';
import { splitter } from './lines.js';
import { Store, objects } from './objects.js';
import { time } from './time.js';

const STREAM = '/apis/orlop.dev/v1/stream';
const FIRST_PAUSE = 500;
const LONGEST_PAUSE = 15000;
// Timeouts without data, in milliseconds. The stream sends data every 5 seconds, a watch about once a minute.
const SILENCE = 12500;
const WATCH_SILENCE = 150000;
// A browser opens at most six connections to a server: four for watches, one for lists, and one for requests of the user.
const WATCHED = ['persistentvolumeclaims', 'persistentvolumes', 'pods', 'events'];
const ROUND = 5000;
// A hidden tab closes its connection after this time, in milliseconds.
const HIDDEN_FOR = 5000;
const PAGE = 500;

export { splitter };

/** The revision has been compacted. */
class Expired extends Error {}
/** The revision does not exist yet: the server was restored or replaced. */
class Ahead extends Expired {}
/** The server does not have the requested resource. */
class Missing extends Error {}

/** Exponential back-off with jitter, so that many pages do not reconnect at the same time. */
export function backoff(random = Math.random) {
  let pause = FIRST_PAUSE;
  return {
    next() {
      const now = pause * (0.5 + random() / 2);
      pause = Math.min(pause * 2, LONGEST_PAUSE);
      return now;
    },
    reset() {
      pause = FIRST_PAUSE;
    },
    get long() {
      return pause >= LONGEST_PAUSE;
    },
  };
}

const readers = new Set();
/** The time when the server last sent data. */
let heard = 0;
/** `state`: connecting, live, reconnecting, offline, paused. `since`: the time at which the displayed state was last known to be current. */
export const connection = {
  state: 'connecting',
  text: '',
  since: null,
  /** Whether the server has the group orlop.dev; null while unknown. */
  insight: null,
  subscribe(fn) {
    readers.add(fn);
    return () => readers.delete(fn);
  },
};

function say(state, text = '') {
  const was = connection.state;
  if (was === state && connection.text === text) return;
  // Use the time of the last data, not of the detection: the machine may have been asleep in between.
  if (was === 'live' && state !== 'live') connection.since = heard || Date.now();
  Object.assign(connection, { state, text });
  time.hold(state !== 'live', heard || Date.now());
  for (const fn of [...readers]) fn();
}

async function ask(path, signal) {
  const response = await request(path, { headers: { Accept: 'application/json' }, signal, cache: 'no-store' });
  if (response.ok) return response;
  const status = await response.json().catch(() => ({}));
  if (status.details?.causes?.some((one) => one.reason === 'ResourceVersionTooLarge')) throw new Ahead(status.message);
  if (response.status === 410) throw new Expired(status.message || path);
  if (response.status === 404) throw new Missing(status.message || path);
  throw new Error(status.message || `${response.status} ${response.statusText}`);
}

/** A signal with a timeout for short requests: a connection can be dead without an error. */
const soon = (signal) => AbortSignal.any([signal, AbortSignal.timeout(SILENCE)]);

/** Calls `line` with each line of a response, parsed as JSON. Ends after `silence` milliseconds without data. */
async function follow(path, signal, silence, line, opened = () => {}) {
  const quiet = new AbortController();
  const stop = () => quiet.abort(new Error('no data from the server'));
  if (signal.aborted) stop();
  signal.addEventListener('abort', stop);
  let timer = setTimeout(stop, silence);
  try {
    const response = await ask(path, quiet.signal);
    opened();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    const split = splitter();
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      heard = Date.now();
      clearTimeout(timer);
      timer = setTimeout(stop, silence);
      for (const text of split(value)) line(JSON.parse(text));
    }
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', stop);
    quiet.abort();
  }
}

let revision = null;
/** The server's newest revision when the connection was opened. Until the stream reaches it, the displayed state is out of date. */
let newest = 0;

/** Opens one connection to the stream. */
async function stream(signal, good) {
  const query = revision ? `?from=${revision}` : '';
  // Collect the initial state separately, so that the views do not show a partial state.
  let gathering = revision ? null : new Store();
  let goal = 0;
  const current = () => {
    if (Number(revision) < goal) return;
    good();
    say('live');
  };
  await follow(STREAM + query, signal, SILENCE, (one) => {
    switch (one.type) {
      case 'HEADER':
        time.clock(one.time);
        // The header of a resumed stream contains its first revision, not the server's newest one.
        goal = Math.max(newest, Number(one.revision));
        time.ends(one.oldest, goal);
        connection.insight = true;
        if (!gathering) current();
        return;
      case 'ADDED':
      case 'MODIFIED':
      case 'DELETED':
        // Skip kinds that the page does not display, such as leases.
        if (gathering) {
          if (kindOf(one.resource)) gathering.apply(one.type, one.resource, one.object);
        } else {
          if (kindOf(one.resource)) objects.apply(one.type, one.resource, one.object);
          revision = one.revision;
          time.ends(null, revision);
          current();
        }
        return;
      case 'SYNCED':
        if (gathering) objects.swap(gathering);
        gathering = null;
        revision = one.revision;
        objects.whole();
        current();
        return;
      case 'PROGRESS':
        time.clock(one.time);
        time.ends(null, one.revision);
        if (gathering) return;
        revision = one.revision;
        current();
        return;
      case 'ERROR':
        if (one.code === 410) throw new Expired(one.message);
        throw new Error(one.message || 'the stream failed');
      default:
    }
  });
}

async function list(kind, signal) {
  const items = [];
  let token = '';
  for (;;) {
    const query = new URLSearchParams({ limit: PAGE });
    if (token) query.set('continue', token);
    const page = await (await ask(`${kind.base}/${kind.plural}?${query}`, soon(signal))).json();
    items.push(...(page.items || []));
    token = page.metadata.continue;
    if (!token) return { items, version: page.metadata.resourceVersion };
  }
}

const versions = new Map();

async function watch(kind, signal, up) {
  if (!versions.has(kind.id)) {
    const found = await list(kind, signal);
    objects.replace(kind.id, found.items);
    versions.set(kind.id, found.version);
  }
  const query = new URLSearchParams({ watch: '1', allowWatchBookmarks: 'true', resourceVersion: versions.get(kind.id) });
  await follow(`${kind.base}/${kind.plural}?${query}`, signal, WATCH_SILENCE, ({ type, object }) => {
    if (type === 'ERROR') {
      versions.delete(kind.id);
      if (object.code === 410) throw new Expired(object.message);
      throw new Error(object.message || 'the watch failed');
    }
    versions.set(kind.id, object.metadata.resourceVersion);
    if (type !== 'BOOKMARK') objects.apply(type, kind.id, object);
  }, () => up(kind.id));
}

/** Lists the kinds that are not watched, one after another, until aborted. */
async function rounds(signal) {
  const others = KINDS.filter((kind) => !WATCHED.includes(kind.id));
  for (;;) {
    for (const kind of others) {
      try {
        objects.replace(kind.id, (await list(kind, signal)).items);
      } catch (error) {
        // A server may not have the snapshot kinds.
        if (!(error instanceof Missing)) throw error;
      }
    }
    objects.whole();
    await new Promise((resolve) => setTimeout(resolve, ROUND));
    if (signal.aborted) return;
  }
}

/** Follows a server without the group orlop.dev by four watches and repeated lists. The first failure ends all of them. */
async function watches(signal, good) {
  const all = new AbortController();
  const stop = () => all.abort();
  signal.addEventListener('abort', stop);
  const waiting = new Set(WATCHED);
  const up = (id) => {
    waiting.delete(id);
    if (waiting.size) return;
    good();
    objects.whole();
    say('live', 'This server does not provide the API group orlop.dev: the page watches claims, volumes, pods and events, and lists the other kinds every 5 seconds.');
  };
  const forever = async (id) => {
    for (;;) {
      const before = Date.now();
      try {
        await watch(KINDS.find((kind) => kind.id === id), all.signal, up);
      } catch (error) {
        if (!(error instanceof Expired) || Date.now() - before < 1000) throw error;
        versions.delete(id);
      }
      // Resume a watch that ends normally, but at most once per second.
      if (Date.now() - before < 1000) await new Promise((resolve) => setTimeout(resolve, 1000));
      if (all.signal.aborted) return;
    }
  };
  try {
    await Promise.race([...WATCHED.map(forever), rounds(all.signal)]);
  } finally {
    all.abort();
    signal.removeEventListener('abort', stop);
  }
}

let paused = false;
let current = new AbortController();
let wake = () => {};
const pauses = backoff();

/** Waits `ms` milliseconds or until `wake` is called; without `ms`, until `wake` is called. */
const rest = (ms) => new Promise((resolve) => {
  wake = resolve;
  if (ms !== undefined) setTimeout(resolve, ms);
});

/** Selects the stream or the watches. Checked on every connection, because the server may have been upgraded. */
async function way(signal) {
  try {
    // Do not use discovery: a server without controllers has the group but does not list it.
    const revisions = await (await ask('/apis/orlop.dev/v1/revisions', soon(signal))).json();
    newest = Number(revisions.newest?.revision) || 0;
    connection.insight = true;
    return stream;
  } catch (error) {
    if (!(error instanceof Missing)) throw error;
    connection.insight = false;
    return watches;
  }
}

/** Discards the known revisions; `elsewhere` means that the store behind the address has changed. */
function anew(elsewhere) {
  revision = null;
  versions.clear();
  if (elsewhere) time.another();
}

let server = null;
/** Detects another store behind the same address by the UID of kube-system. Skipped if the user may not read that namespace. */
async function known(signal) {
  const uid = await ask('/api/v1/namespaces/kube-system', soon(signal)).then((answer) => answer.json()).then((one) => one.metadata.uid, () => null);
  if (uid && server && uid !== server) anew(true);
  server = uid || server;
}

async function run() {
  for (;;) {
    if (paused) {
      say('paused', 'this tab is hidden');
      await rest();
      continue;
    }
    try {
      current = new AbortController();
      const { signal } = current;
      const [by] = await Promise.all([way(signal), known(signal)]);
      await by(signal, pauses.reset);
      if (paused) continue;
      say('reconnecting', 'the connection ended');
    } catch (error) {
      if (paused) continue;
      if (error instanceof Expired) anew(error instanceof Ahead);
      // Browsers word network errors differently, so use our own message.
      const silent = error instanceof TypeError || error.name === 'TimeoutError';
      say(!navigator.onLine || pauses.long ? 'offline' : 'reconnecting', silent ? 'the server does not respond' : error.message);
    }
    await rest(pauses.next());
  }
}

/** Starts to follow the server; never stops. */
export function start() {
  let hiding;
  document.addEventListener('visibilitychange', () => {
    clearTimeout(hiding);
    if (document.hidden) {
      hiding = setTimeout(() => {
        paused = true;
        current.abort();
        wake();
      }, HIDDEN_FOR);
    } else if (paused) {
      paused = false;
      pauses.reset();
      wake();
    }
  });
  window.addEventListener('online', () => wake());
  session.subscribe(() => {
    if (session.required) return;
    // The cached state may be that of another user, or empty.
    anew(false);
    pauses.reset();
    wake();
  });
  run();
}
