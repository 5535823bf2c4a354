// The marks of the timeline: one for each known write, from the server's history or from an open recording.

import { request } from '../session.js';
import { time } from './time.js';
import { Marks, read } from '../views/time/marks.js';

const TIMELINE = '/apis/orlop.dev/v1/timeline';
const PAGE = 5000;
// The newest FIRST revisions are loaded first, then PIECE at a time up to ENOUGH. Earlier ones are loaded on request.
const FIRST = 1000;
const PIECE = 4000;
const ENOUGH = 20000;
// The shortest time between two requests for new marks, in milliseconds.
const ASK = 1500;

// The timeout of a request, in milliseconds.
const PATIENCE = 30000;

const readers = new Set();
const tell = () => {
  for (const fn of [...readers]) fn();
};
let kept = null;
let server = 0;
let after = 0;
let begun = 0;
let asking = false;
let asked = -Infinity;

export const line = {
  marks: new Marks(),
  problem: '',
  busy: false,
  subscribe(fn) {
    readers.add(fn);
    return () => readers.delete(fn);
  },
  /** Whether the server has earlier history than the loaded marks. */
  get more() {
    return !time.source && line.marks.first !== undefined && begun > time.oldest;
  },
  refresh,
  earlier,
};

async function page(from) {
  // A connection can be dead without an error, so use a timeout.
  const answer = await request(`${TIMELINE}?${new URLSearchParams({ limit: PAGE, after: from })}`, { cache: 'no-store', signal: AbortSignal.timeout(PATIENCE) });
  if (answer.ok) return read(await answer.text());
  const words = answer.status === 404 ? 'This server provides no history.' : `The history cannot be loaded: ${answer.status} ${answer.statusText}`;
  throw Object.assign(new Error(words), { status: answer.status });
}

/** Loads all lines after one revision and up to another. */
async function pages(from, until, take) {
  for (let at = from; at < until;) {
    const lines = await page(at);
    const last = Number(lines.at(-1)?.revision || 0);
    take(lines, Math.max(at, last));
    if (last <= at) return;
    at = last;
  }
}

/** Loads new marks, at most once per ASK milliseconds unless `now` is set. */
async function refresh(now = false, retry = true) {
  if (time.recording !== kept || time.server !== server) {
    kept = time.recording;
    server = time.server;
    line.marks = new Marks();
    after = 0;
    asked = -Infinity;
    if (kept) line.marks.add(kept.changes);
    tell();
  }
  // Drop the marks of compacted revisions: they can no longer be shown.
  if (!kept) line.marks.forget(time.oldest);
  if (kept || asking || !time.newest || (!now && performance.now() - asked < ASK)) return;
  asked = performance.now();
  asking = true;
  let again = false;
  const { marks } = line;
  try {
    if (!marks.first) {
      after = Math.max(time.oldest, time.newest - FIRST);
      begun = after;
    }
    await pages(after, time.newest, (lines, last) => {
      if (line.marks !== marks) return;
      after = last;
      if (marks.add(lines)) tell();
    });
    line.problem = '';
    asking = false;
    if (line.marks === marks && begun > Math.max(time.oldest, time.newest - ENOUGH)) await earlier();
  } catch (error) {
    // The last known revision has been compacted: reload the marks from the oldest available revision.
    if (error.status === 410) {
      if (line.marks === marks) line.marks = new Marks();
      await time.learn().then(() => {
        again = retry;
      }, () => {});
    } else line.problem = error.message;
    tell();
  }
  asking = false;
  // At a past revision, no change would trigger another refresh.
  if (again) await refresh(true, false);
}

/** Loads marks before the first one. */
async function earlier() {
  if (!line.more || line.busy) return;
  line.busy = true;
  tell();
  const { marks } = line;
  const from = Math.max(time.oldest, begun - PIECE);
  try {
    const found = [];
    await pages(from, begun, (lines) => found.push(...lines.filter((one) => Number(one.revision) <= begun)));
    if (line.marks === marks) {
      marks.before(found);
      begun = from;
    }
  } catch (error) {
    if (error.status === 410) await time.learn().catch(() => {});
    else line.problem = error.message;
  }
  line.busy = false;
  tell();
}
