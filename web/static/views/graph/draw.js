// Draws the graph on a canvas and finds the node under a point. Draws only the visible part, with one path per colour. This module knows
// only pixels; the model defines the meaning of states.

import { NODE, ROW, WIDTH } from './layout.js';
import { HUB } from './model.js';

const TONES = ['good', 'wait', 'bad', 'free', 'plain'];
const COLOURS = ['ground', 'sheet', 'ink', 'soft', 'line', 'accent', 'good', 'wait', 'bad', 'mark'];
const LEAST = 0.005;
// The smallest scale at which names are drawn.
export const TEXT = 0.55;
const FEW = 150;
const PATH = 50;
const MOST = 3;

/**
 * Returns the current theme colours. Custom properties are unresolved text such as `light-dark()`, so the colours are read from an element that
 * uses them.
 */
export function palette(element) {
  const probe = document.createElement('span');
  probe.hidden = true;
  element.parentElement.append(probe);
  const found = {};
  for (const name of COLOURS) {
    probe.style.color = `var(--${name})`;
    found[name] = getComputedStyle(probe).color;
  }
  found.font = getComputedStyle(element).fontFamily;
  probe.remove();
  return found;
}

/**
 * The visible part of the graph: a point (x, y) is drawn at `((x - camera.x) * wide, (y - camera.y) * scale)`. When zoomed out, the columns
 * still fill the available width; otherwise thousands of rows would shrink to a thin line.
 */
export class Camera {
  x = -20;
  y = -20;
  scale = 1;
  #least = 0;

