// The objects that the page displays: the live state, a past revision, or a recording. Subscribers are called at most once per frame.

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

  /** Stores an object under a key; `null` removes the entry. */
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

  /** Applies one change. Adds the kind and API version, which items of lists lack. */
  apply(type, resource, object) {
    const id = canonical(resource);
    const at = key(object.metadata.namespace, object.metadata.name);
    if (type === 'DELETED') {
      // A late deletion must not remove a new object with the same name.
      if (this.get(id, at)?.metadata.uid === object.metadata.uid) this.put(id, at, null);
      return;
    }
    const of = kindOf(id);
    this.put(id, at, of ? { apiVersion: of.apiVersion, kind: of.kind, ...object, __resource: id } : { ...object, __resource: id });
  }

  /** Replaces all objects of a resource. */
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
  /** Increases with every change. */
  version: 0,
  /** Whether the initial state is complete. */
  synced: false,
  list: (resource) => shown.list(resource),
  get: (resource, namespace, name) => shown.get(resource, key(namespace, name)),
  byUid: (uid) => shown.uids.get(uid) || null,
  count: (resource) => shown.of(resource).size,
  subscribe(fn) {
    readers.add(fn);
    return () => readers.delete(fn);
  },

  /** Applies a change to the live state. */
  apply(type, resource, object) {
    live.apply(type, resource, object);
    if (shown === live) changed();
  },
  replace(resource, items) {
    live.replace(resource, items);
    if (shown === live) changed();
  },
  /** Replaces the live state in one step, so that the views are never empty in between. */
  swap(store) {
    if (shown === live) shown = store;
    live = store;
    changed();
  },
  whole() {
    objects.synced = true;
    changed();
  },
  /** Displays a state other than the live one; `null` returns to the live state. */
  show(store) {
    shown = store || live;
    changed();
  },
};
