// The model of the graph: pods, claims, volumes, attachments, nodes, drivers and classes. Receives all objects on each update and detects the
// changes itself. Defines the graph's nodes and the names of their states. Pure.

import { phase, tone } from '../../state/kinds.js';

/** The columns, from left to right. Drivers and classes share one. */
export const KINDS = [
  { resource: 'pods', kind: 'Pod', many: 'Pods', column: 0 },
  { resource: 'persistentvolumeclaims', kind: 'Claim', many: 'Claims', column: 1 },
  { resource: 'persistentvolumes', kind: 'Volume', many: 'Volumes', column: 2 },
  { resource: 'volumeattachments', kind: 'Attachment', many: 'Attachments', column: 3 },
  { resource: 'nodes', kind: 'Node', many: 'Nodes', column: 4 },
  { resource: 'csidrivers', kind: 'Driver', many: 'Drivers', column: 5 },
  { resource: 'storageclasses', kind: 'Class', many: 'Classes', column: 5 },
];
export const COLUMNS = 6;
/** The first column of shared objects: nodes, drivers and classes. */
export const HUB = 4;

/** Returns a resource without its group: `volumeattachments` for `volumeattachments.storage.k8s.io`. */
export const bare = (resource = '') => resource.split('.')[0];

/**
 * Returns the state of an object as a word and a tone: `good`, `wait`, `bad`, `free` (not in use) or `plain` (no state). The tone determines the
 * colour and the shape; the word is always displayed too.
 */
export function stateOf(object) {
  const word = phase(object);
  return { word, tone: tone(word) || 'plain' };
}

const driverOf = (object) => object.spec?.csi?.driver || object.spec?.attacher || object.provisioner || '';

const keyOf = (resource, namespace, name) => `${bare(resource)}/${namespace || ''}/${name}`;
// A CSINode is not a node of the graph: its drivers are connected to the Node of the same name.
const LENDS = 'csinodes';

/**
 * The graph. `update` processes only kinds and objects that have changed.
 *
 * `nodes` is a Map of uid to node; a node has `id, kind, resource, column, name, namespace, label, word, tone, object`
 * and `near`, the Set of ids of its neighbours. `edges` is a Set of `{a, b, kind}` with `a` on the left. `shape` counts changes of nodes and
 * edges: while it is unchanged, no new layout is needed. `version` counts all changes.
 */
export class Model {
  nodes = new Map();
  edges = new Set();
  shape = 0;
  version = 0;
  #lists = new Map();
  #owners = new Map();
  #byKey = new Map();
  #pairs = new Map();
  #touching = new Map();
  #reshaped = false;

