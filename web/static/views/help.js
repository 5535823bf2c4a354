// The help dialog: keyboard shortcuts and the meaning of the symbols.

import { html, useEffect, useRef } from '../vendor/preact.js';
import { Badge } from '../parts/components.js';

/** Keyboard shortcuts and their descriptions. */
export const KEYS = [
  ['/', 'search all objects'], ['f', 'filter the list'], ['?', 'show this help'], ['Esc', 'close, or go back to the list'],
  ['g o', 'overview'], ['g g', 'graph'], ['g m', 'state machines'], ['g t', 'time'], ['g c', 'claims'], ['g v', 'volumes'], ['g p', 'pods'], ['g a', 'attachments'],
  ['g s', 'classes'], ['g n', 'nodes'], ['g e', 'events'], ['j, k', 'next and previous row'], ['Enter', 'open the row'],
  ['s, w, y, e, h', 'in an object: summary, why, YAML, edit, history'], ['d', 'delete the object (asks for confirmation)'], ['n', 'new object'], ['t', 'theme: auto, dark, light'],
];

/** Keys of the timeline and the graph, when they have the focus. */
export const KEYS_OF = [
  ['Timeline', [['←, →', 'previous or next change (with Shift: ten)'], ['Home, End', 'first or last change'], ['Space', 'play, pause'], ['<, >', 'slower, faster'], ['l', 'back to live']]],
  ['Graph', [['↑, ↓', 'previous or next object of the column'], ['←, →', 'move along edges'], ['Enter', 'open the object'], ['f', 'show only related objects'], ['+, -, 0', 'zoom in, zoom out, fit'], ['Esc', 'show all']]],
];

const List = ({ keys }) => html`<dl class="keys">${keys.map(([each, words]) => html`<div key=${each}><dt>${each.split(/,? /).map((one, at) => html`<kbd key=${at}>${one}</kbd> `)}</dt><dd>${words}</dd></div>`)}</dl>`;

export function Help({ open, close }) {
  const ref = useRef(null);
  useEffect(() => {
    if (open && !ref.current.open) ref.current.showModal();
    if (!open && ref.current.open) ref.current.close();
  }, [open]);
  return html`<dialog ref=${ref} aria-labelledby="help-title" onClose=${close} onClick=${(event) => event.target === ref.current && close()}>
    <div class="title"><h2 id="help-title">Keyboard shortcuts</h2><span class="grow"></span><button type="button" onClick=${close}>Close</button></div>
    <${List} keys=${KEYS} />
    ${KEYS_OF.map(([title, keys]) => html`<h2 key=${title}>${title}</h2><${List} keys=${keys} />`)}
    <h2>Symbols</h2>
    <p><${Badge} word="Bound" /> is healthy, <${Badge} word="Available" /> is not in use, <${Badge} word="Pending" /> is waiting, <${Badge} word="Failed" /> needs attention, ■ has no state. While the connection is down, the page is grey and shows the last known state.</p>
    <p><a href="/docs">API reference</a></p>
  </dialog>`;
}
