// The time view: a table of the changes around the displayed revision. The timeline at the bottom of the page moves through it.

import { html, useState } from '../vendor/preact.js';
import { kindOf } from '../state/kinds.js';
import { time } from '../state/time.js';
import { link } from '../route.js';
import { clockOf } from '../parts/components.js';
import { useLine } from '../parts/scrubber.js';
import { TYPES } from './time/marks.js';

const WORDS = ['created', 'changed', 'deleted'];
const BEFORE = 25;
const AFTER = 8;

export function View() {
  const { marks } = useLine();
  const index = time.mode === 'live' ? marks.list.length : marks.upTo(Number(time.revision));
  const [most, setMost] = useState(BEFORE);
  const begin = Math.max(0, index - most);
  const rows = marks.list.slice(begin, index + AFTER).map((mark, i) => ({ ...mark, index: begin + i })).reverse();
  const seek = (revision) => {
    time.pause();
    time.seek(revision);
  };
  return html`<div class="time-view">
    <div class="title"><h1 tabindex="-1">Time</h1><p class="soft">Drag the timeline, or choose a revision: the whole page shows the state at that time. <kbd>◂</kbd> and <kbd>▸</kbd> show the previous and the next change.</p></div>
    <div class="around"><table><caption>${time.mode === 'live' ? 'Latest changes' : 'Changes around this time'}</caption>
    <thead><tr><th scope="col">When</th><th scope="col">Revision</th><th scope="col">Change</th><th scope="col">Object</th></tr></thead>
    <tbody>${rows.map((mark) => {
      const kind = kindOf(mark.resource);
      const name = mark.namespace ? `${mark.namespace}/${mark.name}` : mark.name;
      return html`<tr key=${mark.index} data-when=${mark.index >= index ? 'after' : mark.revision === Number(time.revision) ? 'now' : 'before'}>
        <td>${clockOf(mark.at)}</td><td><button type="button" class="link" aria-label=${`Show revision ${mark.revision}`} onClick=${() => seek(mark.revision)}>${mark.revision}</button></td>
        <td><span class="type" data-type=${TYPES[mark.type]}>${WORDS[mark.type]}</span></td>
        <td>${kind ? html`<a href=${link(mark, mark.resource)}>${kind.kind} ${name}</a>` : `${mark.resource} ${name}`}</td></tr>`;
    })}</tbody></table>
    ${!rows.length && html`<p class="note">No history is stored, or it is still loading.</p>`}
    ${begin > 0 && html`<button type="button" onClick=${() => setMost(most + 100)}>Show earlier changes</button>`}</div></div>`;
}
