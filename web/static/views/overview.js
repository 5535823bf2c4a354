// The start page: the number of objects in each phase, and the problems with their reasons.

import { html, useEffect, useReducer, useState } from '../vendor/preact.js';
import { objects } from '../state/objects.js';
import { time } from '../state/time.js';
import { canonical, insight, kindOf, phase, tone } from '../state/kinds.js';
import { link, write } from '../route.js';
import { Words } from '../parts/components.js';
import { Countdown, Countdowns } from '../parts/countdown.js';
import { CODES, problems } from './overview/problems.js';
import { Asker } from './overview/why.js';

const COUNTED = ['persistentvolumeclaims', 'persistentvolumes', 'volumeattachments', 'pods', 'nodes', 'storageclasses', 'csidrivers'];
const ORDER = ['Bound', 'Running', 'Attached', 'Ready', 'Available', 'Succeeded', 'Pending', 'Attaching', 'Released', 'Terminating', 'NotReady', 'Failed', 'Lost'];
// Problems are recomputed at most once per LAZY milliseconds, and with many objects so rarely that this takes at most 1/SHARE of the time.
const LAZY = 500;
const SHARE = 20;
const FEW = 6;
const SHAPES = { good: '●', wait: '◆', bad: '✕', free: '○', '': '■' };

const bare = (resource) => resource.split('.')[0];
const place = (word) => (ORDER.includes(word) ? ORDER.indexOf(word) : ORDER.length);

/** Counts objects by phase, in the order of `ORDER`. Pure. */
export function count(list) {
  const found = new Map();
  for (const object of list) {
    const word = phase(object);
    found.set(word, (found.get(word) || 0) + 1);
  }
  return [...found].sort(([a], [b]) => place(a) - place(b) || (a < b ? -1 : 1));
}

/** One kind: its count, a bar of its phases, and the phases as links to lists. */
function Card({ resource }) {
  const list = objects.list(resource);
  const phases = count(list).filter(([word]) => word);
  const title = kindOf(resource)?.title || resource;
  let x = 0;
  return html`<section class="card">
    <h3><a href=${write(`list/${canonical(resource)}`)}>${title}</a> <span class="number">${list.length}</span></h3>
    ${phases.length > 0 && html`<svg class="bar" viewBox="0 0 ${list.length} 1" preserveAspectRatio="none" aria-hidden="true">
      ${phases.map(([word, number]) => {
        const from = x;
        x += number;
        return html`<rect key=${word} data-tone=${tone(word)} data-word=${word} x=${from} y="0" width=${number} height="1" />`;
      })}</svg>`}
    <ul>${phases.map(([word, number]) => html`<li key=${word}><a href=${write(`list/${canonical(resource)}`, { phase: word })}>
      <span class="tone" data-tone=${tone(word)}>${SHAPES[tone(word)]} ${word}</span> <span class="number">${number}</span></a></li>`)}</ul>
  </section>`;
}

/** One problem. The server's explanation, if available, replaces the page's own text. */
function Item({ one, asker }) {
  const { object } = one;
  const said = asker.answer(object);
  const causes = said?.causes || [];
  const fix = causes.map((cause) => cause.fix).find(Boolean) || said?.candidates?.nearest?.[0]?.fix;
  const { namespace, name } = object.metadata;
  const severity = said?.severity || one.severity;
  const node = one.kind === 'Pod' ? objects.get('nodes', '', object.spec?.nodeName || '') : undefined;
  return html`<li class="need" data-severity=${severity}>
    <p class="who"><span class="kind">${one.kind}</span> <a href=${link(object)}>${namespace ? `${namespace}/${name}` : name}</a>
      <span class="tone" data-tone=${tone(phase(object))}>${SHAPES[tone(phase(object))]} ${phase(object)}</span>
      <${Countdowns} object=${object} node=${node} />
      ${one.about && html`<${Countdowns} object=${one.about} />`}
      ${causes.map((cause) => cause.until && html`<${Countdown} key=${cause.code} until=${cause.until} />`)}</p>
    <p class="reason"><${Words} text=${said?.summary || one.reason} /></p>
    ${said && causes.length > 1 && html`<ul class="causes">${causes.filter((cause) => cause.message !== said.summary).slice(0, 4).map((cause) => html`<li key=${cause.code}><${Words} text=${cause.message} /></li>`)}</ul>`}
    ${fix && html`<p class="fix"><${Words} text=${fix.message} />${fix.command && html` <code tabindex="0">${fix.command}</code>`}</p>`}
    <p class="go"><a href=${`${link(object)}?tab=why`}>Why</a> <a href=${write('graph', { follow: [bare(object.__resource), namespace || '-', name].join('/') })}>Show in graph</a></p>
  </li>`;
}

