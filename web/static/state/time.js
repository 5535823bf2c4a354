// The time that the page displays: live, a past revision, or playback. The past is loaded from the server in pieces around the displayed
// revision, or comes from a recording, which needs no server.

import { request } from '../session.js';
import { objects } from './objects.js';
import { Track, read } from './capture.js';

const GROUP = '/apis/orlop.dev/v1';
/** The playback speeds, in recorded seconds per second. */
export const SPEEDS = [0.25, 0.5, 1, 2, 5, 10, 60, 600];
// Numbers of revisions: BACK and AHEAD are loaded before and after the displayed revision; playback loads more when fewer than SOON changes are
// left; a track retains at most MOST changes. STEP is the playback interval in milliseconds.
const BACK = 1000;
const AHEAD = 2000;
const SOON = 400;
const MOST = 20000;
const STEP = 100;
// Playback shortens a gap of more than QUIET milliseconds to BREATH milliseconds of real time.
const QUIET = 1500;
const BREATH = 300;

// The timeout of short requests, in milliseconds.
const PATIENCE = 30000;

const readers = new Set();
const tell = () => {
  for (const fn of [...readers]) fn();
};
let held = null;
let offset = 0;
let track = null;
let playing = 0;
let clock = 0;
let reading = new AbortController();
let extending = false;
let widening = null;
// The requested revision that is not loaded yet, and the promise of its load.
let wish = null;
let going = null;

async function ask(path, query, signal) {
  const answer = await request(`${GROUP}/${path}?${new URLSearchParams(query)}`, { cache: 'no-store', signal });
  if (answer.ok) return read(answer.body);
  const status = await answer.json().catch(() => ({}));
  if (answer.status === 404) throw new Error('This server provides no history.');
  throw Object.assign(new Error(status.message || `The history cannot be loaded: ${answer.status} ${answer.statusText}`), { status: answer.status });
}

/** Displays the current state of the track. */
function show(revision) {
  // `revision` may be later than the track's last change: the state is the same.
  time.revision = String(revision);
  time.wanted = null;
  time.at = track.at || null;
  if (time.mode === 'live') time.mode = 'paused';
  objects.show(track.store);
  tell();
}

/** Moves to a revision within the track. */
function within(revision) {
  track.go(track.upTo(revision));
  show(revision);
}

function quiet() {
  reading.abort();
  reading = new AbortController();
  return reading.signal;
}

/** Returns the range of revisions around a revision, limited to the server's history. */
const around = (at) => ({ from: Math.max(time.oldest, at - BACK), until: Math.max(at, Math.min(time.newest, at + AHEAD)) });

async function capture(at, signal) {
  try {
    return await ask('capture', around(at), signal);
  } catch (error) {
    if (error.status !== 410) throw error;
    // The history has been compacted since `oldest` was read.
    await time.learn();
    if (at < time.oldest) throw error;
    return ask('capture', around(at), signal);
  }
}

/** Loads the changes around the displayed revision, so that the next steps need no request. One load at a time: each includes a full state. */
async function widen() {
  const { signal } = reading;
  if (widening?.signal === signal) return;
  const at = Number(time.revision);
  let end;
  const mine = { signal, ...around(at), done: new Promise((resolve) => { end = resolve; }) };
  widening = mine;
  try {
    const wide = new Track(await capture(at, signal));
    if (signal.aborted) return;
    // Meanwhile the user may have moved within the old track, or may be waiting for a revision in this range.
    const waited = wish !== null && wide.has(Number(wish));
    const to = Number(waited ? wish : time.revision);
    if (!wide.has(to)) return;
    track = wide;
    if (waited) {
      wish = null;
      time.busy = false;
    }
    within(to);
    if (!playing) clock = track.at;
  } finally {
    if (widening === mine) widening = null;
    end();
  }
}

const isComing = (revision) => widening !== null && !widening.signal.aborted && revision >= widening.from && revision <= widening.until;

/** Loads more changes when the displayed revision approaches an end of the track. */
function reach() {
  const at = Number(time.revision);
  if (at - track.from < BACK / 4 && track.from > time.oldest) widen().catch(() => {});
  else if (track.to - at < AHEAD / 4) extend();
}

/** Loads the requested revision. Requests made meanwhile are merged: only the latest is loaded next. */
async function travel() {
  while (wish !== null) {
    const moment = wish;
    const signal = quiet();
    try {
      const state = new Track(await ask('stream', { at: moment, follow: 'false' }, signal));
      if (signal.aborted) continue;
      track = state;
      within(track.to);
      clock = track.at;
    } catch (error) {
      if (signal.aborted) continue;
      if (error.status === 410) await time.learn().catch(() => {});
      if (wish === moment) Object.assign(time, { problem: error.message, wanted: null });
    }
    if (wish === moment) wish = null;
    else time.wanted = Number(wish) || null;
  }
  time.busy = false;
  tell();
}

/** Loads the changes after the end of the track. */
async function extend() {
  if (extending || time.problem || time.source || track.to >= time.newest) return;
  extending = true;
  const [mine, { signal }] = [track, reading];
  try {
    const until = Math.min(time.newest, mine.to + AHEAD);
    const { changes } = await ask('stream', { from: mine.to, until }, signal);
    if (signal.aborted || mine !== track) return;
    mine.extend(changes, until);
    mine.trim(MOST);
  } catch (error) {
    if (!signal.aborted) {
      time.problem = error.message;
      tell();
    }
  } finally {
    extending = false;
  }
}

