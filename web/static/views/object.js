// One object: summary, explanation, YAML, editor and history. The URL contains the tab.

import { html, useMemo, useRef } from '../vendor/preact.js';
import { kindOf, path } from '../state/kinds.js';
import { objects } from '../state/objects.js';
import { eventsOf, related, seen } from '../state/relations.js';
import { adjust, write } from '../route.js';
import { Age, Allow, Badge, Copy, Notice, Phase, Ref } from '../parts/components.js';
import { useObjects, useTime } from '../parts/hooks.js';
import { PlanButton } from '../parts/plan.js';
import { toYaml, visible } from '../parts/yaml.js';
import { Editor } from './object/editor.js';
import { History } from './object/history.js';
import { plain } from './object/text.js';
import { Verbs } from './object/verbs.js';
import { Why } from './object/why.js';
import { columnsOf } from './columns.js';

const TABS = [['summary', 'Summary'], ['why', 'Why'], ['yaml', 'YAML'], ['edit', 'Edit'], ['history', 'History']];

function Conditions({ list }) {
  return html`<h2>Conditions</h2><div class="scrolls" tabindex="0" role="group" aria-label="Conditions"><table>
    <thead><tr><th scope="col">Type</th><th scope="col">Status</th><th scope="col">Reason</th><th scope="col">Message</th><th scope="col">Since</th></tr></thead>
    <tbody>${list.map((one) => html`<tr key=${one.type}><th scope="row">${one.type}</th><td>${one.status}</td><td>${one.reason}</td><td>${visible(one.message || '')}</td>
      <td><${Age} at=${one.lastTransitionTime} /></td></tr>`)}</tbody></table></div>`;
}

function Summary({ object }) {
  const columns = columnsOf(object.__resource).filter((one) => !['name', 'age'].includes(one.id) && one.read(object));
  const { metadata, status } = object;
  const others = related(object);
  const events = eventsOf(object);
  const pairs = (map) => Object.entries(map || {});
  return html`
    <dl class="facts">
      ${columns.map((one) => html`<div key=${one.id}><dt>${one.name}</dt><dd>${one.phase ? html`<${Badge} word=${one.read(object)} />` : one.read(object)}</dd></div>`)}
      <div><dt>Created</dt><dd><${Age} at=${metadata.creationTimestamp} /> ago</dd></div>
      ${metadata.deletionTimestamp && html`<div><dt>Deletion requested</dt><dd><${Age} at=${metadata.deletionTimestamp} /> ago</dd></div>`}
      ${metadata.finalizers?.length && html`<div><dt>Finalizers</dt><dd>${metadata.finalizers.join(', ')}</dd></div>`}
      ${pairs(metadata.labels).length > 0 && html`<div><dt>Labels</dt><dd>${pairs(metadata.labels).map(([name, value]) => html`<code key=${name}>${name}=${value}</code> `)}</dd></div>`}
    </dl>
    ${status?.conditions?.length > 0 && html`<${Conditions} list=${status.conditions} />`}
    <h2>Related</h2>
    ${others.length ? html`<ul class="related">${others.slice(0, 200).map((one) => html`<li key=${one.object?.metadata.uid || one.missing.name}>
      <span class="soft">${one.why}</span> <${Ref} object=${one.object || one.missing} resource=${one.resource} />
      ${' '}${one.object ? html`<${Phase} object=${one.object} />` : html`<span class="phase" data-tone="bad">missing</span>`}</li>`)}</ul>`
      : html`<p class="note">No related objects.</p>`}
    ${others.length > 200 && html`<p class="note">and ${others.length - 200} more.</p>`}
    <h2>Events</h2>
    ${events.length ? html`<ul class="events">${events.slice(0, 100).map((one) => html`<li key=${one.metadata.uid}>
      <${Badge} word=${one.type || 'Normal'} /> <strong>${one.reason}</strong> <span class="soft"><${Age} at=${seen(one)} /> ago${one.count > 1 ? `, ${one.count} times` : ''}</span>
      <p>${visible(one.message || one.note || '')}</p></li>`)}</ul>` : html`<p class="note">No events.</p>`}`;
}