/** The problems with one code, under one heading. */
function Group({ title, items, asker }) {
  const [all, setAll] = useState(FEW);
  const shown = items.slice(0, all);
  asker.want(shown.map((one) => one.object));
  return html`<section class="group"><h3>${title} <span class="count">${items.length}</span></h3>
    <ul>${shown.map((one) => html`<${Item} key=${`${one.object.metadata.uid} ${one.code}`} one=${one} asker=${asker} />`)}</ul>
    ${items.length > all && html`<button type="button" onClick=${() => setAll(all + 50)}>Show ${Math.min(50, items.length - all)} more</button>`}
  </section>`;
}

/** Groups problems by code, in the order of `CODES`, each group oldest first. Pure. */
export function grouped(found, severity) {
  const groups = new Map();
  for (const one of found) {
    if (one.severity !== severity) continue;
    if (!groups.has(one.code)) groups.set(one.code, []);
    groups.get(one.code).push(one);
  }
  const titles = new Map(CODES);
  const codes = [...titles.keys()].filter((code) => groups.has(code));
  return codes.map((code) => ({ code, title: titles.get(code), items: groups.get(code).sort((a, b) => a.at - b.at) }));
}

export function View() {
  const [, draw] = useReducer((n) => n + 1, 0);
  const [asker] = useState(() => new Asker({ path: (object) => insight(object.__resource, object.metadata.namespace, object.metadata.name, 'why'), changed: draw }));
  const [state] = useState({ found: [], next: -Infinity });
  useEffect(() => {
    let timer = 0;
    const hear = () => {
      timer ||= setTimeout(() => {
        timer = 0;
        draw();
      }, Math.max(0, state.next - performance.now()));
    };
    const ends = [objects.subscribe(hear), time.subscribe(hear)];
    // Some problems depend on the age of objects and appear without a write.
    const clock = setInterval(hear, 5000);
    return () => {
      ends.forEach((end) => end());
      clearTimeout(timer);
      clearInterval(clock);
      asker.stop();
    };
  }, []);
  const begun = performance.now();
  if (begun >= state.next) {
    state.found = problems(objects.list, time.now());
    state.next = begun + Math.max(LAZY, SHARE * (performance.now() - begun));
  }
  // The server explains only the present.
  asker.allow(time.mode === 'live');
  const attention = grouped(state.found, 'attention');
  const waiting = grouped(state.found, 'waiting');
  const number = attention.reduce((sum, group) => sum + group.items.length, 0);
  return html`<div class="overview">
    <section aria-labelledby="counts-title"><h2 id="counts-title" class="hidden">Object counts</h2>
      <div class="cards">${COUNTED.map((resource) => html`<${Card} key=${resource} resource=${resource} />`)}</div></section>
    <section aria-labelledby="needs-title" class="needs"><h2 id="needs-title">Problems <span class="count">${number}</span></h2>
      ${number === 0 && html`<p class="fine">No problems. Everything is healthy or in progress.</p>`}
      ${attention.map((group) => html`<${Group} key=${group.code} ...${group} asker=${asker} />`)}</section>
    ${waiting.length > 0 && html`<section aria-labelledby="waits-title" class="needs"><h2 id="waits-title">In progress</h2>
      ${waiting.map((group) => html`<${Group} key=${group.code} ...${group} asker=${asker} />`)}</section>`}
  </div>`;
}
