// The address is the state: #/VIEW/PART/PART?name=value. Nothing else knows where the page is.

import { canonical } from './state/kinds.js';

/** An address as `{view, parts, query}`. Pure. */
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

/** An address. Values that are empty are left out. Pure. */
export function write(path, query = {}) {
  const kept = Object.entries(query).filter(([, value]) => value !== '' && value !== null && value !== undefined);
  const search = new URLSearchParams(kept).toString();
  return `#/${path.replace(/^[#/]+/, '')}${search ? `?${search}` : ''}`;
}

/** The address of an object: #/object/RESOURCE/NS/NAME, `-` being no namespace. */
export function link(object, resource) {
  const of = resource || object.__resource || object.resource || object.kind;
  const { namespace, name } = object.metadata || object;
  return `#/object/${[canonical(of), namespace || '-', name].map(encodeURIComponent).join('/')}`;
}

const readers = new Set();
/** Where the page is. Its fields change in place. */
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

/** Goes somewhere. `replace`: the way back skips where we were (typing in a filter is no journey). */
export function go(path, query, { replace = false } = {}) {
  const address = write(path, query);
  if (address === location.hash) return;
  history[replace ? 'replaceState' : 'pushState'](null, '', address);
  moved();
}

/** Changes values of the address and leaves the others. */
export function adjust(changes) {
  const path = [route.view, ...route.parts].map(encodeURIComponent).join('/');
  go(path, { ...route.query, ...changes }, { replace: true });
}

globalThis.addEventListener?.('hashchange', moved);
globalThis.addEventListener?.('popstate', moved);
