// The changes on the line of time: when, which revision, of what; how many in each piece of it. Pure.

export const TYPES = ['ADDED', 'MODIFIED', 'DELETED'];
const HEARTBEAT = 'leases.coordination.k8s.io';
// More than this is thinned out no further: the oldest are let go.
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

  /** Takes lines of the timeline, or changes of a recording. What is known already is passed over. Returns how many were new. */
  add(lines) {
    let [known, added] = [this.last?.revision ?? -1, 0];
    let at = this.last?.at ?? 0;
    for (const line of lines) {
      const type = TYPES.indexOf(line.type);
      const revision = Number(line.revision);
      // Leases are written all the time and say only that somebody is alive.
      if (type < 0 || !(revision >= known) || line.resource === HEARTBEAT) continue;
      // One commit may write several objects: they share its revision.
      if (revision === known && added === 0) continue;
      known = revision;
      // A clock may go back; the order of the revisions is what holds.
      at = Math.max(at, Date.parse(line.time) || at);
      const { namespace = '', name = '' } = line.object?.metadata || line;
      this.list.push({ revision, at, type, resource: line.resource || '', namespace, name });
      added += 1;
    }
    if (this.list.length > MOST) this.list.splice(0, this.list.length - MOST);
    return added;
  }

  /** Older lines, up to the first that is known. */
  before(lines) {
    const older = new Marks();
    older.add(lines.filter((line) => !this.first || Number(line.revision) < this.first.revision));
    this.list = [...older.list, ...this.list].slice(-MOST);
    return older.list.length;
  }

  /** Lets go of what came before a revision. */
  forget(oldest) {
    const gone = this.upTo(oldest - 1);
    if (gone) this.list.splice(0, gone);
  }

  /** The number of marks up to a time, that time included. */
  until(at) {
    return this.#search((mark) => mark.at <= at);
  }

  /** The number of marks up to a revision, its own included. */
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

  /** How many of each type in `number` equal pieces between two times: `number` triples, flat. */
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

/** One path for each type: the bars of the histogram, upon each other, 100 high. Heights are roots, so that few can be seen beside many. */
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

/** The lines of an answer, whether it has one JSON for each line or all in one. */
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
