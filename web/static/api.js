// Follows one collection of the API: list, then watch, and again from the start when the server has
// forgotten where we were. Nothing of the page is known here.

const FIRST_PAUSE = 500;
const LONGEST_PAUSE = 15000;
// A watch is bookmarked about once a minute; what is silent for longer has lost its server.
const SILENCE = 150000;
const PAGE = 500;

/** The server says that our resourceVersion is too old. */
class Expired extends Error {}

async function answer(path, signal) {
  const response = await fetch(path, { headers: { Accept: 'application/json' }, signal, cache: 'no-store' });
  if (response.ok) return response;
  if (response.status === 410) throw new Expired(path);
  const status = await response.json().catch(() => ({}));
  throw new Error(status.message || `${response.status} ${response.statusText}`);
}

/** The objects of a collection and the resourceVersion that they are of. */
async function list(path, signal) {
  const items = [];
  let token = '';
  for (;;) {
    const query = new URLSearchParams({ limit: PAGE });
    if (token) query.set('continue', token);
    const page = await (await answer(`${path}?${query}`, signal)).json();
    items.push(...(page.items || []));
    token = page.metadata.continue;
    if (!token) return { items, version: page.metadata.resourceVersion };
  }
}

/** The lines of a response, as they come. */
async function* lines(response, alive) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    alive();
    const parts = (rest + value).split('\n');
    rest = parts.pop();
    for (const part of parts) if (part) yield part;
  }
}

/** Gives events to the handlers until the watch ends; returns the resourceVersion to go on from. */
async function watch(path, version, handlers, signal) {
  const silent = new AbortController();
  const stop = () => silent.abort();
  signal.addEventListener('abort', stop);
  let timer = setTimeout(stop, SILENCE);
  const alive = () => {
    clearTimeout(timer);
    timer = setTimeout(stop, SILENCE);
  };
  try {
    const query = new URLSearchParams({ watch: '1', allowWatchBookmarks: 'true', resourceVersion: version });
    const response = await answer(`${path}?${query}`, silent.signal);
    handlers.state('live');
    for await (const line of lines(response, alive)) {
      const { type, object } = JSON.parse(line);
      if (type === 'ERROR') {
        if (object.code === 410) throw new Expired(path);
        throw new Error(object.message || 'the watch failed');
      }
      version = object.metadata.resourceVersion;
      handlers.version(version);
      if (type !== 'BOOKMARK') handlers.event(type, object);
    }
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', stop);
  }
  return version;
}

/**
 * Follows a collection for good.
 *
 * Handlers: `reset(items)` after each list, `event(type, object)` for each change, `state(name, text)`
 * with `live`, `reconnecting`, `offline` or `paused`. The answer has `pause()`, which lets go of the
 * connection, and `resume()`, which goes on from the same place.
 */
export function follow(path, handlers) {
  let current = new AbortController();
  let paused = false;
  let version = null;
  let pause = FIRST_PAUSE;
  let wake = () => {};

  const known = (next) => {
    version = next;
    pause = FIRST_PAUSE;
  };

  async function once() {
    const { signal } = current;
    if (version === null) {
      const found = await list(path, signal);
      known(found.version);
      handlers.reset(found.items);
    }
    await watch(path, version, { ...handlers, version: known }, signal);
  }

  /** Waits so long, or until it is woken; without a time, until it is woken. */
  function rest(time) {
    return new Promise((resolve) => {
      wake = resolve;
      if (time !== undefined) setTimeout(resolve, time);
    });
  }

  async function run() {
    for (;;) {
      if (paused) {
        handlers.state('paused', '');
        await rest();
        continue;
      }
      const before = Date.now();
      try {
        current = new AbortController();
        await once();
        // A watch that ends by itself is resumed at once, but not in a tight circle.
        if (Date.now() - before > 1000) continue;
      } catch (error) {
        if (paused) continue;
        if (error instanceof Expired) {
          version = null;
          if (pause === FIRST_PAUSE) {
            pause *= 2;
            continue;
          }
        }
        handlers.state(navigator.onLine && pause < LONGEST_PAUSE ? 'reconnecting' : 'offline', error.message);
      }
      // A random part keeps many pages from coming back in the same moment.
      const time = pause * (0.5 + Math.random() / 2);
      pause = Math.min(pause * 2, LONGEST_PAUSE);
      await rest(time);
    }
  }

  window.addEventListener('online', () => wake());
  run();
  return {
    pause() {
      paused = true;
      current.abort();
      wake();
    },
    resume() {
      if (!paused) return;
      paused = false;
      pause = FIRST_PAUSE;
      wake();
    },
  };
}
