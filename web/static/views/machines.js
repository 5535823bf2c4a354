// The state machine diagrams of volumes and claims: the number of objects in each state. A transition lights up when it occurs; with reduced
// motion, it is only drawn with a heavier line.

import { html, useEffect, useReducer, useState } from '../vendor/preact.js';
import { objects } from '../state/objects.js';
import { time } from '../state/time.js';
import { tone } from '../state/kinds.js';
import { link, write } from '../route.js';
import { clockOf } from '../parts/components.js';
import { GONE, MACHINES, Moves, NEW, tally } from './machines/moves.js';

const [W, H] = [150, 54];
const LIT = 1600;
const MAX_CHANGES = 14;
const SHAPES = { good: '●', wait: '◆', bad: '✕', free: '○', '': '○' };

const mark = (word) => SHAPES[tone(word)];
const at = (machine, name) => machine.states[name] || machine.ends[name];

/** Returns the point where a line from the centre of a box towards `to` crosses the border of the box. */
function edge({ x, y }, to, end) {
  const [dx, dy] = [to.x - x, to.y - y];
  if (end) {
    const far = Math.hypot(dx, dy) || 1;
    return { x: x + (dx / far) * 14, y: y + (dy / far) * 14 };
  }
  const part = Math.min(W / 2 / Math.abs(dx || 1e-9), H / 2 / Math.abs(dy || 1e-9));
  return { x: x + dx * part, y: y + dy * part };
}

/** Returns the path of a transition and the position of its label. Pure. */
export function path(machine, way) {
  const [a, b] = [at(machine, way.from), at(machine, way.to)];
  const bend = way.bend || 0;
  const far = Math.hypot(b.x - a.x, b.y - a.y) || 1;
  const middle = { x: (a.x + b.x) / 2 - ((b.y - a.y) / far) * bend * 1.6, y: (a.y + b.y) / 2 + ((b.x - a.x) / far) * bend * 1.6 };
  const [from, to] = [edge(a, middle, Boolean(machine.ends[way.from])), edge(b, middle, Boolean(machine.ends[way.to]))];
  const words = { x: (from.x + 2 * middle.x + to.x) / 4, y: (from.y + 2 * middle.y + to.y) / 4 };
  return { line: `M${from.x} ${from.y}Q${middle.x} ${middle.y} ${to.x} ${to.y}`, words };
}

const PATHS = new Map(MACHINES.map((machine) => [machine, machine.ways.map((way) => path(machine, way))]));

function Machine({ machine, lit, passed }) {
  const { counts, leaving } = tally(objects.list(machine.resource));
  const { resource, title, width, height } = machine;
  const key = (way) => `${resource} ${way.from} ${way.to}`;
  const summary = Object.keys(machine.states).map((name) => `${counts[name] || 0} ${name}`).join(', ');
  return html`<section class="machine" aria-labelledby=${`machine-${resource}`}>
    <h2 id=${`machine-${resource}`}>${title} <span class="count">${objects.list(resource).length}${leaving ? `, ${leaving} being deleted` : ''}</span></h2>
    <svg viewBox=${`0 0 ${width} ${height}`} role="group" aria-label=${`${title}: ${summary}`}>
      <defs><marker id=${`tip-${resource}`} viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto-start-reverse"><path class="tip" d="M0 0L8 4L0 8Z" /></marker></defs>
      ${machine.ways.map((way, index) => {
        const { line, words } = PATHS.get(machine)[index];
        const number = passed.get(key(way)) || 0;
        const upright = Math.abs(at(machine, way.from).x - at(machine, way.to).x) < 20;
        return html`<g key=${key(way)} class="way" data-lit=${lit.has(key(way)) ? 'yes' : undefined}>
          <path class="line" d=${line} marker-end=${`url(#tip-${resource})`} /><path class="glow" d=${line} />
          <text x=${words.x + (upright ? 6 : 0) + (way.shift?.[0] || 0)} y=${words.y - (upright ? -4 : 6) + (way.shift?.[1] || 0)} text-anchor=${upright ? 'start' : 'middle'}>${way.text}${number ? html`<tspan class="passed"> ×${number}</tspan>` : ''}</text></g>`;
      })}
      ${Object.entries(machine.ends).map(([name, { x, y }]) => html`<g key=${name} class="end">
        <circle cx=${x} cy=${y} r="9" />${name === GONE && html`<circle class="inner" cx=${x} cy=${y} r="5" />`}
        <text x=${x} y=${y + 26} text-anchor="middle">${name === NEW ? 'new' : 'gone'}</text></g>`)}
      ${Object.entries(machine.states).map(([name, { x, y, text }]) => html`<a key=${name} href=${write(`list/${resource}`, { phase: name })}
          class="state" data-tone=${tone(name)} data-word=${name} data-empty=${counts[name] ? undefined : 'yes'}>
        <rect x=${x - W / 2} y=${y - H / 2} width=${W} height=${H} rx="8" />
        <text class="number" x=${x + W / 2 - 10} y=${y - 5} text-anchor="end">${counts[name] || 0} </text>
        <text class="name" x=${x - W / 2 + 10} y=${y - 6} aria-hidden="true">${mark(name)}</text>
        <text class="name" x=${x - W / 2 + 26} y=${y - 6}>${name} </text>
        <text class="what" x=${x - W / 2 + 10} y=${y + 15}>${text}</text></a>`)}
    </svg></section>`;
}

