// The changes on the timeline: time, revision and object of each, and their histogram. Pure.

export const TYPES = ['ADDED', 'MODIFIED', 'DELETED'];
const HEARTBEAT = 'leases.coordination.k8s.io';
// The maximum number of marks; the oldest are dropped.
const MOST = 400000;

export class Marks {
  /** `{revision, at, type, resource, namespace, name}`, oldest first; `type` is an index into `TYPES`. */
  list = [];

  get first() {
    return this.list[0];
  }

  get last() {
    return this.list.at(-1);
  }

  /** Adds lines of the timeline, or changes of a recording. Skips known ones. Returns the number of new marks. */
  add(lines) {
    let [known, added] = [this.last?.revision ?? -1, 0];
    let at = this.last?.at ?? 0;
    for (const line of lines) {
      const type = TYPES.indexOf(line.type);
      const revision = Number(line.revision);
      // Skip leases, which are frequent heartbeats.
      if (type < 0 || !(revision >= known) || line.resource === HEARTBEAT) continue;
      // One commit can write several objects, which share its revision.
      if (revision === known && added === 0) continue;
      known = revision;
      // The clock may be set back, but the order of revisions is reliable.
      at = Math.max(at, Date.parse(line.time) || at);
      const { namespace = '', name = '' } = line.object?.metadata || line;
      this.list.push({ revision, at, type, resource: line.resource || '', namespace, name });
      added += 1;
    }
    if (this.list.length > MOST) this.list.splice(0, this.list.length - MOST);
    return added;
  }

  /** Adds older lines, up to the first known mark. */
  before(lines) {
    const older = new Marks();
    older.add(lines.filter((line) => !this.first || Number(line.revision) < this.first.revision));
    this.list = [...older.list, ...this.list].slice(-MOST);
    return older.list.length;
  }

  /** Drops the marks before a revision. */
  forget(oldest) {
    const gone = this.upTo(oldest - 1);
    if (gone) this.list.splice(0, gone);
  }

  /** Returns the number of marks up to and including a time. */
  until(at) {
    return this.#search((mark) => mark.at <= at);
  }

  /** Returns the number of marks up to and including a revision. */
  upTo(revision) {
    return this.#search((mark) => mark.revision <= revision);
  }

  #search(before) {
    let [low, high] = [0, this.list.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (before(this.list[middle])) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** Counts the marks of each type in `number` equal intervals between two times. Returns a flat array of `number` triples. */
  bins(from, to, number) {
    const found = new Uint32Array(number * TYPES.length);
    const piece = Math.max(1, to - from) / number;
    for (let i = this.until(from - 1); i < this.list.length && this.list[i].at <= to; i += 1) {
      const mark = this.list[i];
      const bin = Math.min(number - 1, Math.floor((mark.at - from) / piece));
      found[bin * TYPES.length + mark.type] += 1;
    }
    return found;
  }
}

/** Returns one path per type: the stacked bars of the histogram, 100 high. Heights are square roots, so that small counts stay visible. */
export function bars(bins) {
  const number = bins.length / TYPES.length;
  let most = 1;
  const sums = [];
  for (let i = 0; i < number; i += 1) {
    const sum = bins[i * 3] + bins[i * 3 + 1] + bins[i * 3 + 2];
    sums.push(sum);
    most = Math.max(most, sum);
  }
  const paths = ['', '', ''];
  sums.forEach((sum, i) => {
    if (!sum) return;
    const height = Math.max(6, Math.sqrt(sum / most) * 100);
    let y = 100;
    for (let type = 0; type < TYPES.length; type += 1) {
      const part = (bins[i * 3 + type] / sum) * height;
      if (!part) continue;
      paths[type] += `M${i + 0.08} ${y.toFixed(1)}v${(-part).toFixed(1)}h.84v${part.toFixed(1)}z`;
      y -= part;
    }
  });
  return paths;
}

/** Parses a response with one JSON value per line, or with a single JSON value. */
export function read(text) {
  const trimmed = text.trim();
  if (!trimmed) return [];
  try {
    const whole = JSON.parse(trimmed);
    return whole.items || (whole.revision ? [whole] : []);
  } catch {
    return trimmed.split('\n').map((line) => JSON.parse(line));
  }
}
