// The graph of objects and their references, as a canvas or as an accessible and searchable table. The model, the layout and the drawing
// are in graph/; this module connects them to the page.

import { html, useEffect, useMemo, useRef, useState } from '../vendor/preact.js';
import { objects } from '../state/objects.js';
import { references } from '../state/relations.js';
import { go, link } from '../route.js';
import { Countdowns } from '../parts/countdown.js';
import { Camera, TEXT, draw, hit, palette } from './graph/draw.js';
import { approach, layout, pin, some } from './graph/layout.js';
import { Model, addressOf, words } from './graph/model.js';

const TITLES = ['Pods', 'Claims', 'Volumes', 'Attachments', 'Nodes', 'Drivers, classes'];
// The layout time per frame of 16 ms, in milliseconds. The rest is for drawing and for the rest of the page.
const PIECE = 5;
// The model is updated after LAZY milliseconds or SHARE times the duration of the last update, whichever is longer, but no later than LONG
// milliseconds. A thousand objects are followed closely; tens of thousands take only a limited share of the page's time.
const LAZY = 30;
const LONG = 1000;
const SHARE = 10;
const SHAPES = { good: '●', wait: '◆', bad: '✕', free: '○', plain: '■' };
const LEGEND = [['good', 'healthy'], ['wait', 'waiting'], ['bad', 'needs attention'], ['free', 'not in use'], ['plain', 'no state']];
const ROWS = 200;
const HEAD = 26;

const still = () => matchMedia('(prefers-reduced-motion: reduce)').matches;

/** Draws one canvas. Idle until something changes. */
class Stage {
  model = new Model();
  camera = new Camera();
  plan = { columns: [], places: [], width: 0, height: 0 };
  work = null;
  kept = null;
  lit = null;
  at = null;
  over = null;
  fitted = false;
  moved = false;
  frames = [];
  #asked = 0;
  #dirty = true;
  #again = false;

  constructor(canvas, changed) {
    this.canvas = canvas;
    this.context = canvas.getContext('2d', { alpha: false });
    this.changed = changed;
    this.recolour();
    this.resize();
  }

  recolour() {
    this.colours = palette(this.canvas);
    this.wake();
  }

  resize() {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    const ratio = Math.min(2, devicePixelRatio || 1);
    Object.assign(this, { width, height, ratio });
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    if (this.plan.height && !this.moved) this.place();
    else this.camera.room(this.plan, width);
    // Setting the size clears the canvas: repaint before the next frame.
    this.paint();
  }

  /** Changes the displayed nodes: `kept` is the Set of their ids, or null for all. */
  show(kept, anew) {
    this.kept = kept;
    // Finish a running layout first: if every change restarted it, frequent changes would prevent it from ever finishing.
    if (this.work && !anew) this.#again = true;
    else this.work = layout(this.model, kept);
    if (anew) this.fitted = false;
    this.wake();
  }

