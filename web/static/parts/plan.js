// An action with a plan: the page shows the plan first, and the server then applies exactly that plan or nothing.

import { html, useState } from '../vendor/preact.js';
import { insight } from '../state/kinds.js';
import { objects } from '../state/objects.js';
import { Allow, Notice, Ref } from './components.js';
import { send } from './api.js';
import { Diff } from './diff.js';

const ACTIONS = { create: 'is created', update: 'is changed', delete: 'is deleted' };

export function Plan({ plan }) {
  return html`<div class="plan">
    <p class="lead">${plan.summary}</p>
    ${(plan.warnings || []).map((words) => html`<${Notice} key=${words} tone="wait">${words}<//>`)}
    <ol>${(plan.steps || []).map((step, at) => html`<li key=${at}><p><${Ref} object=${step.object} resource=${step.object.resource || step.object.kind} /> <strong>${ACTIONS[step.action] || step.action}</strong>${step.message ? `: ${step.message}` : ''}</p>
      ${step.changes?.length > 0 && html`<${Diff} changes=${step.changes} />`}</li>`)}</ol>
  </div>`;
}

/** One input field of an action. `known` is the resource whose names are suggested. */
function Field({ field, id, value, put }) {
  const names = field.known ? objects.list(field.known).map(field.name || ((one) => one.metadata.name)).sort().slice(0, 300) : [];
  return html`<label><span>${field.label}</span>
    <input value=${value} required=${Boolean(field.required)} autocomplete="off" spellcheck=${false} list=${names.length ? `${id}-known` : null} onInput=${(event) => put(event.target.value)} />
    ${names.length > 0 && html`<datalist id=${`${id}-known`}>${names.map((one) => html`<option value=${one} key=${one}></option>`)}</datalist>`}</label>`;
}

/**
 * An action as a button. It asks for the action's fields, if any, requests the plan (a dry run) and applies the displayed plan. With `danger`,
 * the last button has a warning colour. Calls `busyWith(true)` when the user starts the action, and `busyWith(false)` when they close it.
 */
export function PlanButton({ kind, namespace, name, verb, options = {}, fields = [], label, about = '', danger = false, busyWith = () => {} }) {
  const [state, set] = useState({});
  const put = (next) => {
    set(next);
    if (typeof next !== 'function') busyWith(Object.keys(next).length > 0);
  };
  const [values, fill] = useState(() => Object.fromEntries(fields.map((one) => [one.id, one.value || ''])));
  const address = insight(kind.id, namespace, name, verb);
  const id = `${verb}-${label}`.replace(/\W+/g, '-').toLowerCase();
  const body = () => ({ ...options, ...Object.fromEntries(Object.entries(values).filter(([, value]) => value.trim() !== '')) });
  const perform = async (dryRun) => {
    busyWith(true);
    put((before) => ({ ...before, busy: true, error: '' }));
    // Keep the request with its plan: later changes to the fields do not affect what is applied.
    const asked = dryRun ? body() : state.asked;
    try {
      const plan = await send('POST', address, { body: dryRun ? asked : { ...asked, revision: state.plan.revision }, query: dryRun ? { dryRun: 'All' } : undefined });
      put(dryRun ? { plan, asked } : { done: plan });
    } catch (error) {
      // Discard a plan that is out of date.
      put((before) => ({ error: error.message, asking: before.asking }));
    }
  };
  const begin = () => (fields.length ? put({ asking: true }) : perform(true));
  const idle = !state.plan && !state.done && !state.asking;
  if (idle && !state.error) return html`<button type="button" class=${danger ? 'danger' : ''} title=${about} disabled=${state.busy} onClick=${begin}>${label} …</button>`;
  return html`<section class="card verb" aria-labelledby=${id}>
    <h2 id=${id}>${label}</h2>
    ${about && !state.done && html`<p class="soft">${about}</p>`}
    ${state.asking && !state.plan && html`<form onSubmit=${(event) => {
      event.preventDefault();
      perform(true);
    }}><div class="form">${fields.map((one) => html`<${Field} key=${one.id} id=${`${id}-${one.id}`} field=${one} value=${values[one.id]} put=${(value) => fill((before) => ({ ...before, [one.id]: value }))} />`)}</div>
      <div class="buttons"><button type="submit" class="primary" disabled=${state.busy}>Show the plan (writes nothing)</button><button type="button" onClick=${() => put({})}>Cancel</button></div></form>`}
    <div aria-live="polite">
      ${state.plan && html`<${Plan} plan=${state.plan} />
        <${Allow}><div class="buttons"><button type="button" class=${danger ? 'danger' : 'primary'} disabled=${state.busy || !state.plan.steps?.length} onClick=${() => perform(false)}>Apply</button>
          <button type="button" onClick=${() => put({ asking: fields.length > 0 })}>Cancel</button></div><//>`}
      ${state.done && html`<${Notice} tone="good">${state.done.summary || 'Done.'}${state.done.committed ? ` Done in revision ${state.done.committed}.` : ''} <button type="button" class="small" onClick=${() => put({})}>Close</button><//>`}
      ${state.error && html`<${Notice} tone="bad">${state.error}<//><div class="buttons">
        <button type="button" onClick=${() => perform(true)}>Plan again</button><button type="button" onClick=${() => put({})}>Cancel</button></div>`}
    </div>
  </section>`;
}
