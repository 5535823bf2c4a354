// Recordings: parses lines of orlop.dev/stream.1 and reconstructs the state at each revision. Pure.

import { eachLine } from './lines.js';
import { canonical, kindOf } from './kinds.js';
import { Store, key } from './objects.js';

export const FORMAT = 'orlop.dev/stream.1';

/** Parses a recording line by line. */
class Reader {
  recording = { header: null, base: [], changes: [] };
  #number = 0;
  #whole = false;

  line(text) {
    this.#number += 1;
    if (!text.trim()) return;
    const { recording } = this;
    let one;
    try {
      one = JSON.parse(text);
    } catch {
      throw new Error(`Line ${this.#number} is not JSON: the file is not a recording, or is truncated.`);
    }
    if (!recording.header) {
      if (one.type !== 'HEADER' || one.format !== FORMAT) throw new Error(`The file is not a recording: its first line does not contain ${FORMAT}.`);
      recording.header = one;
      return;
    }
    switch (one.type) {
      case 'ADDED':
      case 'MODIFIED':
      case 'DELETED':
        if (!one.object?.metadata?.name || !one.resource) throw new Error(`Line ${this.#number} has no object.`);
        (this.#whole ? recording.changes : recording.base).push(one);
        return;
      case 'SYNCED':
        this.#whole = true;
        return;
      case 'ERROR':
        throw Object.assign(new Error(one.message || `The recording ends with an error: ${one.code}`), { status: one.code });
      default:
    }
  }

  end() {
    if (!this.recording.header) throw new Error('The file is empty.');
    return this.recording;
  }
}

/** Parses a recording. Returns its header, the lines of its initial state, and the later changes, oldest first. */
export function parse(text) {
  const reader = new Reader();
  for (const line of text.split('\n')) reader.line(line);
  return reader.end();
}

/** Parses a recording from a byte stream, in pieces, so that the page stays responsive. */
export async function read(bytes) {
  const reader = new Reader();
  await eachLine(bytes, (line) => reader.line(line));
  return reader.end();
}

const numbered = (revision) => Number(revision);

/**
 * A range of the history that can be replayed in both directions. The cost of a step depends only on its changes, not on the length of the range.
 * `from` and `to` are the first and the last revision whose state the track can reconstruct.
 */
export class Track {
  store = new Store();
  /** Each change has `at`, its time in milliseconds. Times never decrease, even if the clock was set back. */
  changes = [];
  /** The number of changes applied to the store. */
  index = 0;
  #before = [];

  constructor({ header, base, changes }) {
    // Skip kinds that the page does not display.
    let last = 0;
    for (const one of base) {
      last = Math.max(last, Date.parse(one.time) || 0);
      if (kindOf(one.resource)) this.store.apply('ADDED', one.resource, one.object);
    }
    this.from = numbered(header.revision);
    /** The time of the last write in the initial state. The header contains only the time of the recording. */
    this.begun = last || Date.parse(changes[0]?.time) || Date.parse(header.time) || 0;
    this.to = this.from;
    this.extend(changes, header.until);
  }

  /** Appends later changes. */
  extend(changes, to) {
    let at = this.changes.at(-1)?.at ?? this.begun;
    for (const one of changes) {
      at = Math.max(at, Date.parse(one.time) || at);
      this.to = numbered(one.revision);
      if (kindOf(one.resource)) this.changes.push({ ...one, revision: this.to, at });
    }
    if (to !== undefined) this.to = Math.max(this.to, numbered(to));
  }

  has(revision) {
    return revision >= this.from && revision <= this.to;
  }

  /** Returns the number of changes up to a revision. */
  upTo(revision) {
    return this.#search((one) => one.revision <= revision);
  }

  /** Returns the number of changes up to a time. */
  until(at) {
    return this.#search((one) => one.at <= at);
  }

  #search(is) {
    let [low, high] = [0, this.changes.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (is(this.changes[middle])) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** Moves the store to the state after `index` changes. */
  go(index) {
    while (this.index < index) {
      const { type, resource, object } = this.changes[this.index];
      this.#before[this.index] = this.store.get(resource, key(object.metadata.namespace, object.metadata.name));
      this.store.apply(type, resource, object);
      this.index += 1;
    }
    while (this.index > index) {
      this.index -= 1;
      const { resource, object } = this.changes[this.index];
      this.store.put(resource, key(object.metadata.namespace, object.metadata.name), this.#before[this.index]);
    }
    return this.store;
  }

  /** The time of the last applied change. */
  get at() {
    return this.changes[this.index - 1]?.at ?? this.begun;
  }

  /** Drops the oldest changes, to limit the memory of a long playback. */
  trim(most) {
    const many = Math.min(this.changes.length - most, this.index);
    if (many <= 0) return;
    const last = this.changes[many - 1];
    this.from = last.revision;
    this.begun = last.at;
    this.changes.splice(0, many);
    this.#before.splice(0, many);
    this.index -= many;
  }
}

/** Returns the writes of one object in a recording, newest first, in the server's format. `compare` computes the differences. */
export function historyOf({ base, changes }, resource, at, compare) {
  const is = (one) => canonical(one.resource) === canonical(resource) && key(one.object.metadata.namespace, one.object.metadata.name) === at;
  const items = [];
  let before = base.find(is);
  if (before) items.push({ revision: before.revision, time: before.time, type: 'ADDED', manager: '', uid: before.object.metadata.uid, changes: [], object: before.object });
  for (const one of changes) {
    if (!is(one)) continue;
    const { revision, time, type, object } = one;
    items.push({ revision, time, type, manager: '', uid: object.metadata.uid, changes: type === 'MODIFIED' && before ? compare(before.object, object) : [], object });
    before = one;
  }
  return items.reverse();
}

/** Returns the state at a revision, and its time. */
export function stateAt(recording, revision) {
  const track = new Track(recording);
  const store = track.go(track.upTo(numbered(revision)));
  return { store, time: recording.changes.findLast((one) => numbered(one.revision) <= numbered(revision))?.time || recording.header.time };
}