  wake() {
    this.#dirty = true;
    if (!this.#asked) this.#asked = requestAnimationFrame(() => this.#frame());
  }

  stop() {
    cancelAnimationFrame(this.#asked);
    this.#asked = -1;
  }

  #frame() {
    this.#asked = 0;
    const begun = performance.now();
    if (this.work) {
      const plan = some(this.work, PIECE);
      if (plan) this.#take(plan);
      else this.wake();
    }
    if (approach(this.plan.columns, still() ? 1 : 0.3)) this.wake();
    if (this.#dirty) this.paint();
    if (this.work && !this.#asked) this.wake();
    this.frames.push(performance.now() - begun);
    if (this.frames.length > 600) this.frames.splice(0, 300);
  }

  #take(plan) {
    this.work = this.#again ? layout(this.model, this.kept) : null;
    this.#again = false;
    this.plan = plan;
    for (const column of plan.columns) for (const node of column) node.shown = plan;
    if (!this.fitted && plan.height) {
      this.fitted = true;
      this.moved = false;
      this.place();
    }
    this.camera.room(plan, this.width);
    if (this.at) this.at = this.model.nodes.get(this.at.id) || null;
    this.#dirty = true;
    this.changed();
  }

  /** Places the camera, unless the user has moved it. */
  place() {
    if (this.plan.height < 1.5 * this.height) this.camera.fit(this.plan, this.width, this.height);
    // If names would be illegible, show the top of the graph at a legible scale instead.
    if (this.plan.height >= 1.5 * this.height || this.camera.scale < TEXT) this.camera.top(this.plan, this.width);
  }

  paint() {
    this.#dirty = false;
    const { width, height, ratio, lit, at, over } = this;
    if (!width || !height) return;
    const { y, scale } = this.camera;
    pin(this.plan, y + HEAD / scale, y + height / scale);
    this.drawn = draw(this.context, this.plan, this.model, this.camera, this.colours, { width, height, ratio, lit, at, over, titles: TITLES });
  }

  fit() {
    this.moved = true;
    this.camera.fit(this.plan, this.width, this.height);
    this.wake();
  }

  zoom(factor, x = this.width / 2, y = this.height / 2) {
    this.moved = true;
    this.camera.zoom(factor, x, y);
    this.wake();
  }

  /** Returns the node that a key moves to. */
  step(key) {
    const { columns } = this.plan;
    if (!this.at || this.at.shown !== this.plan) return columns.find((column) => column.length)?.[0] || null;
    const column = columns[this.at.column];
    const index = column.indexOf(this.at);
    if (key === 'ArrowUp') return column[index - 1] || this.at;
    if (key === 'ArrowDown') return column[index + 1] || this.at;
    if (key === 'Home') return column[0];
    if (key === 'End') return column.at(-1);
    const side = key === 'ArrowLeft' ? -1 : 1;
    const near = [...this.at.near].map((id) => this.model.nodes.get(id)).filter((n) => n && n.shown === this.plan);
    const there = near.filter((n) => Math.sign(n.column - this.at.column) === side);
    // Prefer the adjacent column, and in it the nearest node.
    there.sort((a, b) => side * (a.column - b.column) || Math.abs(a.ty - this.at.ty) - Math.abs(b.ty - this.at.ty));
    return there[0] || this.at;
  }
}

/** One filter. */
function Choice({ name, label, value, names, set }) {
  return html`<label>${label}
    <select name=${name} value=${value || ''} onChange=${(event) => set(name, event.target.value)}>
      <option value="">all</option>
      ${names.map((each) => html`<option key=${each} value=${each}>${each}</option>`)}
      ${value && !names.includes(value) && html`<option value=${value}>${value}</option>`}
    </select></label>`;
}

/** The content of the canvas as a table. */
function Rows({ model, kept, follow }) {
  const [most, setMost] = useState(ROWS);
  const rows = [...model.nodes.values()].filter((node) => !kept || kept.has(node.id));
  rows.sort((a, b) => a.column - b.column || a.ty - b.ty);
  return html`<div class="graph-rows"><table>
    <caption>${rows.length} ${rows.length === 1 ? 'object' : 'objects'}${rows.length > most ? `, showing the first ${most}` : ''}</caption>
    <thead><tr><th scope="col">Kind</th><th scope="col">Name</th><th scope="col">State</th><th scope="col">Connected to</th></tr></thead>
    <tbody>${rows.slice(0, most).map((node) => html`<tr key=${node.id}>
      <td>${node.kind}</td>
      <th scope="row"><a href=${link(node.object)}>${node.label}</a></th>
      <td class="tone" data-tone=${node.tone}>${node.word && `${SHAPES[node.tone]} ${node.word}`}</td>
      <td>${[...node.near].slice(0, 8).map((id) => model.nodes.get(id)).filter(Boolean).map((other) => html`
        <button key=${other.id} class="link" onClick=${() => follow(other)}>${other.kind.toLowerCase()} ${other.label}</button> `)}
        ${node.near.size > 8 && `and ${node.near.size - 8} more`}</td>
    </tr>`)}</tbody></table>
    ${rows.length > most && html`<button onClick=${() => setMost(most + 5 * ROWS)}>Show more</button>`}</div>`;
}

/** Related objects, from the pod to the driver. */
function Chain({ model, node, unfollow }) {
  const chain = [...model.chain(node.id)].map((id) => model.nodes.get(id)).filter(Boolean);
  chain.sort((a, b) => a.column - b.column || (a.label < b.label ? -1 : 1));
  return html`<aside class="graph-chain" aria-label="Related objects">
    <header><h3>${node.kind} ${node.label}</h3><button onClick=${unfollow}>Show all</button></header>
    <ol>${chain.slice(0, 60).map((each) => html`<li key=${each.id}>
      <span class="kind">${each.kind}</span> <a href=${link(each.object)}>${each.label}</a>
      <span class="tone" data-tone=${each.tone}>${each.word && ` ${SHAPES[each.tone]} ${each.word}`}</span>
      <${Countdowns} object=${each.object} /></li>`)}</ol>
    ${chain.length > 60 && html`<p>and ${chain.length - 60} more</p>`}</aside>`;
}

const HELP = 'Up and down move between the objects of a column, left and right along edges. Enter opens an object, F shows only related objects, Escape shows all, plus and minus zoom, 0 fits the window.';

export function View({ route }) {
  const query = route?.query || {};
  const canvas = useRef(null);
  const stage = useRef(null);
  const [, redraw] = useState(0);
  const [said, say] = useState('');
  // Read `route` on each call, because the canvas keeps its first event handlers.
  const set = (name, value) => go('graph', { ...route?.query, [name]: value || undefined });
  const follow = (node) => set('follow', node ? addressOf(node) : '');

  // The query that selects the nodes. In a ref, because the stage outlives URL changes.
  const wanted = useRef(query);
  wanted.current = query;

  const choose = (anew) => {
    const { model } = stage.current;
    const node = model.find(wanted.current.follow);
    stage.current.follow = node || null;
    stage.current.show(node ? model.chain(node.id) : model.keep(wanted.current), anew);
    if (node && anew) {
      stage.current.at = node;
      stage.current.lit = null;
    }
  };

  useEffect(() => {
    const now = new Stage(canvas.current, () => redraw((n) => n + 1));
    stage.current = now;
    canvas.current.stage = now;
    let [timer, next, shape] = [0, 0, -1];
    const take = () => {
      timer = 0;
      const begun = performance.now();
      const changed = now.model.update(objects.list, references);
      next = begun + Math.min(LONG, Math.max(LAZY, SHARE * (performance.now() - begun)));
      if (!changed) return;
      // A new layout is needed only if nodes or edges have changed, or if the filter depends on the state.
      if (now.model.shape !== shape || wanted.current.phase) choose(shape === -1);
      shape = now.model.shape;
      now.wake();
      redraw((n) => n + 1);
    };
    const hear = () => {
      timer ||= setTimeout(take, Math.max(0, next - performance.now()));
    };
    take();
    const unsubscribe = objects.subscribe(hear);
    const sizes = new ResizeObserver(() => now.resize());
    sizes.observe(canvas.current);
    const recolour = () => now.recolour();
    const dark = matchMedia('(prefers-color-scheme: dark)');
    dark.addEventListener('change', recolour);
    const themes = new MutationObserver(recolour);
    themes.observe(document.documentElement, { attributes: true });
    return () => {
      unsubscribe();
      clearTimeout(timer);
      sizes.disconnect();
      themes.disconnect();
      dark.removeEventListener('change', recolour);
      now.stop();
    };
  }, []);

  const address = ['follow', 'ns', 'phase', 'class', 'node', 'driver', 'q'].map((key) => query[key] || '').join('\n');
  useEffect(() => {
    if (stage.current) choose(true);
  }, [address]);

  const look = (node) => {
    const now = stage.current;
    now.at = node;
    now.lit = node ? now.model.chain(node.id) : null;
    if (node) {
      now.moved = true;
      now.camera.reveal(node, now.width, now.height);
    }
    now.wake();
    say(node ? words(node, now.model) : '');
  };

  const keys = (event) => {
    const now = stage.current;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (['ArrowUp', 'ArrowDown', 'ArrowLeft', 'ArrowRight', 'Home', 'End'].includes(event.key)) look(now.step(event.key));
    else if (event.key === 'Enter' && now.at) location.hash = link(now.at.object);
    else if (event.key === 'f' && now.at) follow(now.at);
    else if (event.key === 'Escape' && query.follow) follow(null);
    else if (event.key === 'Escape') look(null);
    else if (event.key === '+' || event.key === '=') now.zoom(1.3);
    else if (event.key === '-') now.zoom(1 / 1.3);
    else if (event.key === '0') now.fit();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };

  usePointer(canvas, stage, { look, open: (node) => follow(node) });
  const model = stage.current?.model;
  const choices = useMemo(() => model?.choices(), [model?.version]);
  const { kept = null, follow: followed } = stage.current || {};
  return html`<section class="graph" aria-labelledby="graph-title">
    <header><h2 id="graph-title">Graph <span class="count">${kept ? `${kept.size} of ` : ''}${model?.nodes.size ?? 0}</span></h2>
      ${choices && html`<div class="graph-filters" role="group" aria-label="Filters">
        <${Choice} name="ns" label="Namespace" value=${query.ns} names=${choices.ns} set=${set} />
        <${Choice} name="phase" label="State" value=${query.phase} names=${choices.phase} set=${set} />
        <${Choice} name="class" label="Class" value=${query.class} names=${choices.class} set=${set} />
        <${Choice} name="node" label="Node" value=${query.node} names=${choices.node} set=${set} />
        <${Choice} name="driver" label="Driver" value=${query.driver} names=${choices.driver} set=${set} /></div>`}
    </header>
    <div class="graph-under"><p class="graph-legend">${LEGEND.map(([tone, text]) => html`<span key=${tone} class="tone" data-tone=${tone}>${SHAPES[tone]} ${text}</span> `)}</p>
      <div class="graph-tools"><button type="button" onClick=${() => stage.current.zoom(1.3)} aria-label="Zoom in">+</button>
        <button type="button" onClick=${() => stage.current.zoom(1 / 1.3)} aria-label="Zoom out">−</button>
        <button type="button" onClick=${() => stage.current.fit()}>Fit</button>
        <button type="button" aria-pressed=${String(query.as === 'table')} onClick=${() => set('as', query.as === 'table' ? '' : 'table')}>Show as table</button></div></div>
    <div class="graph-body">
      <canvas ref=${canvas} tabindex="0" role="application" aria-label="Graph of pods, claims, volumes, attachments and nodes"
        aria-describedby="graph-help" onKeyDown=${keys} hidden=${query.as === 'table'}></canvas>
      ${query.as === 'table' && model && html`<${Rows} model=${model} kept=${kept} follow=${follow} />`}
      ${followed && html`<${Chain} model=${model} node=${followed} unfollow=${() => follow(null)} />`}
    </div>
    <p id="graph-help" class="graph-help">${HELP}</p>
    <p class="graph-said" role="status">${said}</p>
  </section>`;
}

/** Handles mouse, pen and touch: drag, wheel and pinch. A click selects a node, and a double click follows it. */
function usePointer(canvas, stage, { look, open }) {
  useEffect(() => {
    const element = canvas.current;
    const fingers = new Map();
    let moved = 0;
    const place = (event) => {
      const box = element.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    const under = (event) => hit(stage.current.plan, stage.current.camera, ...place(event));
    const apart = () => {
      const [[ax, ay], [bx, by]] = [...fingers.values()];
      return { distance: Math.hypot(ax - bx, ay - by) || 1, middle: [(ax + bx) / 2, (ay + by) / 2] };
    };
    const down = (event) => {
      element.setPointerCapture(event.pointerId);
      fingers.set(event.pointerId, place(event));
      moved = 0;
    };
    const move = (event) => {
      const now = stage.current;
      if (!fingers.has(event.pointerId)) {
        const node = under(event);
        if (node !== now.over) {
          now.over = node;
          element.title = node ? words(node, now.model) : '';
          now.wake();
        }
        return;
      }
      const [before, [x, y]] = [fingers.get(event.pointerId), place(event)];
      const pinch = fingers.size === 2 && apart();
      fingers.set(event.pointerId, [x, y]);
      moved += Math.abs(x - before[0]) + Math.abs(y - before[1]);
      if (pinch) now.camera.zoom(apart().distance / pinch.distance, ...pinch.middle);
      else now.camera.pan(x - before[0], y - before[1]);
      now.moved = true;
      now.wake();
    };
    const up = (event) => {
      const pressed = fingers.delete(event.pointerId);
      if (pressed && event.type === 'pointerup' && moved < 5) look(under(event));
    };
    const twice = (event) => {
      const node = under(event);
      if (node) open(node);
    };
    const wheel = (event) => {
      event.preventDefault();
      // A wheel event is in lines or pixels. A pinch on a touchpad is a wheel event with Ctrl.
      const unit = event.deltaMode ? 30 : 1;
      if (event.ctrlKey || event.metaKey) stage.current.zoom(Math.exp(-event.deltaY * unit * 0.01), ...place(event));
      else stage.current.camera.pan(-event.deltaX * unit, -event.deltaY * unit);
      stage.current.moved = true;
      stage.current.wake();
    };
    const heard = { pointerdown: down, pointermove: move, pointerup: up, pointercancel: up, dblclick: twice };
    for (const [name, listener] of Object.entries(heard)) element.addEventListener(name, listener);
    element.addEventListener('wheel', wheel, { passive: false });
    return () => {
      for (const [name, listener] of Object.entries(heard)) element.removeEventListener(name, listener);
      element.removeEventListener('wheel', wheel);
    };
  }, []);
}