const named = ({ metadata: { namespace, name } }) => (namespace ? `${namespace}/${name}` : name);

/** The recent transitions as text, newest first. */
function RecentChanges({ changes }) {
  return html`<section class="recent" aria-labelledby="recent-title"><h2 id="recent-title">Recent changes</h2>
    ${changes.length === 0 && html`<p class="fine">No volume or claim has changed its state since you opened this view.</p>`}
    ${changes.length > 0 && html`<ol>${changes.map((one) => html`<li key=${one.key}><span><a href=${link(one.object, one.resource)}>${named(one.object)}</a> ${one.from} → ${one.to}</span>
      <time datetime=${one.time}>${clockOf(Date.parse(one.time))}</time></li>`)}</ol>`}</section>`;
}

let keys = 0;

export function View() {
  const [, draw] = useReducer((n) => n + 1, 0);
  const [state] = useState(() => ({ lit: new Map(), passed: new Map(), changes: [], revision: null }));
  useEffect(() => {
    const looks = MACHINES.map(({ resource }) => ({ resource, moves: new Moves(), seen: null }));
    let timer = 0;
    const look = () => {
      // Objects of the initial state are not transitions.
      if (objects.synced === false) return;
      // Moving back in time shows no transitions.
      const revision = time.mode === 'live' ? null : Number(time.revision);
      const forward = revision === state.revision || (revision !== null && state.revision !== null && revision > state.revision);
      state.revision = revision;
      // A list is the same array until one of its objects changes.
      const others = looks.filter((one) => one.seen !== objects.list(one.resource));
      if (!others.length) return;
      for (const one of others) {
        const { resource, moves } = one;
        one.seen = objects.list(resource);
        if (!forward) moves.forget();
        for (const move of moves.look(one.seen)) {
          const key = `${resource} ${move.from} ${move.to}`;
          state.lit.set(key, performance.now() + LIT);
          state.passed.set(key, (state.passed.get(key) || 0) + 1);
          state.changes.unshift({ ...move, resource, key: (keys += 1), time: new Date(time.now()).toISOString() });
        }
      }
      state.changes.length = Math.min(state.changes.length, MAX_CHANGES);
      fade();
      draw();
    };
    const fade = () => {
      clearTimeout(timer);
      const now = performance.now();
      for (const [key, end] of state.lit) if (end <= now) state.lit.delete(key);
      if (!state.lit.size) return;
      timer = setTimeout(() => {
        fade();
        draw();
      }, Math.min(...state.lit.values()) - now + 20);
    };
    look();
    const end = objects.subscribe(look);
    return () => {
      end();
      clearTimeout(timer);
    };
  }, []);
  return html`<div class="machines">
    ${MACHINES.map((machine) => html`<${Machine} key=${machine.resource} machine=${machine} lit=${state.lit} passed=${state.passed} />`)}
    <${RecentChanges} changes=${state.changes} /></div>`;
}
