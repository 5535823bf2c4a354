// Routing. The URL fragment is the only navigation state: #/VIEW/PART/PART?name=value.

import { canonical } from './state/kinds.js';

/** Parses a URL fragment into `{view, parts, query}`. Pure. */
export function read(hash) {
  const [path, search = ''] = hash.replace(/^#\/?/, '').split('?');
  const parts = path.split('/').filter(Boolean).map((part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part;
    }
  });
  return { view: parts.shift() || '', parts, query: Object.fromEntries(new URLSearchParams(search)) };
}

/** Builds a URL fragment and omits empty values. Pure. */
export function write(path, query = {}) {
  const kept = Object.entries(query).filter(([, value]) => value !== '' && value !== null && value !== undefined);
  const search = new URLSearchParams(kept).toString();
  return `#/${path.replace(/^[#/]+/, '')}${search ? `?${search}` : ''}`;
}

/** Returns the URL fragment of an object: #/object/RESOURCE/NS/NAME. `-` stands for no namespace. */
export function link(object, resource) {
  const of = resource || object.__resource || object.resource || object.kind;
  const { namespace, name } = object.metadata || object;
  return `#/object/${[canonical(of), namespace || '-', name].map(encodeURIComponent).join('/')}`;
}

const readers = new Set();
/** The current route. Its fields change in place. */
export const route = {
  ...read(globalThis.location?.hash || ''),
  subscribe(fn) {
    readers.add(fn);
    return () => readers.delete(fn);
  },
};

function moved() {
  Object.assign(route, read(location.hash));
  for (const fn of [...readers]) fn();
}

/** Navigates to a path. With `replace`, no entry is added to the browser's history: typing in a filter, for example, is not navigation. */
export function go(path, query, { replace = false } = {}) {
  const address = write(path, query);
  if (address === location.hash) return;
  history[replace ? 'replaceState' : 'pushState'](null, '', address);
  moved();
}

/** Changes some query parameters and keeps the others. */
export function adjust(changes) {
  const path = [route.view, ...route.parts].map(encodeURIComponent).join('/');
  go(path, { ...route.query, ...changes }, { replace: true });
}

globalThis.addEventListener?.('hashchange', moved);
globalThis.addEventListener?.('popstate', moved);
