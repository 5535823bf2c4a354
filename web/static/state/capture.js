// Recordings: lines of orlop.dev/stream.1 in, the state at each revision out. Pure.

import { eachLine } from './lines.js';
import { canonical, kindOf } from './kinds.js';
import { Store, key } from './objects.js';

export const FORMAT = 'orlop.dev/stream.1';

/** Takes the lines of a recording one by one. */
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

/** A recording: its header, the lines of its first state and the changes after it, oldest first. */
export function parse(text) {
  const reader = new Reader();
  for (const line of text.split('\n')) reader.line(line);
  return reader.end();
}

/** The same of a stream of bytes, in pieces, so that the page goes on meanwhile. */
export async function read(bytes) {
  const reader = new Reader();
  await eachLine(bytes, (line) => reader.line(line));
  return reader.end();
}

const numbered = (revision) => Number(revision);

/**
 * A piece of the past that can be gone through in both directions: a step costs what it changes, however long the recording is.
 * `from` and `to` are the first and the last revision that it knows the state of.
 */
export class Track {
  store = new Store();
  /** Each with `at`, its time in milliseconds; times never go back, whatever a clock did. */
  changes = [];
  /** How many of the changes are in the store. */
  index = 0;
  #before = [];

  constructor({ header, base, changes }) {
    // What the page has no kind for is shown nowhere.
    let last = 0;
    for (const one of base) {
      last = Math.max(last, Date.parse(one.time) || 0);
      if (kindOf(one.resource)) this.store.apply('ADDED', one.resource, one.object);
    }
    this.from = numbered(header.revision);
    /** When the first state was written last. The header tells only when the recording was made. */
    this.begun = last || Date.parse(changes[0]?.time) || Date.parse(header.time) || 0;
    this.to = this.from;
    this.extend(changes, header.until);
  }

  /** The changes after its end. */
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

  /** The number of changes up to a revision. */
  upTo(revision) {
    return this.#search((one) => one.revision <= revision);
  }

  /** The number of changes up to a time. */
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

  /** Goes to where so many changes have happened. */
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

  /** When what is shown was written. */
  get at() {
    return this.changes[this.index - 1]?.at ?? this.begun;
  }

  /** Forgets the oldest changes, so that a long journey does not fill the memory. */
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

/** The writes of one object in a recording, newest first, as the server tells them; `compare` tells what differs. */
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

/** The state when this revision had been written, and when that was. */
export function stateAt(recording, revision) {
  const track = new Track(recording);
  const store = track.go(track.upTo(numbered(revision)));
  return { store, time: recording.changes.findLast((one) => numbered(one.revision) <= numbered(revision))?.time || recording.header.time };
}
