// Follows the server: one connection for all kinds, or on a server without the group orlop.dev a list and a watch per kind. What
// is told to the page: whether it is live, and if not, since when what it shows is old.

import { KINDS, kindOf } from './kinds.js';
import { splitter } from './lines.js';
import { Store, objects } from './objects.js';
import { time } from './time.js';

const STREAM = '/apis/orlop.dev/v1/stream';
const FIRST_PAUSE = 500;
const LONGEST_PAUSE = 15000;
// The stream says something every 5 seconds, a watch about once a minute.
const SILENCE = 12500;
const WATCH_SILENCE = 150000;
// A browser has six connections to a server. Four kinds are watched and one is listed at a time; one is left for what a person does.
const WATCHED = ['persistentvolumeclaims', 'persistentvolumes', 'pods', 'events'];
const ROUND = 5000;
// A tab that nobody sees lets go of its connection.
const HIDDEN_FOR = 5000;
const PAGE = 500;

export { splitter };

/** The server has forgotten where we were. */
class Expired extends Error {}
/** It has never been there: it was put back, or is another one. */
class Ahead extends Expired {}
/** It does not know what was asked for. */
class Missing extends Error {}

/** Pauses that grow, with a random part: many pages must not come back in the same moment. */
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
/** When the server said something last. */
let heard = 0;
/** `state`: connecting, live, reconnecting, offline, paused. `since`: until when what is shown is known to be true. */
export const connection = {
  state: 'connecting',
  text: '',
  since: null,
  /** Whether the server has the group orlop.dev; nothing while that is not known. */
  insight: null,
  subscribe(fn) {
    readers.add(fn);
    return () => readers.delete(fn);
  },
};

function say(state, text = '') {
  const was = connection.state;
  if (was === state && connection.text === text) return;
  // Not when it was noticed: a machine may have slept in between.
  if (was === 'live' && state !== 'live') connection.since = heard || Date.now();
  Object.assign(connection, { state, text });
  time.hold(state !== 'live', heard || Date.now());
  for (const fn of [...readers]) fn();
}

async function ask(path, signal) {
  const response = await fetch(path, { headers: { Accept: 'application/json' }, signal, cache: 'no-store' });
  if (response.ok) return response;
  const status = await response.json().catch(() => ({}));
  if (status.details?.causes?.some((one) => one.reason === 'ResourceVersionTooLarge')) throw new Ahead(status.message);
  if (response.status === 410) throw new Expired(status.message || path);
  if (response.status === 404) throw new Missing(status.message || path);
  throw new Error(status.message || `${response.status} ${response.statusText}`);
}

/** For what answers at once or not at all: a connection may be dead without anybody noticing. */
const soon = (signal) => AbortSignal.any([signal, AbortSignal.timeout(SILENCE)]);

/** Gives each line of a response as JSON. Silence ends it. */
async function follow(path, signal, silence, line, opened = () => {}) {
  const quiet = new AbortController();
  const stop = () => quiet.abort(new Error('the server sends nothing'));
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
/** The server's newest revision when it was asked which way there is: who is not there yet shows what is old. */
let newest = 0;

/** One connection of the stream. */
async function stream(signal, good) {
  const query = revision ? `?from=${revision}` : '';
  // The first state is gathered apart, so that the views do not see it grow.
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
        // The header of a stream that goes on tells where it begins, and not how far the server is.
        goal = Math.max(newest, Number(one.revision));
        time.ends(one.oldest, goal);
        connection.insight = true;
        if (!gathering) current();
        return;
      case 'ADDED':
      case 'MODIFIED':
      case 'DELETED':
        // What the page has no kind for (leases above all) is shown nowhere.
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

/** Kinds that are not watched: listed one after the other for as long as the page is there. */
async function rounds(signal) {
  const others = KINDS.filter((kind) => !WATCHED.includes(kind.id));
  for (;;) {
    for (const kind of others) {
      try {
        objects.replace(kind.id, (await list(kind, signal)).items);
      } catch (error) {
        // Not every server has snapshots.
        if (!(error instanceof Missing)) throw error;
      }
    }
    objects.whole();
    await new Promise((resolve) => setTimeout(resolve, ROUND));
    if (signal.aborted) return;
  }
}

/** A server without the group: four watches and the rounds. The first that fails ends them all. */
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
    say('live', 'This server has no event stream: some kinds are polled every few seconds.');
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
      // A watch that ends by itself is resumed, but not in a tight circle.
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

/** Waits so long or until it is woken; without a time, until it is woken. */
const rest = (ms) => new Promise((resolve) => {
  wake = resolve;
  if (ms !== undefined) setTimeout(resolve, ms);
});

/** Which of both this server has. It is asked again after each break: it may have been replaced by a newer one. */
async function way(signal) {
  try {
    // Not discovery: a server without controllers has the group and does not list it.
    const told = await (await ask('/apis/orlop.dev/v1/revisions', soon(signal))).json();
    newest = Number(told.newest?.revision) || 0;
    connection.insight = true;
    return stream;
  } catch (error) {
    if (!(error instanceof Missing)) throw error;
    connection.insight = false;
    return watches;
  }
}

/** What we know is of no use any more. */
function anew(elsewhere) {
  revision = null;
  versions.clear();
  if (elsewhere) time.another();
}

let server = null;
/** Notices another store behind the same address, whose revisions are others. Who may not see it goes on without. */
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
      // What browsers say of a server that is not there is in words of their own.
      const silent = error instanceof TypeError || error.name === 'TimeoutError';
      say(!navigator.onLine || pauses.long ? 'offline' : 'reconnecting', silent ? 'the server does not respond' : error.message);
    }
    await rest(pauses.next());
  }
}

/** Starts to follow, for good. */
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
  run();
}
