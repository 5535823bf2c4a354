// Hooks that subscribe a component to a data source and render it again when the source changes.

import { useEffect, useLayoutEffect, useReducer, useState } from '../vendor/preact.js';
import { session } from '../session.js';
import { objects } from '../state/objects.js';
import { connection } from '../state/stream.js';
import { time } from '../state/time.js';
import { settings } from './settings.js';

function useSource(source) {
  const [, draw] = useReducer((count) => count + 1, 0);
  // Subscribe in a layout effect: a change between rendering and a normal effect would be missed.
  useLayoutEffect(() => source.subscribe(draw), [source]);
}

/** Subscribes to the objects. Returns their version. */
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

export function useSession() {
  useSource(session);
  return session;
}

export function useSettings() {
  useSource(settings);
  return settings;
}

const ticked = new Set();
let clock = 0;
/** A one-second timer that all ages and countdowns share. */
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

/** Renders again every second, and when the page's clock stops, resumes or jumps. */
export function useTick() {
  useSource(seconds);
  useSource(time);
}

/** Returns a number that changes every `ms` milliseconds of the page's clock. It does not change while that clock is stopped. */
export function useRound(ms) {
  const [round, put] = useState(() => Math.floor(time.now() / ms));
  useEffect(() => seconds.subscribe(() => put(Math.floor(time.now() / ms))), [ms]);
  return round;
}

/**
 * Returns the result of a request: `{data, error, missing, status, busy}`. Repeats the request when one of `when` changes; the old result stays
 * until the new one arrives.
 */
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
