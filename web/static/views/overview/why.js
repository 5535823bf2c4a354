// Requests explanations from the server for the visible objects: two requests at a time, once per version of an object, and again when the
// explanation is old. Stops for a minute if the server provides no explanations.

import { request } from '../../session.js';

const AT_ONCE = 2;
const AGAIN = 60000;
// The pause after a temporary error, in milliseconds.
const SOON = 5000;
// The maximum age of an explanation, in milliseconds. A cause can change without a write to the object.
const OLD = 30000;
const MOST = 40;
const KEPT = 500;

export class Asker {
  #answers = new Map();
  #queue = [];
  #running = 0;
  #allowed = true;
  #stopped = false;
  #not = 0;

  /** `path(object)` returns the URL of the explanation; `changed()` is called when one arrives. `get` and `now` are for tests. */
  constructor({ path, changed, get = (url) => request(url, { headers: { Accept: 'application/json' } }), now = Date.now }) {
    Object.assign(this, { path, changed, get, now });
  }

  #key = (object) => `${object.metadata.uid} ${object.metadata.resourceVersion}`;

  /** Returns the explanation of this version of the object, or of an earlier version until a new one arrives. */
  answer(object) {
    if (!this.#allowed) return undefined;
    return (this.#answers.get(object.metadata.uid) || {}).why;
  }

  allow(allowed) {
    this.#allowed = allowed;
    if (!allowed) this.#queue = [];
  }

  /** Requests explanations for the visible objects. */
  want(objects) {
    if (!this.#allowed || this.#stopped || this.now() < this.#not) return;
    for (const object of objects) {
      const key = this.#key(object);
      const { uid } = object.metadata;
      const known = this.#answers.get(uid);
      if (known?.key === key && this.now() - known.at < OLD) continue;
      if (this.#queue.length >= MOST) break;
      this.#answers.set(uid, { ...known, key, at: this.now() });
      this.#queue.push(object);
    }
    this.#next();
  }

  stop() {
    this.#stopped = true;
    this.#queue = [];
  }

  /** Pauses all requests for `ms` milliseconds. Queued and failed requests are repeated afterwards. Earlier explanations stay. */
  #rest(ms, object) {
    this.#not = this.now() + ms;
    for (const { metadata: { uid } } of [object, ...this.#queue]) this.#answers.set(uid, { why: this.#answers.get(uid)?.why });
    this.#queue = [];
  }

  #next() {
    while (this.#running < AT_ONCE && this.#queue.length) {
      this.#running += 1;
      this.#ask(this.#queue.shift()).finally(() => {
        this.#running -= 1;
        this.#next();
      });
    }
  }

  async #ask(object) {
    try {
      const response = await this.get(this.path(object));
      if (!response.ok) {
        if (response.status === 429 || response.status >= 500) this.#rest(SOON, object);
        // Other errors concern only this object.
        if (response.status !== 404) return;
        // Either the object has been deleted, or the server lacks the group. The page shows its own text until an explanation arrives.
        const status = await response.json().catch(() => ({}));
        if (status.details?.name) return;
        this.#answers.clear();
        this.#rest(AGAIN, object);
        return;
      }
      const why = await response.json();
      if (why?.kind !== 'Why' || this.#stopped) return;
      this.#answers.set(object.metadata.uid, { key: this.#key(object), at: this.now(), why });
      // Evict the oldest entries: a Map iterates in insertion order.
      for (const uid of this.#answers.keys()) {
        if (this.#answers.size <= KEPT) break;
        this.#answers.delete(uid);
      }
      this.changed();
    } catch {
      // The connection badge reports the error.
      this.#rest(SOON, object);
    }
  }
}
