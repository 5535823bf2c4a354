// The history of an object: each write with its manager and changes, a slider, and a way to restore earlier versions.

import { html, useMemo, useState } from '../../vendor/preact.js';
import { historyOf } from '../../state/capture.js';
import { insight } from '../../state/kinds.js';
import { key } from '../../state/objects.js';
import { time } from '../../state/time.js';
import { adjust } from '../../route.js';
import { get } from '../../parts/api.js';
import { Age, Allow, Notice, clockOf } from '../../parts/components.js';
import { Diff, changes as compare, pathText } from '../../parts/diff.js';
import { useAnswer } from '../../parts/hooks.js';
import { PlanButton } from '../../parts/plan.js';
import { toYaml } from '../../parts/yaml.js';
import { plain } from './text.js';

const TYPES = { ADDED: 'created', MODIFIED: 'changed', DELETED: 'deleted' };
const PAGE = 100;
const FEW = 4;

function Since({ kind, namespace, name, revision, version }) {
  const { data, error } = useAnswer(() => get(insight(kind.id, namespace, name, 'diff'), { from: revision }), [kind.id, namespace, name, revision, version]);
  if (error) return html`<${Notice} tone="bad">${error}<//>`;
  return data ? html`<${Diff} changes=${data.changes || []} empty="No differences from the current state." />` : html`<p class="note">Loading …</p>`;
}

/** The object after this write. */
function Whole({ kind, namespace, name, one }) {
  const { data, error } = useAnswer(async () => {
    if (one.object) return one.object;
    const { items } = await get(insight(kind.id, namespace, name, 'history'), { limit: 500, objects: 'true' });
    return items.find((each) => each.revision === one.revision)?.object || null;
  }, [kind.id, namespace, name, one.revision]);
  if (error) return html`<${Notice} tone="bad">${error}<//>`;
  if (data === undefined) return html`<p class="note">Loading …</p>`;
  return data ? html`<pre class="sheet" tabindex="0" aria-label="YAML">${toYaml(plain(data))}</pre>` : html`<p class="note">The object as of this change is no longer stored.</p>`;
}

/** Loads the requested pages of the history, newest first. */
function useHistory(kind, namespace, name, version) {
  const [pages, more] = useState(1);
  const file = time.source ? time.recording : null;
  const answer = useAnswer(async () => {
    if (file) return { items: historyOf(file, kind.id, key(namespace, name), compare) };
    let found = { items: [], next: '' };
    for (let page = 0; page < pages; page += 1) {
      const { items, metadata, oldest } = await get(insight(kind.id, namespace, name, 'history'), { limit: PAGE, ...(found.next && { continue: found.next }) });
      found = { items: [...found.items, ...items], next: metadata?.continue || '', oldest };
      if (!found.next) break;
    }
    return found;
  }, [kind.id, namespace, name, version, pages, file]);
  return { ...answer, earlier: () => more(pages + 1) };
}

/** Lists the first few fields that a write changed. */
function fields(changes) {
  const few = changes.slice(0, FEW).map((change) => pathText(change.path)).join(', ');
  return changes.length > FEW ? `${few} and ${changes.length - FEW} more` : few;
}

const WAYS = [['changes', 'Changes by this write'], ['since', 'Changes since then'], ['whole', 'Complete object']];

export function History({ object, kind, namespace, name, route }) {
  const [way, look] = useState('changes');
  const { data, error, missing, status, busy, earlier } = useHistory(kind, namespace, name, time.mode === 'live' ? object?.metadata.resourceVersion : 'past');
  // The server returns the newest write first; the slider needs the oldest first.
  const items = useMemo(() => [...(data?.items || [])].reverse(), [data]);
  if (missing) return html`<${Notice}>This server provides no history for this object.<//>`;
  if (status === 410) return html`<${Notice} tone="wait">The changes of this object are older than the stored history: ${error}<//>`;
  if (error) return html`<${Notice} tone="bad">The history cannot be loaded: ${error}<//>`;
  if (!data) return html`<p class="note">Loading …</p>`;
  if (!items.length) return html`<p class="note">No history is stored for this object.</p>`;
  // At a past revision, select the last write up to that revision.
  const then = time.mode === 'live' ? Infinity : Number(time.revision);
  const asked = items.findIndex((one) => one.revision === route.query.write);
  const wanted = asked < 0 ? items.findLastIndex((one) => Number(one.revision) <= then) : asked;
  const at = wanted < 0 ? items.length - 1 : wanted;
  const one = items[at];
  const choose = (index) => adjust({ write: items[index].revision });
  const who = one.manager ? `by ${one.manager}${one.operation ? ` (${one.operation})` : ''}` : '';
  const gone = items.at(-1).type === 'DELETED';
  return html`<div class="history" aria-busy=${String(busy)}>
    <div class="slider">
      <button type="button" disabled=${at === 0} onClick=${() => choose(at - 1)}>Earlier</button>
      <label><span class="hidden">Write</span><input type="range" min="0" max=${items.length - 1} value=${at} disabled=${items.length < 2} aria-valuetext=${`${at + 1} of ${items.length}: ${TYPES[one.type]} at ${one.time}`}
        onInput=${(event) => choose(Number(event.target.value))} /></label>
      <button type="button" disabled=${at === items.length - 1} onClick=${() => choose(at + 1)}>Later</button>
    </div>
    <p aria-live="polite"><strong>Write ${at + 1} of ${items.length}</strong>: ${TYPES[one.type] || one.type} ${who}${one.subresource ? `, ${one.subresource}` : ''} at ${clockOf(Date.parse(one.time))}, revision <code>${one.revision}</code></p>
    <div class="buttons" role="group" aria-label="View of this change">
      ${WAYS.filter(([id]) => id !== 'since' || !time.source).map(([id, words]) => html`<button type="button" key=${id} aria-pressed=${String(way === id)} onClick=${() => look(id)}>${words}</button>`)}
      <button type="button" onClick=${() => time.seek(one.revision)}>Show the page as of this revision</button>
    </div>
    ${way === 'since' && !time.source ? html`<${Since} kind=${kind} namespace=${namespace} name=${name} revision=${one.revision} version=${object?.metadata.resourceVersion} />`
      : way === 'whole' ? html`<${Whole} kind=${kind} namespace=${namespace} name=${name} one=${one} />`
        : html`<${Diff} changes=${one.changes || []} empty=${one.type === 'ADDED' ? 'Created.' : one.type === 'DELETED' ? 'Deleted.' : 'No fields changed.'} />`}
    ${!object && gone && one.type !== 'DELETED' && time.mode === 'live' && html`<div class="verbs"><${Allow}><${PlanButton} key=${one.revision} kind=${kind} namespace=${namespace} name=${name} verb="undelete" options=${{ at: one.revision }} label="Restore this version" /><//></div>`}
    <h2>All changes</h2>
    <ol class="writes" reversed start=${items.length}>${[...items].reverse().map((write, index) => html`<li key=${write.revision}>
      <button type="button" class="link" aria-current=${write === one ? 'true' : null} onClick=${() => choose(items.length - 1 - index)}>${TYPES[write.type] || write.type} <${Age} at=${write.time} /> ago</button>
      <span class="soft"> ${[write.manager, fields(write.changes || [])].filter(Boolean).join(': ')}</span></li>`)}</ol>
    ${data.next && html`<button type="button" disabled=${busy} onClick=${earlier}>Show earlier changes</button>`}
  </div>`;
}
