// The server's explanation of an object's state: causes, fixes, blocking finalizers, and candidate volumes.

import { html, useState } from '../../vendor/preact.js';
import { insight, path } from '../../state/kinds.js';
import { time } from '../../state/time.js';
import { get, send } from '../../parts/api.js';
import { Allow, Badge, Command, Countdown, Notice, Ref, Words } from '../../parts/components.js';
import { Diff, changes } from '../../parts/diff.js';
import { useAnswer, useRound } from '../../parts/hooks.js';

// Reload after this time, in milliseconds: causes can change without a write to the object, when a volume is created or a time limit expires.
const AGAIN = 10000;
const SEVERITIES = { ok: 'healthy', waiting: 'waiting', attention: 'needs attention' };

/** Renders a fix, keyed by its patch: a new patch resets the state of the component. */
const fixed = (fix) => fix && html`<${Fix} key=${JSON.stringify(fix.patch || fix.message)} fix=${fix} />`;

/** A fix: its message, its command, and its patch, which is checked with a dry run before it is applied. */
function Fix({ fix }) {
  const [state, put] = useState({});
  const { patch } = fix;
  const target = patch && path(patch.target.resource || patch.target.kind, patch.target.namespace, patch.target.name);
  const type = patch?.type === 'json' ? 'application/json-patch+json' : 'application/merge-patch+json';
  const perform = async (dryRun) => {
    put((before) => ({ ...before, busy: true }));
    try {
      const before = await get(target);
      // Send the version of the dry run, so that the server rejects the patch after a concurrent write.
      const version = state.version || before.metadata.resourceVersion;
      const body = type.includes('merge') ? { ...patch.body, metadata: { ...patch.body.metadata, uid: patch.target.uid || undefined, resourceVersion: version } } : patch.body;
      const after = await send('PATCH', target, { body, type, query: { fieldManager: 'orlop-page', ...(dryRun && { dryRun: 'All' }) } });
      put(dryRun ? { changes: changes(before, after), version } : { done: true });
    } catch (error) {
      put({ error: error.message });
    }
  };
  return html`<div class="fix">
    <p><strong>Fix:</strong> <${Words} text=${fix.message} /></p>
    ${fix.command && html`<${Command} text=${fix.command} />`}
    ${target && html`<div aria-live="polite">
      ${!state.changes && !state.done && html`<button type="button" disabled=${state.busy} onClick=${() => perform(true)}>${state.error ? 'Try again' : 'Apply …'}</button>`}
      ${state.changes && html`<p>The fix will change <${Ref} object=${patch.target} resource=${patch.target.resource || patch.target.kind} /> as follows. The page has not written anything yet.</p><${Diff} changes=${state.changes} />
        <${Allow}><div class="buttons"><button type="button" class="primary" disabled=${state.busy || !state.changes.length} onClick=${() => perform(false)}>Apply</button>
          <button type="button" onClick=${() => put({})}>Cancel</button></div><//>`}
      ${state.done && html`<${Notice} tone="good">Done. The new state appears here when the server reports it.<//>`}
      ${state.error && html`<${Notice} tone="bad">${state.error}<//>`}
    </div>`}
  </div>`;
}

function Objects({ list = [] }) {
  if (!list.length) return null;
  return html`<p class="soft">${list.map((one, at) => html`${at > 0 && ', '}<${Ref} key=${at} object=${one} resource=${one.resource || one.kind} />`)}</p>`;
}

