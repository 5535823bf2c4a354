// A combobox that searches all objects by name, namespace, UID, label and volume handle.

import { html, useMemo, useState } from '../vendor/preact.js';
import { KINDS, phase } from '../state/kinds.js';
import { objects } from '../state/objects.js';
import { go, link } from '../route.js';
import { Badge } from './components.js';

const MOST = 12;

/** Returns the best matches: first names with this prefix, then names that contain the words, then other fields that contain them. */
export function find(words, most = MOST) {
  const parts = words.toLowerCase().split(/\s+/).filter(Boolean);
  if (!parts.length) return [];
  const levels = [[], [], []];
  for (const kind of KINDS) {
    if (kind.kind === 'Event') continue;
    for (const object of objects.list(kind.id)) {
      const name = object.metadata.name.toLowerCase();
      if (parts.length === 1 && name.startsWith(parts[0])) levels[0].push(object);
      else {
        const { namespace = '', uid, labels } = object.metadata;
        const short = `${kind.kind} ${namespace}/${name}`.toLowerCase();
        if (parts.every((part) => short.includes(part))) levels[1].push(object);
        else if (levels[2].length < most) {
          const rest = [short, uid, object.spec?.volumeName, object.spec?.csi?.volumeHandle, ...Object.entries(labels || {}).map((one) => one.join('='))].join(' ').toLowerCase();
          if (parts.every((part) => rest.includes(part))) levels[2].push(object);
        }
      }
      if (levels[0].length >= most) return levels[0];
    }
  }
  return levels.flat().slice(0, most);
}

export function Search() {
  const [words, type] = useState('');
  const [at, move] = useState(0);
  const [open, show] = useState(false);
  const found = useMemo(() => (open ? find(words) : []), [words, open]);
  const choose = (object) => {
    show(false);
    type('');
    document.activeElement?.blur();
    go(link(object));
  };
  const key = (event) => {
    if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
      event.preventDefault();
      const step = event.key === 'ArrowDown' ? 1 : -1;
      if (found.length) move((at + step + found.length) % found.length);
    } else if (event.key === 'Enter' && found[at]) {
      event.preventDefault();
      choose(found[at]);
    } else if (event.key === 'Escape') {
      event.stopPropagation();
      if (open && words) show(false);
      else event.target.blur();
    }
  };
  const shown = open && words.trim() !== '';
  return html`<div class="search">
    <label><span class="hidden">Search all objects</span>
      <input id="search" type="text" role="combobox" placeholder="Search  /" autocomplete="off" spellcheck=${false} value=${words}
        aria-expanded=${String(shown && found.length > 0)} aria-controls="found" aria-autocomplete="list" aria-keyshortcuts="/"
        aria-activedescendant=${shown && found[at] ? `found-${at}` : null}
        onInput=${(event) => { type(event.target.value); move(0); show(true); }} onFocus=${() => show(true)} onBlur=${() => setTimeout(() => show(false), 150)} onKeyDown=${key} /></label>
    <ul id="found" role="listbox" aria-label="Search results" hidden=${!shown || !found.length}>
      ${found.map((object, index) => html`<li role="option" id=${`found-${index}`} key=${object.metadata.uid} aria-selected=${String(index === at)} onMouseDown=${(event) => { event.preventDefault(); choose(object); }}>
        <span class="soft">${object.kind}</span> ${object.metadata.namespace ? `${object.metadata.namespace}/` : ''}${object.metadata.name} <${Badge} word=${phase(object)} /></li>`)}
    </ul>
    ${shown && !found.length && html`<p class="none" role="status">No results.</p>`}
  </div>`;
}
