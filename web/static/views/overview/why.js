// Asks the server why something is as it is, for the few objects that are in sight: two questions at a time, each once for
// each version of its object and again when the answer is old, and no more when the server has no answers.

const AT_ONCE = 2;
const AGAIN = 60000;
// So long is waited when it could not answer just now.
const SOON = 5000;
// What an object waits for changes without a write of the object.
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

  /** `path(object)` is where to ask; `changed()` is called when there is an answer. `get` and `now` are for tests. */
  constructor({ path, changed, get = (url) => fetch(url, { headers: { Accept: 'application/json' } }), now = Date.now }) {
    Object.assign(this, { path, changed, get, now });
  }

  #key = (object) => `${object.metadata.uid} ${object.metadata.resourceVersion}`;

  /** What the server said of this version of the object, or of the one before until there is a new answer. */
  answer(object) {
    if (!this.#allowed) return undefined;
    return (this.#answers.get(object.metadata.uid) || {}).why;
  }

  allow(allowed) {
    this.#allowed = allowed;
    if (!allowed) this.#queue = [];
  }

  /** These are in sight. */
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

  /** Nobody is asked for so long; who waited, and who got no answer, is asked then. What was said before stays. */
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
        // Not for this one.
        if (response.status !== 404) return;
        // The object has gone meanwhile, or there is no such group. Until there is an answer the objects' own words are shown.
        const status = await response.json().catch(() => ({}));
        if (status.details?.name) return;
        this.#answers.clear();
        this.#rest(AGAIN, object);
        return;
      }
      const why = await response.json();
      if (why?.kind !== 'Why' || this.#stopped) return;
      this.#answers.set(object.metadata.uid, { key: this.#key(object), at: this.now(), why });
      // The oldest go first: a Map keeps the order in which they came.
      for (const uid of this.#answers.keys()) {
        if (this.#answers.size <= KEPT) break;
        this.#answers.delete(uid);
      }
      this.changed();
    } catch {
      // The connection badge tells of it.
      this.#rest(SOON, object);
    }
  }
}