/** The closest candidate volumes, with the result of each rule. */
function Matrix({ nearest }) {
  const [open, show] = useState('');
  const rules = [...new Set(nearest.flatMap((one) => one.verdicts.map((verdict) => verdict.rule)))];
  return html`<div class="scrolls" tabindex="0" role="group" aria-label="Closest volumes"><table class="matrix">
    <caption>Closest volumes (${nearest.length}), those with the fewest failed rules first</caption>
    <thead><tr><th scope="col">Volume</th>${rules.map((rule) => html`<th scope="col" key=${rule}>${rule}</th>`)}</tr></thead>
    <tbody>${nearest.map((one) => html`<tr key=${one.volume}>
        <th scope="row"><button type="button" class="link" aria-expanded=${String(open === one.volume)} onClick=${() => show(open === one.volume ? '' : one.volume)}>${one.volume}</button></th>
        ${rules.map((rule) => {
          const verdict = one.verdicts.find((each) => each.rule === rule);
          if (!verdict) return html`<td key=${rule} class="soft">–</td>`;
          return html`<td key=${rule} data-ok=${String(verdict.ok)} title=${verdict.message}>${verdict.ok ? '✓' : '✕'}<span class="hidden">${verdict.ok ? ' passes' : ` fails: ${verdict.message}`}</span></td>`;
        })}</tr>
        ${open === one.volume && html`<tr key=${`${one.volume} more`} class="more"><td colspan=${rules.length + 1}><div>
          <p><${Ref} object=${{ name: one.volume }} resource="persistentvolumes" />${one.first ? `: ${one.first} is the first rule that fails` : ': all rules pass'}</p>
          <ul class="verdicts">${one.verdicts.map((verdict) => html`<li key=${verdict.rule} data-ok=${String(verdict.ok)}><span>${verdict.ok ? '✓ passes' : '✕ fails'}</span> <strong>${verdict.rule}</strong> ${verdict.message}</li>`)}</ul>
          ${fixed(one.fix)}</div></td></tr>`}`)}</tbody></table></div>`;
}

function Candidates({ candidates }) {
  const { total, fit, by_rule: rules = [], nearest = [] } = candidates;
  return html`<h2>Candidate volumes</h2>
    <p>${total} in total, ${fit} of them ${fit === 1 ? 'fits' : 'fit'}.${rules.length > 0 ? ' The other volumes, counted by the first rule that they fail:' : ''}</p>
    ${rules.length > 0 && html`<ul class="rules">${rules.map((one) => html`<li key=${one.rule}><span class="rule">${one.rule}</span>
      <span class="track" aria-hidden="true"><span style=${{ width: `${(100 * one.count) / Math.max(1, total)}%` }}></span></span> ${one.count}</li>`)}</ul>`}
    ${nearest.length > 0 && html`<${Matrix} nearest=${nearest} />`}`;
}

export function Why({ object, kind }) {
  const { namespace, name, resourceVersion } = object.metadata;
  const past = time.mode !== 'live';
  const round = useRound(AGAIN);
  const { data, error, missing, busy } = useAnswer(async () => (past ? null : get(insight(kind.id, namespace, name, 'why'))), [kind.id, namespace, name, resourceVersion, past, round]);
  if (past) return html`<${Notice} tone="wait">Explanations are available only for the present. For the displayed revision, see the conditions and events in the summary.<//>`;
  if (missing) return html`<${Notice}>This server does not provide explanations. See the conditions and events in the summary.<//>`;
  if (error) return html`<${Notice} tone="bad">The explanation cannot be loaded: ${error}<//>`;
  if (!data) return html`<p class="note">Loading …</p>`;
  const causes = data.causes || [];
  return html`<div class="why" aria-busy=${String(busy)}>
    <p class="lead verdict" data-severity=${data.severity}><${Badge} word=${data.severity} text=${SEVERITIES[data.severity]} /> <span><${Words} text=${data.summary} /></span></p>
    ${causes.map((one, at) => html`<section key=${`${one.code} ${at}`} class="card"><h2><code>${one.code}</code></h2>
      ${one.message !== data.summary && html`<p><${Words} text=${one.message} /></p>`}<${Objects} list=${one.objects} />
      ${one.until && html`<p>Next step without intervention: <${Countdown} until=${one.until} />.</p>`}
      ${fixed(one.fix)}</section>`)}
    ${data.blocked_by?.length > 0 && html`<h2>Blocked by</h2>${data.blocked_by.map((one) => html`<section key=${one.finalizer} class="card">
      <h3><code>${one.finalizer}</code></h3><p><${Words} text=${one.message} /></p><p class="soft">${one.owner === 'unknown' ? 'Its owner is unknown' : `To be removed by ${one.owner}`}.</p><${Objects} list=${one.objects} /></section>`)}`}
    ${data.candidates && html`<${Candidates} candidates=${data.candidates} />`}
  </div>`;
}
