// Differences between two objects, field by field. `changes` is pure.

import { html } from '../vendor/preact.js';
import { toYaml, visible } from './yaml.js';

const isMap = (value) => value !== null && typeof value === 'object' && !Array.isArray(value);
const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);
// Omit the metadata that the server updates on every write.
const NOISE = new Set(['managedFields', 'resourceVersion']);

/** Returns the field that identifies the elements of a list, or null. Lists with such a field are compared by it, not by index. */
function keyed(list) {
  for (const by of ['name', 'type', 'uid', 'key']) {
    const names = list.map((one) => (isMap(one) ? one[by] : undefined));
    if (names.every((one) => typeof one === 'string') && new Set(names).size === names.length) return by;
  }
  return null;
}

/** Returns `{path, op: add|remove|replace, from, to}` for each field that differs. */
export function changes(from, to, path = []) {
  if (same(from, to)) return [];
  if (from === undefined) return [{ path, op: 'add', to }];
  if (to === undefined) return [{ path, op: 'remove', from }];
  if (isMap(from) && isMap(to)) {
    const names = [...new Set([...Object.keys(from), ...Object.keys(to)])];
    return names.flatMap((name) =>
      (path.length === 1 && path[0] === 'metadata' && NOISE.has(name)) || name === '__resource'
        ? []
        : changes(from[name], to[name], [...path, name]));
  }
  if (Array.isArray(from) && Array.isArray(to) && from.length && to.length) {
    const by = keyed(from);
    if (by && by === keyed(to)) {
      const map = (list) => Object.fromEntries(list.map((one) => [`[${by}=${one[by]}]`, one]));
      const [a, b] = [map(from), map(to)];
      return [...new Set([...Object.keys(a), ...Object.keys(b)])].flatMap((name) => changes(a[name], b[name], [...path, name]));
    }
  }
  return [{ path, op: 'replace', from, to }];
}

/** Formats a path as `spec.claimRef.name`; no dot precedes a part in brackets. */
export const pathText = (path) => path.map(String).reduce((text, part) => (part.startsWith('[') || !text ? text + part : `${text}.${part}`), '');

// Values of more characters than this are focusable, because they scroll in their own box.
const LONG = 2000;

function valueText(value) {
  if (typeof value === 'string') return value === '' ? '""' : visible(value);
  return value !== null && typeof value === 'object' ? toYaml(value).trimEnd() : String(value);
}

function Value({ of, before }) {
  const text = valueText(of);
  return html`<pre class=${before ? 'from' : 'to'} tabindex=${text.length > LONG ? 0 : null}><span class="hidden">${before ? 'before: ' : 'after: '}</span>${text}</pre>`;
}

const WORDS = { add: 'added', remove: 'removed', replace: 'changed' };

/** A list of changes. Words, symbols and colours mark the old and the new values. */
export function Diff({ changes: list, empty = 'No fields changed.' }) {
  if (!list.length) return html`<p class="note">${empty}</p>`;
  return html`<ul class="diff">
    ${list.map((one) => html`<li key=${pathText(one.path)} data-op=${one.op}>
      <p><code>${pathText(one.path) || 'the whole object'}</code> <span class="soft">${WORDS[one.op] || one.op}</span></p>
      ${one.op !== 'add' && html`<${Value} of=${one.from} before />`}
      ${one.op !== 'remove' && html`<${Value} of=${one.to} />`}
    </li>`)}
  </ul>`;
}
