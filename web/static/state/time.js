// What time it is on the page: now, a revision of the past, or one that goes on by itself. The past is this server's, read
// in pieces around the moment that is looked at, or a recording from a file, which needs no server.

import { objects } from './objects.js';
import { Track, read } from './capture.js';

const GROUP = '/apis/orlop.dev/v1';
/** How fast playing may go: so many seconds in one. */
export const SPEEDS = [0.25, 0.5, 1, 2, 5, 10, 60, 600];
// So many revisions are read before and after the moment that is looked at, and more ahead of playing.
const BACK = 1000;
const AHEAD = 2000;
const SOON = 400;
const MOST = 20000;
const STEP = 100;
// Of quiet times so much is waited, in seconds of the person.
const QUIET = 1500;
const BREATH = 300;

// What a small answer may take, in milliseconds.
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
// The moment that somebody wants to see and that is not known here, and the way there.
let wish = null;
let going = null;

async function ask(path, query, signal) {
  const answer = await fetch(`${GROUP}/${path}?${new URLSearchParams(query)}`, { cache: 'no-store', signal });
  if (answer.ok) return read(answer.body);
  const status = await answer.json().catch(() => ({}));
  if (answer.status === 404) throw new Error('This server has no history that the page can show.');
  throw Object.assign(new Error(status.message || `The history cannot be read: ${answer.status} ${answer.statusText}`), { status: answer.status });
}

/** Shows what the track is at. */
function show(revision) {
  // Nobody has written in between: the revision is another, the state the same.
  time.revision = String(revision);
  time.wanted = null;
  time.at = track.at || null;
  if (time.mode === 'live') time.mode = 'paused';
  objects.show(track.store);
  tell();
}

/** Goes to a revision that the track knows. */
function within(revision) {
  track.go(track.upTo(revision));
  show(revision);
}

function quiet() {
  reading.abort();
  reading = new AbortController();
  return reading.signal;
}

/** What is around a moment, as far as the server keeps it. */
const around = (at) => ({ from: Math.max(time.oldest, at - BACK), until: Math.max(at, Math.min(time.newest, at + AHEAD)) });

async function capture(at, signal) {
  try {
    return await ask('capture', around(at), signal);
  } catch (error) {
    if (error.status !== 410) throw error;
    // What was kept a while ago is kept no more.
    await time.learn();
    if (at < time.oldest) throw error;
    return ask('capture', around(at), signal);
  }
}

/** Reads the changes around the moment, so that the next steps need nobody. One at a time: it begins with a whole state. */
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
    // Somebody may have gone on meanwhile, as far as it was known, or waits for what comes here.
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

/** Reads on where what is known comes to its end. */
function reach() {
  const at = Number(time.revision);
  if (at - track.from < BACK / 4 && track.from > time.oldest) widen().catch(() => {});
  else if (track.to - at < AHEAD / 4) extend();
}

/** Goes to the moment that is wished for. Who wishes for another one meanwhile comes there next, and not to all in between. */
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

/** What comes after the end of the track. */
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
  // Nothing more is known, and nothing more is on its way.
  if (!coming && !extending && (time.source || time.problem || track.to >= time.newest)) time.pause();
}

export const time = {
  mode: 'live',
  revision: null,
  /** The revision that was asked for and is not there yet. */
  wanted: null,
  /** Where the past comes from: a file's name, or nothing for this server. */
  source: '',
  /** The recording that was opened: `{header, base, changes}`. */
  recording: null,
  /** When what is shown was written, in milliseconds; nothing for now. */
  at: null,
  /** What the server keeps, as far as it was told. */
  oldest: 0,
  newest: 0,
  /** Which server it is; another number when it was replaced. */
  server: 0,
  speed: 1,
  busy: false,
  problem: '',
  /** Milliseconds. It stands still while the connection is down, so that no countdown tells of what nobody knows. */
  now: () => time.at ?? held ?? Date.now() + offset,
  subscribe(fn) {
    readers.add(fn);
    return () => readers.delete(fn);
  },
  /** The server's clock. */
  clock(text) {
    const server = Date.parse(text);
    if (!Number.isNaN(server)) offset = server - Date.now();
  },
  /** The oldest and the newest revision of the server. */
  ends(oldest, newest) {
    if (oldest !== null) time.oldest = Number(oldest) || 0;
    time.newest = Math.max(oldest === null ? time.newest : 0, Number(newest));
  },
  /** Retention goes on: asks what the server keeps by now. */
  async learn() {
    const answer = await fetch(`${GROUP}/revisions`, { cache: 'no-store', signal: AbortSignal.timeout(PATIENCE) });
    if (!answer.ok) return;
    const { oldest, newest } = await answer.json();
    time.ends(oldest.revision, newest.revision);
  },
  /** Another server has this address now: what was known of the past was the other's. */
  another() {
    const past = !time.source && (time.mode !== 'live' || going);
    Object.assign(time, { server: time.server + 1, oldest: 0, newest: 0 });
    if (!past) return;
    time.live();
    time.problem = 'The server has changed: the revision shown belonged to the previous one.';
    tell();
  },
  /** Stops the clock where it was at `at`, in milliseconds of this machine, or lets it go on. */
  hold(stop, at = Date.now()) {
    const next = stop ? (held ?? at + offset) : null;
    if (next === held) return;
    held = next;
    tell();
  },

  /** Looks at a recording: a file, or anything else that gives a stream of bytes. */
  async open(file, name = file.name) {
    const recording = await read(file.stream());
    halt();
    quiet();
    wish = null;
    track = new Track(recording);
    Object.assign(time, { mode: 'paused', recording, source: name || 'a recording', problem: '', busy: false });
    within(track.to);
  },

  /** Shows what was at a revision, or (of this server) at a time as the API writes it. Of many wishes the last is fulfilled. */
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
      // It is there, or somebody wants to be elsewhere by now.
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

  /** Goes on by itself from the moment that is shown, so many times as fast as it was. */
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