  /** `list(resource)` returns the objects, in the same array until one changes; `references(object)` returns the references in an object. */
  update(list, references) {
    this.#reshaped = false;
    let changed = false;
    for (const kind of [...KINDS, { resource: LENDS }]) {
      const now = list(kind.resource);
      if (this.#lists.get(kind.resource)?.list === now) continue;
      changed = this.#kind(kind, now, references) || changed;
    }
    if (this.#reshaped) this.shape += 1;
    if (changed || this.#reshaped) this.version += 1;
    return changed || this.#reshaped;
  }

  #kind(kind, list, references) {
    const before = this.#lists.get(kind.resource)?.ids || new Set();
    const ids = new Set();
    let changed = false;
    for (const object of list) {
      const { uid } = object.metadata;
      if (!uid) continue;
      ids.add(uid);
      before.delete(uid);
      if (this.#owners.get(uid)?.object === object) continue;
      changed = true;
      this.#take(kind, uid, object, references);
    }
    for (const uid of before) this.#drop(kind, uid);
    this.#lists.set(kind.resource, { list, ids });
    return changed || before.size > 0;
  }

  #take(kind, uid, object, references) {
    const { namespace, name } = object.metadata;
    const own = keyOf(kind.resource === LENDS ? 'nodes' : kind.resource, namespace, name);
    if (kind.resource !== LENDS) {
      const node = this.nodes.get(uid);
      if (node) Object.assign(node, { object, ...stateOf(object) });
      else this.#put(own, newNode(uid, kind, object));
    }
    const names = new Map();
    for (const one of references(object)) {
      const other = keyOf(one.resource, one.namespace, one.name);
      if (other !== own) names.set(own < other ? `${own} ${other}` : `${other} ${own}`, { ends: [own, other], kind: one.kind });
    }
    const old = this.#owners.get(uid)?.names || new Map();
    this.#owners.set(uid, { object, names });
    for (const [key, pair] of names) if (!old.has(key)) this.#name(key, pair);
    for (const key of old.keys()) if (!names.has(key)) this.#unname(key);
  }

  #drop(kind, uid) {
    for (const key of this.#owners.get(uid)?.names.keys() || []) this.#unname(key);
    this.#owners.delete(uid);
    const node = this.nodes.get(uid);
    if (!node) return;
    this.nodes.delete(uid);
    this.#reshaped = true;
    const key = keyOf(kind.resource, node.namespace, node.name);
    // Another object may already have the same name.
    if (this.#byKey.get(key) !== node) return;
    for (const pair of this.#touching.get(key) || []) this.#part(pair);
    this.#byKey.delete(key);
  }

  #put(key, node) {
    const pairs = this.#touching.get(key) || [];
    for (const pair of pairs) this.#part(pair);
    this.nodes.set(node.id, node);
    this.#byKey.set(key, node);
    this.#reshaped = true;
    for (const pair of pairs) this.#join(pair);
  }

  /** Adds a reference. Two objects that refer to each other share one edge, which exists while at least one reference does. */
  #name(key, { ends, kind }) {
    let pair = this.#pairs.get(key);
    if (pair) {
      pair.count += 1;
      return;
    }
    pair = { ends, kind, count: 1, edge: null };
    this.#pairs.set(key, pair);
    for (const end of ends) {
      if (!this.#touching.has(end)) this.#touching.set(end, new Set());
      this.#touching.get(end).add(pair);
    }
    this.#join(pair);
  }

  #unname(key) {
    const pair = this.#pairs.get(key);
    pair.count -= 1;
    if (pair.count) return;
    this.#part(pair);
    this.#pairs.delete(key);
    for (const end of pair.ends) {
      const touching = this.#touching.get(end);
      touching.delete(pair);
      if (!touching.size) this.#touching.delete(end);
    }
  }

  #join(pair) {
    let [a, b] = pair.ends.map((end) => this.#byKey.get(end));
    if (!a || !b || pair.edge) return;
    if (a.column > b.column) [a, b] = [b, a];
    pair.edge = { a, b, kind: pair.kind };
    this.edges.add(pair.edge);
    a.near.add(b.id);
    b.near.add(a.id);
    this.#reshaped = true;
  }

  #part(pair) {
    if (!pair.edge) return;
    const { a, b } = pair.edge;
    this.edges.delete(pair.edge);
    a.near.delete(b.id);
    b.near.delete(a.id);
    pair.edge = null;
    this.#reshaped = true;
  }

  /** Returns the ids of all related nodes: follows edges up to shared objects (nodes, drivers, classes), but not beyond them. */
  chain(id, into = new Set()) {
    const todo = [id];
    while (todo.length) {
      const next = todo.pop();
      const node = this.nodes.get(next);
      if (!node || into.has(next)) continue;
      into.add(next);
      // Include shared objects, but follow their edges only from the starting node.
      if (node.column >= HUB && next !== id) continue;
      for (const other of node.near) if (!into.has(other)) todo.push(other);
    }
    return into;
  }

  /** Returns the ids of the nodes that match a filter and of all nodes related to them, or `null` without a filter. */
  keep(filter) {
    const wanted = ['ns', 'phase', 'class', 'node', 'driver', 'q'].filter((key) => filter[key]);
    if (!wanted.length) return null;
    const kept = new Set();
    for (const node of this.nodes.values()) {
      if (!kept.has(node.id) && wanted.every((key) => this.#matches(node, key, filter[key]))) this.chain(node.id, kept);
    }
    return kept;
  }

  #matches(node, key, value) {
    const { object } = node;
    switch (key) {
      case 'ns':
        return node.namespace === value;
      case 'phase':
        return node.word === value;
      case 'class':
        return object.spec?.storageClassName === value || (node.kind === 'Class' && node.name === value);
      case 'node':
        return object.spec?.nodeName === value || (node.kind === 'Node' && node.name === value);
      case 'driver':
        return driverOf(object) === value || (node.kind === 'Driver' && node.name === value);
      case 'q':
        return node.label.toLowerCase().includes(value.toLowerCase());
      default:
        return true;
    }
  }

  /** Returns the sorted values of each filter. */
  choices() {
    const found = { ns: new Set(), phase: new Set(), class: new Set(), node: new Set(), driver: new Set() };
    for (const node of this.nodes.values()) {
      if (node.namespace) found.ns.add(node.namespace);
      if (node.word) found.phase.add(node.word);
      if (node.kind === 'Class') found.class.add(node.name);
      if (node.kind === 'Node') found.node.add(node.name);
      const driver = node.kind === 'Driver' ? node.name : driverOf(node.object);
      if (driver) found.driver.add(driver);
    }
    return Object.fromEntries(Object.entries(found).map(([key, names]) => [key, [...names].sort()]));
  }

  /** Returns the node with an address such as `persistentvolumeclaims/default/data`, or undefined. */
  find(address = '') {
    const [resource, ...rest] = address.split('/');
    const label = rest.filter((part) => part && part !== '-').join('/');
    for (const node of this.nodes.values()) {
      if (node.resource === bare(resource) && node.label === label) return node;
    }
    return undefined;
  }
}

function newNode(id, kind, object) {
  const { name, namespace = '' } = object.metadata;
  const label = namespace ? `${namespace}/${name}` : name;
  const { resource, column } = kind;
  const place = { x: NaN, y: NaN, tx: NaN, ty: NaN };
  return { id, kind: kind.kind, resource, column, name, namespace, label, object, near: new Set(), ...place, ...stateOf(object) };
}

/** Returns the address of a node, for use in the URL. */
export const addressOf = (node) => [node.resource, node.namespace || '-', node.name].join('/');

/** Describes a node as text. */
export function words(node, model) {
  const links = [...node.near].map((id) => model.nodes.get(id)).filter(Boolean);
  const first = links.slice(0, 6).map((other) => `${other.kind.toLowerCase()} ${other.label}`);
  const rest = links.length > 6 ? ` and ${links.length - 6} more` : '';
  const state = node.word ? `, ${node.word}` : '';
  return `${node.kind} ${node.label}${state}${first.length ? `; connected to ${first.join(', ')}${rest}` : '; no connections'}`;
}
