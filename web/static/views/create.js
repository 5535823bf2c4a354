// Creates objects. A form or a sample generates YAML text, and the page sends this text.

import { html, useState } from '../vendor/preact.js';
import { kindOf, path } from '../state/kinds.js';
import { objects } from '../state/objects.js';
import { go, link, write } from '../route.js';
import { send } from '../parts/api.js';
import { Allow, Copy, Notice } from '../parts/components.js';
import { toYaml } from '../parts/yaml.js';
import { FORMS, values } from './samples.js';

function Field({ of, value, put }) {
  const known = of.from ? objects.list(of.from).map((one) => one.metadata.name).sort().slice(0, 200) : [];
  if (of.check) return html`<label class="check"><input type="checkbox" checked=${value} onChange=${(event) => put(event.target.checked)} /> ${of.label}</label>`;
  return html`<label><span>${of.label}</span>
    ${of.options ? html`<select value=${value} onChange=${(event) => put(event.target.value)}>${of.options.map((one) => html`<option key=${one} selected=${one === value}>${one}</option>`)}</select>`
      : html`<input value=${value} required=${!of.optional} list=${known.length ? `known-${of.id}` : null} autocomplete="off" spellcheck=${false} onInput=${(event) => put(event.target.value)} />
        ${known.length > 0 && html`<datalist id=${`known-${of.id}`}>${known.map((one) => html`<option value=${one} key=${one}></option>`)}</datalist>`}`}
  </label>`;
}

function Maker({ kind, form, ns }) {
  const [fields, put] = useState(() => values(form, ns ? { namespace: ns } : {}));
  const [text, type] = useState(() => toYaml(form.make(fields)));
  const [state, tell] = useState({});
  const fill = (changes) => {
    const next = { ...fields, ...changes };
    put(next);
    type(toYaml(form.make(next)));
    tell({});
  };
  // Read the namespace from the text, because the user may have edited it.
  const namespace = kind.namespaced ? /^ {2}namespace: *"?([^\s"]+)/m.exec(text)?.[1] || 'default' : '';
  const attempt = async (dryRun) => {
    tell({ busy: true });
    try {
      const made = await send('POST', path(kind.id, namespace), { body: text, type: 'application/yaml', query: { fieldManager: 'orlop-page', ...(dryRun && { dryRun: 'All' }) } });
      if (!dryRun) return go(link(made, kind.id));
      tell({ text: toYaml(made) });
    } catch (error) {
      tell({ error: error.message });
    }
  };
  return html`<form class="maker" onSubmit=${(event) => {
    event.preventDefault();
    attempt(false);
  }}>
    <div class="form">
      <div class="buttons" role="group" aria-label="Samples">${form.samples.map(([label, changes]) => html`<button type="button" class="small" key=${label} onClick=${() => fill(changes)}>${label}</button>`)}</div>
      ${form.fields.map((one) => html`<${Field} key=${one.id} of=${one} value=${fields[one.id]} put=${(value) => fill({ [one.id]: value })} />`)}
    </div>
    <div class="editor">
      <label class="text"><span>YAML to send</span><textarea spellcheck=${false} rows=${Math.max(16, text.split('\n').length + 1)} value=${text} onInput=${(event) => {
        type(event.target.value);
        tell({});
      }}></textarea></label>
      <div class="buttons"><button type="button" disabled=${state.busy} onClick=${() => attempt(true)}>Check (writes nothing)</button>
        <button type="submit" class="primary" disabled=${state.busy}>Create</button>
        <${Copy} label="Copy as kubectl" text=${() => `kubectl --server ${location.origin} apply -f - <<'EOF'\n${text}EOF\n`} /></div>
      <div aria-live="polite">
        ${state.error && html`<${Notice} tone="bad">${state.error}<//>`}
        ${state.text && html`<${Notice} tone="good">The server accepts the object. Result:<//><pre class="sheet" tabindex="0">${state.text}</pre>`}
      </div>
    </div>
  </form>`;
}

export function View({ route }) {
  const kind = kindOf(route.parts[0]);
  const form = kind && FORMS[kind.id];
  return html`<div>
    <div class="title"><h1 tabindex="-1">${form ? `New ${kind.kind}` : 'Create an object'}</h1></div>
    <nav class="buttons" aria-label="Kinds you can create here">${Object.keys(FORMS).map((id) => html`<a class="button" key=${id} aria-current=${kind?.id === id ? 'page' : null} href=${write(`create/${id}`)}>${kindOf(id).kind}</a>`)}</nav>
    ${!form && html`<dl class="kinds">${Object.entries(FORMS).map(([id, one]) => html`<dt key=${id}>${kindOf(id).kind}</dt><dd>${one.is}</dd>`)}</dl>`}
    ${form && html`<p class="soft">${form.is}</p><${Allow}><${Maker} key=${kind.id} kind=${kind} form=${form} ns=${route.query.ns} /><//>`}
  </div>`;
}