function halt() {
  clearInterval(playing);
  playing = 0;
}

function tick(passed) {
  clock += passed * time.speed;
  const index = track.until(clock);
  const coming = track.changes[index];
  if (coming && coming.at - clock > QUIET * time.speed) clock = coming.at - BREATH * time.speed;
  if (index > track.index) {
    track.go(index);
    show(track.changes[index - 1].revision);
  }
  if (track.changes.length - index < SOON) extend();
  // No changes are left, and none are being loaded.
  if (!coming && !extending && (time.source || time.problem || track.to >= time.newest)) time.pause();
}

export const time = {
  mode: 'live',
  revision: null,
  /** The requested revision, while it is being loaded. */
  wanted: null,
  /** The source of the history: a file name, or an empty string for this server. */
  source: '',
  /** The open recording: `{header, base, changes}`. */
  recording: null,
  /** The time of the displayed state in milliseconds; null in live mode. */
  at: null,
  /** The oldest and the newest revision of the server, as last reported. */
  oldest: 0,
  newest: 0,
  /** Identifies the server; changes when the server is replaced. */
  server: 0,
  speed: 1,
  busy: false,
  problem: '',
  /** The page's clock in milliseconds. It stops while the page is disconnected, because the state behind the countdowns is unknown. */
  now: () => time.at ?? held ?? Date.now() + offset,
  subscribe(fn) {
    readers.add(fn);
    return () => readers.delete(fn);
  },
  /** Synchronizes the page's clock with the server's. */
  clock(text) {
    const server = Date.parse(text);
    if (!Number.isNaN(server)) offset = server - Date.now();
  },
  /** Records the oldest and the newest revision of the server. */
  ends(oldest, newest) {
    if (oldest !== null) time.oldest = Number(oldest) || 0;
    time.newest = Math.max(oldest === null ? time.newest : 0, Number(newest));
  },
  /** Requests the oldest and newest revision from the server: compaction advances the oldest one. */
  async learn() {
    const answer = await request(`${GROUP}/revisions`, { cache: 'no-store', signal: AbortSignal.timeout(PATIENCE) });
    if (!answer.ok) return;
    const { oldest, newest } = await answer.json();
    time.ends(oldest.revision, newest.revision);
  },
  /** Handles a server replacement: the known history belongs to the previous server. */
  another() {
    const past = !time.source && (time.mode !== 'live' || going);
    Object.assign(time, { server: time.server + 1, oldest: 0, newest: 0 });
    if (!past) return;
    time.live();
    time.problem = 'A different server now answers at this address. The revision that you viewed belongs to the previous server.';
    tell();
  },
  /** Stops the clock at `at`, in milliseconds of the local clock, or resumes it. */
  hold(stop, at = Date.now()) {
    const next = stop ? (held ?? at + offset) : null;
    if (next === held) return;
    held = next;
    tell();
  },

  /** Opens a recording: a file, or any other source of a byte stream. */
  async open(file, name = file.name) {
    const recording = await read(file.stream());
    halt();
    quiet();
    wish = null;
    track = new Track(recording);
    Object.assign(time, { mode: 'paused', recording, source: name || 'a recording', problem: '', busy: false });
    within(track.to);
  },

  /** Displays the state at a revision or, for this server, at an RFC 3339 time. Only the last of several concurrent requests takes effect. */
  async seek(moment) {
    const revision = Number(moment);
    time.problem = '';
    if (track && (time.source || track.has(revision))) {
      wish = null;
      if (going) quiet();
      time.busy = false;
      within(Math.min(track.to, Math.max(track.from, revision || 0)));
      clock = track.at;
      if (!time.source) reach();
      return;
    }
    if (time.newest && revision > time.newest) {
      time.problem = `Revision ${revision} does not exist yet: the newest is ${time.newest}.`;
      tell();
      return;
    }
    wish = moment;
    Object.assign(time, { busy: true, wanted: revision || null });
    tell();
    if (!going && isComing(revision)) {
      await widening.done;
      // The revision is displayed, or the user has requested another one.
      if (wish !== moment) return;
    }
    going ||= travel().finally(() => {
      going = null;
    });
    await going;
    if (going || time.problem || time.source || time.mode === 'live') return;
    const { signal } = reading;
    await widen().catch((error) => {
      if (signal.aborted) return;
      time.problem = error.message;
      tell();
    });
  },

  /** Plays from the displayed revision at the given speed. */
  play(speed = time.speed) {
    time.speed = speed;
    if (!track || time.mode === 'live') return;
    halt();
    time.mode = 'playing';
    time.problem = '';
    clock = track.at;
    let last = performance.now();
    playing = setInterval(() => {
      const now = performance.now();
      tick(Math.min(now - last, 3 * STEP));
      last = now;
    }, STEP);
    tell();
  },
  pause() {
    halt();
    if (time.mode === 'playing') time.mode = 'paused';
    tell();
  },
  setSpeed(speed) {
    time.speed = speed;
    tell();
  },
  live() {
    halt();
    quiet();
    wish = null;
    track = null;
    Object.assign(time, { mode: 'live', revision: null, wanted: null, recording: null, at: null, source: '', problem: '', busy: false });
    objects.show(null);
    tell();
  },
};
