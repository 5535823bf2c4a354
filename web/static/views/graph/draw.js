// Draws the graph on a canvas, and finds what is under a point. Only what is in sight is drawn; everything of one colour
// goes out as one path. What may be said here: pixels; what a state means is said in the model.

import { NODE, ROW, WIDTH } from './layout.js';
import { HUB } from './model.js';

const TONES = ['good', 'wait', 'bad', 'free', 'plain'];
const COLOURS = ['ground', 'sheet', 'ink', 'soft', 'line', 'accent', 'good', 'wait', 'bad', 'mark'];
const LEAST = 0.005;
// From this scale on there is room for names.
export const TEXT = 0.55;
const FEW = 150;
const PATH = 50;
const MOST = 3;

/**
 * The colours of the style as they are now. A custom property is only text, and may be a `light-dark()`; the colour of an
 * element is resolved.
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
 * What is seen of the world: a point (x, y) of it is at `((x - camera.x) * wide, (y - camera.y) * scale)`. Out far the columns
 * still have the width that there is: thousands of rows would else be a thread.
 */
export class Camera {
  x = -20;
  y = -20;
  scale = 1;
  #least = 0;

  get wide() {
    return Math.max(this.scale, this.#least);
  }

  /** How wide the columns are at least. */
  room(plan, width) {
    this.#least = Math.min(1, Math.max(0.1, (width - 40) / Math.max(1, plan.width)));
  }

  /** Keeps the point under (px, py) where it is. */
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

  /** Everything in sight, but no larger than as it is. */
  fit(plan, width, height) {
    this.room(plan, width);
    const scale = Math.min(1.2, (width - 40) / Math.max(1, plan.width), (height - 50) / Math.max(1, plan.height));
    this.scale = Math.max(LEAST, scale);
    this.x = -(width / this.wide - plan.width) / 2 + 10;
    this.y = -(Math.max(0, (height - 26) / this.scale - plan.height) / 2) - (26 + ROW / 2) / this.scale;
  }

  /** The whole width, and the top: text can be read, and the rest is below. */
  top(plan, width) {
    this.room(plan, width);
    this.scale = Math.min(1, Math.max(0.62, this.#least));
    // What does not go in begins at the left.
    this.x = Math.min(-20 / this.wide, -(width / this.wide - plan.width) / 2 + 10);
    this.y = -40 / this.scale;
  }

  /** The least movement after which the node is in sight. */
  reveal(node, width, height) {
    const margin = 3 * ROW;
    const [right, low] = [width / this.wide, height / this.scale];
    this.y = Math.min(Math.max(this.y, node.ty + margin - low), node.ty - margin);
    this.x = Math.min(Math.max(this.x, node.tx + NODE + 20 - right), node.tx - 20);
  }
}

/** Index of the first node of a column whose y is not above. Columns are sorted by y. */
function first(column, y) {
  let [low, high] = [0, column.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (column[middle].y < y) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The node under a point of the canvas; null when there is none. */
export function hit(plan, camera, px, py) {
  const [x, y] = [camera.x + px / camera.wide, camera.y + py / camera.scale];
  // A finger and a small scale need more than the shape itself.
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

/** One shape for each tone, so that colour is never needed to tell them apart. */
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

/** Text cut to the room of a node; measured once for each text. */
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
        // The end of a name tells more than its start.
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
 * Draws. `lit` is the Set of ids that stand out (the others fade), or null; `at` is the node with the keyboard, `over` the
 * one under the pointer. Returns how many nodes and edges were drawn.
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
  // A path of thousands of lines that cross each other costs far more than many short ones.
  const dims = [new Path2D()];
  let inPath = 0;
  // From afar many edges fall together: those from about here to about there are drawn once.
  const afar = scale < 0.3;
  const drawn = new Set();
  const { wide } = camera;
  const after = text ? (NODE - 14) * wide : radius + 2;
  for (const { a, b } of model.edges) {
    if (Number.isNaN(a.y) || Number.isNaN(b.y) || a.shown !== plan || b.shown !== plan) continue;
    if ((a.y < top && b.y < top) || (a.y > low && b.y > low)) continue;
    // What is pinned is always in sight: its edges are drawn with their other end.
    if (plan.pinned && b.column >= HUB && (a.y < top || a.y > low)) continue;
    // What does not join neighbours (a pod and its node, a claim and its class) is drawn for whom one looks at.
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
      // Many in one pixel are as good as one of them; one that needs attention is never passed over.
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
  // Where an edge goes through a name, the name is read.
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

/** The names of the columns stay at the top. */
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
