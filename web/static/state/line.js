// The line of time: one mark for each write that is known, of the server's timeline or of the recording that was opened.

import { time } from './time.js';
import { Marks, read } from '../views/time/marks.js';

const TIMELINE = '/apis/orlop.dev/v1/timeline';
const PAGE = 5000;
// The newest are read first, then in larger pieces what came before them; the rest when somebody asks for it.
const FIRST = 1000;
const PIECE = 4000;
const ENOUGH = 20000;
// How often new lines are asked for.
const ASK = 1500;

// What an answer may take, in milliseconds.
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
  /** Whether the server keeps more than is on the line. */
  get more() {
    return !time.source && line.marks.first !== undefined && begun > time.oldest;
  },
  refresh,
  earlier,
};

async function page(from) {
  // A connection may be dead without anybody noticing: the next one is better than a line that stands still.
  const answer = await fetch(`${TIMELINE}?${new URLSearchParams({ limit: PAGE, after: from })}`, { cache: 'no-store', signal: AbortSignal.timeout(PATIENCE) });
  if (answer.ok) return read(await answer.text());
  const words = answer.status === 404 ? 'This server has no history.' : `The history cannot be read: ${answer.status} ${answer.statusText}`;
  throw Object.assign(new Error(words), { status: answer.status });
}

/** All lines after one revision and up to another. */
async function pages(from, until, take) {
  for (let at = from; at < until;) {
    const lines = await page(at);
    const last = Number(lines.at(-1)?.revision || 0);
    take(lines, Math.max(at, last));
    if (last <= at) return;
    at = last;
  }
}

/** Brings the marks up to date, at most every so often. */
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
  // What the server has forgotten by now cannot be gone to.
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
    // What we had is older than what is kept: from the beginning of what is.
    if (error.status === 410) {
      if (line.marks === marks) line.marks = new Marks();
      await time.learn().then(() => {
        again = retry;
      }, () => {});
    } else line.problem = error.message;
    tell();
  }
  asking = false;
  // Where nothing changes (in the past) nobody else would ask.
  if (again) await refresh(true, false);
}

/** Reads what came before the line's first mark. */
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