// A word of a shell command. Names of roles may contain any character.
const word = (text) => /^[\w./:@=-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;

function Yaml({ object, kind }) {
  const text = useMemo(() => toYaml(plain(object)), [object]);
  const { namespace, name } = object.metadata;
  const server = location.origin;
  const resource = kind.group ? `${kind.plural}.${kind.group}` : kind.plural;
  return html`<div class="buttons">
      <${Copy} text=${text} label="Copy YAML" />
      <${Copy} text=${`kubectl --server ${word(server)} ${namespace ? `-n ${word(namespace)} ` : ''}get -o yaml ${word(resource)} -- ${word(name)}`} label="Copy as kubectl" />
      <${Copy} text=${`curl -H 'Accept: application/yaml' ${word(server + path(kind.id, namespace, name))}`} label="Copy as curl" />
    </div>
    <pre class="sheet" tabindex="0" aria-label="YAML">${text}</pre>`;
}

function Gone({ kind, namespace, name, last, mode, tab }) {
  const where = namespace ? `${namespace}/${name}` : name;
  if (mode !== 'live') return html`<${Notice} tone="wait">${kind.kind} ${where} did not exist at this time.<//>`;
  return html`<${Notice} tone="wait"><p>${kind.kind} ${where} ${last ? 'no longer exists. This is its last state.' : 'does not exist.'}</p>
      ${tab !== 'history' && html`<p>Its history may still be stored: <a href=${write(`object/${kind.id}/${namespace || '-'}/${name}`, { tab: 'history' })}>show the history</a>.</p>`}<//>
    <div class="verbs" role="group" aria-label="Actions"><${PlanButton} kind=${kind} namespace=${namespace} name=${name} verb="undelete" label="Restore its last state" /></div>`;
}

export function View({ route }) {
  useObjects();
  const { mode } = useTime();
  const [resource, ns, name] = route.parts;
  const kind = kindOf(resource);
  const namespace = ns === '-' ? '' : ns;
  const last = useRef(null);
  const now = kind && name ? objects.get(kind.id, namespace, name) : null;
  // Keep the last state only in live mode: it does not belong to other revisions.
  last.current = mode === 'live' ? now || last.current : null;
  const object = now || last.current;
  const tab = TABS.some(([id]) => id === route.query.tab) ? route.query.tab : 'summary';
  if (!kind || !name) return html`<h1 tabindex="-1">Object not found</h1><p class="note">The URL must end with #/object/RESOURCE/NAMESPACE/NAME.</p>`;

  const choose = (id) => {
    adjust({ tab: id === 'summary' ? '' : id });
    requestAnimationFrame(() => document.getElementById(`tab-${id}`)?.focus());
  };
  const arrows = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const at = TABS.findIndex(([id]) => id === tab);
    choose(TABS[(at + step + TABS.length) % TABS.length][0]);
  };
  const panel = () => {
    if (tab === 'history') return html`<${History} object=${now} kind=${kind} namespace=${namespace} name=${name} route=${route} />`;
    if (!object) return objects.synced ? html`<p class="note">No state of this object is available.</p>` : html`<p class="note">Loading …</p>`;
    if (tab === 'why' && !now) return html`<p class="note">A deleted object cannot be explained.</p>`;
    if (tab === 'why') return html`<${Why} object=${object} kind=${kind} />`;
    if (tab === 'yaml') return html`<${Yaml} object=${object} kind=${kind} />`;
    if (tab === 'edit' && !now) return html`<p class="note">A deleted object cannot be edited.</p>`;
    if (tab === 'edit') return html`<${Allow}><${Editor} key=${now.metadata.uid} object=${now} kind=${kind} /><//>`;
    return html`<${Summary} object=${object} />`;
  };
  return html`<div class="object" data-gone=${now ? null : 'true'}>
    <div class="title">
      <p class="soft crumbs"><a href=${write(`list/${kind.id}`)}>${kind.title}</a>${namespace && html` / <a href=${write(`list/${kind.id}`, { ns: namespace })}>${namespace}</a>`} /</p>
      <h1 tabindex="-1">${name}</h1>
      ${object && html`<${Phase} object=${object} />`}
      <span class="grow"></span>
      ${now && mode === 'live' && html`<a class="button danger" href=${write(`remove/${kind.id}/${namespace || '-'}/${name}`)}>Delete …</a>`}
    </div>
    ${object && mode === 'live' && html`<${Verbs} key=${object.metadata.uid} object=${object} kind=${kind} gone=${!now} />`}
    ${!now && objects.synced && html`<${Gone} kind=${kind} namespace=${namespace} name=${name} last=${last.current} mode=${mode} tab=${tab} />`}
    <div role="tablist" class="tabs" aria-label="Views of the object" onKeyDown=${arrows}>
      ${TABS.map(([id, words]) => html`<button type="button" role="tab" id=${`tab-${id}`} key=${id} aria-selected=${String(id === tab)}
        aria-controls="tabpanel" tabindex=${id === tab ? 0 : -1} onClick=${() => choose(id)}>${words}</button>`)}
    </div>
    <div role="tabpanel" id="tabpanel" aria-labelledby=${`tab-${tab}`} tabindex="0">${panel()}</div>
  </div>`;
}
