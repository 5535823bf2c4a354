// How views read what changes: each hook draws its component again when its source has changed.

import { useEffect, useLayoutEffect, useReducer, useState } from '../vendor/preact.js';
import { objects } from '../state/objects.js';
import { connection } from '../state/stream.js';
import { time } from '../state/time.js';
import { settings } from './settings.js';

function useSource(source) {
  const [, draw] = useReducer((count) => count + 1, 0);
  // Before anything else happens: a change between the drawing and an effect would be drawn by nobody.
  useLayoutEffect(() => source.subscribe(draw), [source]);
}

/** The version of the objects. */
export function useObjects() {
  useSource(objects);
  return objects.version;
}

export function useConnection() {
  useSource(connection);
  return connection;
}

export function useTime() {
  useSource(time);
  return time;
}

export function useSettings() {
  useSource(settings);
  return settings;
}

const ticked = new Set();
let clock = 0;
/** Seconds that go by, for ages and countdowns: one clock for all of them. */
const seconds = {
  subscribe(fn) {
    ticked.add(fn);
    clock ||= setInterval(() => {
      for (const one of [...ticked]) one();
    }, 1000);
    return () => {
      ticked.delete(fn);
      if (ticked.size) return;
      clearInterval(clock);
      clock = 0;
    };
  },
};

/** Draws again every second, and when the page's clock stops, goes on or is at another time. */
export function useTick() {
  useSource(seconds);
  useSource(time);
}

/** Another number every so many milliseconds of the page's clock. It stands still when that does. */
export function useRound(ms) {
  const [round, put] = useState(() => Math.floor(time.now() / ms));
  useEffect(() => seconds.subscribe(() => put(Math.floor(time.now() / ms))), [ms]);
  return round;
}

/** What a request answers: `{data, error, missing, busy}`. Asked again when one of `when` changes; the old answer stays until the new one is there. */
export function useAnswer(ask, when) {
  const [answer, put] = useState({ busy: true });
  useEffect(() => {
    let mine = true;
    put((before) => ({ ...before, busy: true }));
    ask().then(
      (data) => mine && put({ data, busy: false }),
      (error) => mine && put({ error: error.message, missing: error.status === 404, status: error.status, busy: false }),
    );
    return () => {
      mine = false;
    };
  }, when);
  return answer;
}
