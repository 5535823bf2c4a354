// The objects that the page knows, whoever told of them: the stream, a capture, a moment of the past. Who reads is called
// at most once per frame.

import { canonical, kindOf } from './kinds.js';

export const key = (namespace, name) => (namespace && namespace !== '-' ? `${namespace}/${name}` : name);

/** Objects by resource and key. */
export class Store {
  constructor() {
    this.kinds = new Map();
    this.uids = new Map();
    this.lists = new Map();
  }

  of(resource) {
    const id = canonical(resource);
    let found = this.kinds.get(id);
    if (!found) this.kinds.set(id, (found = new Map()));
    return found;
  }

  list(resource) {
    const id = canonical(resource);
    let list = this.lists.get(id);
    if (!list) this.lists.set(id, (list = [...this.of(id).values()]));
    return list;
  }

  get(resource, at) {
    return this.of(resource).get(at) || null;
  }

  /** What is under a key from now on; nothing with `null`. */
  put(resource, at, object) {
    const id = canonical(resource);
    const map = this.of(id);
    const before = map.get(at);
    this.lists.delete(id);
    if (before) this.uids.delete(before.metadata.uid);
    if (!object) {
      map.delete(at);
      return;
    }
    map.set(at, object);
    this.uids.set(object.metadata.uid, object);
  }

  /** One change. Lists that come without kinds in their items get them here. */
  apply(type, resource, object) {
    const id = canonical(resource);
    const at = key(object.metadata.namespace, object.metadata.name);
    if (type === 'DELETED') {
      // A deletion of an object whose name has been taken again says nothing of the new one.
      if (this.get(id, at)?.metadata.uid === object.metadata.uid) this.put(id, at, null);
      return;
    }
    const of = kindOf(id);
    this.put(id, at, of ? { apiVersion: of.apiVersion, kind: of.kind, ...object, __resource: id } : { ...object, __resource: id });
  }

  /** All objects of a resource at once. */
  replace(resource, items) {
    const id = canonical(resource);
    for (const one of this.of(id).values()) this.uids.delete(one.metadata.uid);
    this.kinds.set(id, new Map());
    for (const one of items) this.apply('ADDED', id, one);
    this.lists.delete(id);
  }
}

const readers = new Set();
let live = new Store();
let shown = live;
let asked = false;
const frame = globalThis.requestAnimationFrame || ((fn) => setTimeout(fn, 0));

function changed() {
  objects.version += 1;
  if (asked) return;
  asked = true;
  frame(() => {
    asked = false;
    for (const fn of [...readers]) fn();
  });
}

export const objects = {
  /** Grows with every change. */
  version: 0,
  /** Whether the first state is whole. */
  synced: false,
  list: (resource) => shown.list(resource),
  get: (resource, namespace, name) => shown.get(resource, key(namespace, name)),
  byUid: (uid) => shown.uids.get(uid) || null,
  count: (resource) => shown.of(resource).size,
  subscribe(fn) {
    readers.add(fn);
    return () => readers.delete(fn);
  },

  /** For who feeds: a change of the live state. */
  apply(type, resource, object) {
    live.apply(type, resource, object);
    if (shown === live) changed();
  },
  replace(resource, items) {
    live.replace(resource, items);
    if (shown === live) changed();
  },
  /** A whole new live state: views go from the one to the other without an empty moment. */
  swap(store) {
    if (shown === live) shown = store;
    live = store;
    changed();
  },
  whole() {
    objects.synced = true;
    changed();
  },
  /** A state that is not the live one, or `null` to go back to it. */
  show(store) {
    shown = store || live;
    changed();
  },
};