  get wide() {
    return Math.max(this.scale, this.#least);
  }

  /** Sets the minimum width of the columns. */
  room(plan, width) {
    this.#least = Math.min(1, Math.max(0.1, (width - 40) / Math.max(1, plan.width)));
  }

  /** Zooms around the point (px, py). */
  zoom(factor, px, py) {
    const wide = this.wide;
    const scale = Math.min(MOST, Math.max(LEAST, this.scale * factor));
    this.y += py / this.scale - py / scale;
    this.scale = scale;
    this.x += px / wide - px / this.wide;
  }

  pan(dx, dy) {
    this.x -= dx / this.wide;
    this.y -= dy / this.scale;
  }

  /** Fits the whole graph into the canvas, with a scale of at most 1.2. */
  fit(plan, width, height) {
    this.room(plan, width);
    const scale = Math.min(1.2, (width - 40) / Math.max(1, plan.width), (height - 50) / Math.max(1, plan.height));
    this.scale = Math.max(LEAST, scale);
    this.x = -(width / this.wide - plan.width) / 2 + 10;
    this.y = -(Math.max(0, (height - 26) / this.scale - plan.height) / 2) - (26 + ROW / 2) / this.scale;
  }

  /** Shows the top of the graph in full width, at a scale at which names are legible. */
  top(plan, width) {
    this.room(plan, width);
    this.scale = Math.min(1, Math.max(0.62, this.#least));
    // If the graph is too wide, align it to the left.
    this.x = Math.min(-20 / this.wide, -(width / this.wide - plan.width) / 2 + 10);
    this.y = -40 / this.scale;
  }

  /** Moves the camera as little as possible until the node is visible. */
  reveal(node, width, height) {
    const margin = 3 * ROW;
    const [right, low] = [width / this.wide, height / this.scale];
    this.y = Math.min(Math.max(this.y, node.ty + margin - low), node.ty - margin);
    this.x = Math.min(Math.max(this.x, node.tx + NODE + 20 - right), node.tx - 20);
  }
}

/** Returns the index of the first node of a column at or below `y`. Columns are sorted by y. */
function first(column, y) {
  let [low, high] = [0, column.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (column[middle].y < y) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Returns the node under a point of the canvas, or null. */
export function hit(plan, camera, px, py) {
  const [x, y] = [camera.x + px / camera.wide, camera.y + py / camera.scale];
  // Touch input and small scales need a larger target than the symbol itself.
  const slack = Math.max(ROW / 2, 6 / camera.scale);
  for (let index = 0; index < plan.columns.length; index += 1) {
    const column = plan.columns[index];
    if (!column.length || x < plan.places[index] - 12 / camera.wide || x > plan.places[index] + NODE) continue;
    let best = null;
    for (let i = first(column, y - slack); i < column.length && column[i].y <= y + slack; i += 1) {
      if (!best || Math.abs(column[i].y - y) < Math.abs(best.y - y)) best = column[i];
    }
    if (best) return best;
  }
  return null;
}

/** Draws a distinct shape for each tone, so that tones are distinguishable without colours. */
function shape(context, tone, x, y, r) {
  switch (tone) {
    case 'good':
      context.moveTo(x + r, y);
      context.arc(x, y, r, 0, 2 * Math.PI);
      break;
    case 'wait':
      context.moveTo(x, y - r * 1.2);
      context.lineTo(x + r * 1.2, y);
      context.lineTo(x, y + r * 1.2);
      context.lineTo(x - r * 1.2, y);
      context.closePath();
      break;
    case 'bad':
      for (const [dx, dy] of [[1, 1], [1, -1]]) {
        context.moveTo(x - dx * r, y - dy * r);
        context.lineTo(x + dx * r, y + dy * r);
      }
      break;
    case 'free':
      context.moveTo(x + r * 0.8, y);
      context.arc(x, y, r * 0.8, 0, 2 * Math.PI);
      break;
    default:
      context.rect(x - r * 0.8, y - r * 0.8, r * 1.6, r * 1.6);
  }
}

const stroked = (tone) => tone === 'bad' || tone === 'free';

/** Truncates text to the width of a node. Results are cached. */
const cuts = new Map();
function cut(context, text, room, size) {
  const key = `${room} ${size} ${text}`;
  let found = cuts.get(key);
  if (found === undefined) {
    found = text;
    if (context.measureText(text).width > room) {
      let [low, high] = [1, text.length];
      while (low < high) {
        const middle = (low + high + 1) >> 1;
        // Keep the end of the name, because it distinguishes names better than the start.
        if (context.measureText(`…${text.slice(-middle)}`).width > room) high = middle - 1;
        else low = middle;
      }
      found = `…${text.slice(-low)}`;
    }
    if (cuts.size > 20000) cuts.clear();
    cuts.set(key, found);
  }
  return found;
}

/**
 * Draws the graph. `lit` is the Set of highlighted ids (other nodes fade), or null; `at` is the node with the keyboard focus, `over` the node
 * under the pointer. Returns the numbers of nodes and edges drawn.
 */
export function draw(context, plan, model, camera, colours, { width, height, ratio, lit, at, over, titles }) {
  const { scale } = camera;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.fillStyle = colours.sheet;
  context.fillRect(0, 0, width, height);
  const seen = {
    camera, scale, colours, lit, at, over, plan, top: camera.y - ROW, low: camera.y + height / scale + ROW, text: scale >= TEXT,
    radius: Math.max(2, Math.min(8, 5 * scale)), counts: { nodes: 0, edges: 0 },
  };
  edges(context, model, seen);
  nodes(context, seen);
  heads(context, plan, camera, { width, titles, colours });
  return seen.counts;
}

function edges(context, model, { camera, plan, scale, top, low, lit, at, colours, counts, text, radius }) {
  const bright = new Path2D();
  // One path of thousands of crossing lines costs far more than many short paths.
  const dims = [new Path2D()];
  let inPath = 0;
  // When zoomed out, many edges coincide: draw edges with approximately the same ends once.
  const afar = scale < 0.3;
  const drawn = new Set();
  const { wide } = camera;
  const after = text ? (NODE - 14) * wide : radius + 2;
  for (const { a, b } of model.edges) {
    if (Number.isNaN(a.y) || Number.isNaN(b.y) || a.shown !== plan || b.shown !== plan) continue;
    if ((a.y < top && b.y < top) || (a.y > low && b.y > low)) continue;
    // Pinned nodes are always visible: draw their edges only if the other end is visible.
    if (plan.pinned && b.column >= HUB && (a.y < top || a.y > low)) continue;
    // Edges that skip a column (a pod and its node, a claim and its class) are drawn only for the selected node.
    if (b.column - a.column > 1 && a !== at && b !== at) continue;
    const on = lit && lit.has(a.id) && lit.has(b.id);
    const [ay, by] = [(a.y - camera.y) * scale, (b.y - camera.y) * scale];
    if (afar && !on) {
      const key = (a.column * 4096 + Math.round(ay / (Math.abs(ay - by) < 4 ? 2 : 6))) * 4096 + Math.round(by / 6);
      if (drawn.has(key)) continue;
      drawn.add(key);
    }
    if (!on && ++inPath % PATH === 0) dims.push(new Path2D());
    const path = on ? bright : dims.at(-1);
    counts.edges += 1;
    const to = (b.x - camera.x) * wide - radius - 4;
    if (a.column === b.column) {
      path.moveTo(to, ay);
      path.bezierCurveTo(to - 30, ay, to - 30, by, to, by);
      continue;
    }
    const x = (a.x - camera.x) * wide + after;
    path.moveTo(x, ay);
    if (scale < 0.2 || ay === by) path.lineTo(to, by);
    else path.bezierCurveTo((x + to) / 2, ay, (x + to) / 2, by, to, by);
  }
  context.strokeStyle = colours.soft;
  context.globalAlpha = lit ? 0.12 : Math.max(0.15, Math.min(0.4, scale));
  context.lineWidth = 1;
  for (const dim of dims) context.stroke(dim);
  context.globalAlpha = 1;
  if (!lit) return;
  context.strokeStyle = colours.accent;
  context.lineWidth = 2;
  context.stroke(bright);
}

function nodes(context, { camera, plan, scale, top, low, lit, at, over, colours, counts, text, radius }) {
  const seen = [];
  const { wide } = camera;
  const sorts = TONES.map(() => [new Path2D(), new Path2D()]);
  const place = (node) => [(node.x - camera.x) * wide, (node.y - camera.y) * scale];
  for (const column of plan.columns) {
    let before = -Infinity;
    for (let i = first(column, top); i < column.length && column[i].y <= low; i += 1) {
      const node = column[i];
      const [x, y] = place(node);
      // Draw only one of the nodes in the same pixel, but always draw those that need attention.
      if (y - before < 1 && node.tone !== 'bad') continue;
      before = y;
      seen.push(node);
      shape(sorts[TONES.indexOf(node.tone)][lit && !lit.has(node.id) ? 1 : 0], node.tone, x, y, radius);
    }
  }
  counts.nodes = seen.length;
  sorts.forEach((paths, index) => {
    const tone = TONES[index];
    const colour = colours[tone === 'free' ? 'accent' : tone === 'plain' ? 'soft' : tone];
    paths.forEach((path, faded) => {
      context.globalAlpha = faded ? 0.2 : 1;
      if (stroked(tone)) {
        context.strokeStyle = colour;
        context.lineWidth = Math.max(1.5, radius / 2.2);
        context.stroke(path);
      } else {
        context.fillStyle = colour;
        context.fill(path);
      }
    });
  });
  context.globalAlpha = 1;
  for (const [node, colour] of [[over, colours.soft], [at, colours.accent]]) {
    if (!node || node.shown !== plan) continue;
    const [x, y] = place(node);
    const half = Math.max(6, 10 * scale);
    context.strokeStyle = colour;
    context.lineWidth = 2;
    context.strokeRect(x - half - 1, y - half, text ? NODE * wide : 2 * half + 2, 2 * half);
  }
  if (text) labels(context, seen, { camera, lit, colours, place, scale, radius });
}

function labels(context, seen, { camera, lit, colours, place, scale, radius }) {
  const size = Math.round(Math.max(11, Math.min(18, 12 * scale)));
  const room = Math.round((NODE - 26) * camera.wide);
  context.font = `${size}px ${colours.font}`;
  context.textBaseline = 'middle';
  context.fillStyle = colours.ink;
  // Outline names, so that they stay legible where edges cross them.
  context.strokeStyle = colours.sheet;
  context.lineWidth = 3;
  for (const faded of [true, false]) {
    context.globalAlpha = faded ? 0.3 : 1;
    for (const node of seen) {
      if (Boolean(lit && !lit.has(node.id)) !== faded) continue;
      const [x, y] = place(node);
      const words = cut(context, node.label, room, size);
      if ((lit && !faded) || seen.length < FEW) context.strokeText(words, x + radius + 6, y + 0.5);
      context.fillText(words, x + radius + 6, y + 0.5);
    }
  }
  context.globalAlpha = 1;
}

/** Draws the column titles, which stay at the top. */
function heads(context, plan, camera, { width, titles, colours }) {
  context.fillStyle = colours.sheet;
  context.globalAlpha = 0.9;
  context.fillRect(0, 0, width, 24);
  context.globalAlpha = 1;
  context.fillStyle = colours.soft;
  context.font = `600 12px ${colours.font}`;
  context.textBaseline = 'middle';
  plan.columns.forEach((column, index) => {
    if (!column.length) return;
    const room = Math.round(Math.max(20, WIDTH * camera.wide - 8));
    context.fillText(cut(context, titles[index], room, 12), (plan.places[index] - camera.x) * camera.wide - 8, 12);
  });
}
