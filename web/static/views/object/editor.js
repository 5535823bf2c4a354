// The YAML editor. The page sends a dry run, shows the resulting changes, and only then saves the object.

import { html, useRef, useState } from '../../vendor/preact.js';
import { path } from '../../state/kinds.js';
import { get, send } from '../../parts/api.js';
import { Notice } from '../../parts/components.js';
import { Diff, changes } from '../../parts/diff.js';
import { toYaml } from '../../parts/yaml.js';
import { applied, replaced, versioned } from './text.js';

const MANAGER = 'orlop-page';

export function Editor({ object, kind }) {
  const { namespace, name } = object.metadata;
  const address = path(kind.id, namespace, name);
  const [way, choose] = useState('replace');
  // The object from which the text was generated, to compare with writes of other clients.
  const base = useRef(object);
  const [text, type] = useState(toYaml(replaced(object)));
  const [state, put] = useState({});
  const changed = object.metadata.resourceVersion !== base.current.metadata.resourceVersion;

  const start = (next) => {
    base.current = object;
    choose(next);
    type(toYaml(next === 'apply' ? applied(object) : replaced(object)));
    put({});
  };
  const request = (body, dryRun, force) => {
    const query = { fieldManager: MANAGER, ...(dryRun && { dryRun: 'All' }) };
    return way === 'apply'
      ? send('PATCH', address, { body, type: 'application/apply-patch+yaml', query: { ...query, ...(force && { force: 'true' }) } })
      : send('PUT', address, { body, type: 'application/yaml', query });
  };
  // The text and the method cannot be edited during a request, because the result refers to them.
  const attempt = async (body, force) => {
    put({ busy: true });
    try {
      const [before, after] = await Promise.all([get(address), request(body, true, force)]);
      put({ changes: changes(before, after), force, checked: body });
    } catch (error) {
      if (error.status !== 409) return put({ error: error.message });
      const now = await get(address).catch(() => null);
      put({ conflict: error.message, now, others: now ? changes(base.current, now) : [] });
    }
  };
  const save = async () => {
    put((before) => ({ ...before, busy: true }));
    try {
      const after = await request(state.checked, false, state.force);
      base.current = after;
      type(toYaml(way === 'apply' ? applied(after) : replaced(after)));
      put({ done: true });
    } catch (error) {
      if (error.status !== 409) return put({ error: error.message });
      const now = await get(address).catch(() => null);
      put({ conflict: error.message, now, others: now ? changes(base.current, now) : [] });
    }
  };
  /** Checks the user's text against the current object: replaces only the resource version in the text. */
  const again = () => {
    if (way === 'apply') return attempt(text, true);
    const next = versioned(text, state.now.metadata.resourceVersion);
    base.current = state.now;
    type(next);
    return attempt(next, false);
  };

  return html`<div class="editor">
    <fieldset disabled=${state.busy}><legend>Method</legend>
      <label><input type="radio" name="way" checked=${way === 'replace'} onChange=${() => start('replace')} /> replace (PUT): removes fields that are not in the text</label>
      <label><input type="radio" name="way" checked=${way === 'apply'} onChange=${() => start('apply')} /> apply (server-side): the page's field manager, ${MANAGER}, owns only the fields in the text</label>
    </fieldset>
    ${changed && !state.conflict && html`<${Notice} tone="wait">The object has changed since the editor loaded it. The check compares the text with the current object.
      <div class="buttons"><button type="button" disabled=${state.busy} onClick=${() => start(way)}>Reload the current object</button></div><//>`}
    <label class="text"><span>YAML</span>
      <textarea spellcheck=${false} readonly=${state.busy} rows=${Math.min(40, text.split('\n').length + 1)} value=${text} onInput=${(event) => {
        type(event.target.value);
        if (state.changes || state.done || state.error) put({});
      }}></textarea></label>
    <div class="buttons">
      <button type="button" disabled=${state.busy} onClick=${() => attempt(text, false)}>Check (writes nothing)</button>
      <button type="button" class="primary" disabled=${state.busy || !state.changes?.length} onClick=${save}>Save</button>
    </div>
    <div aria-live="polite">
      ${state.changes && html`<h2>Preview of changes</h2><${Diff} changes=${state.changes} empty="No changes." />`}
      ${state.done && html`<${Notice} tone="good">Saved.<//>`}
      ${state.error && html`<${Notice} tone="bad">${state.error}<//>`}
      ${state.conflict && html`<${Notice} tone="bad"><p>Conflict with another client: ${state.conflict}</p><//>
        ${way === 'replace' && html`<h2>Changes by other clients</h2><${Diff} changes=${state.others} />`}
        <div class="buttons"><button type="button" disabled=${way === 'replace' && !state.now} onClick=${again}>${way === 'apply' ? 'Check again and take ownership of these fields' : 'Compare my text with the current object'}</button>
        <button type="button" onClick=${() => start(way)}>Discard my text</button></div>`}
    </div>
  </div>`;
}
