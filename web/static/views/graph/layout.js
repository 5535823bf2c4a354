// The layout of the graph: one column per kind, and rows that align related nodes as far as there is space. Claims are sorted by name, so that
// nodes do not jump when objects are created or deleted; all other nodes are as close to their neighbours as their order allows. Pure.
// `layout` is a generator that yields after each piece of work.

import { COLUMNS, HUB } from './model.js';

export const ROW = 22;
export const WIDTH = 230;
export const NODE = 150;
const PIECE = 400;
const GAP = 0.6;

const byLabel = (a, b) => (a.label < b.label ? -1 : a.label > b.label ? 1 : 0);

/**
 * Returns the rows closest to `wanted` (ascending) with a distance of at least one. Uses the pool adjacent violators algorithm, which minimizes
 * the sum of squares in one pass.
 */
export function spread(wanted) {
  const blocks = [];
  for (let i = 0; i < wanted.length; i += 1) {
    let block = { sum: wanted[i] - i, count: 1 };
    while (blocks.length && blocks.at(-1).sum / blocks.at(-1).count >= block.sum / block.count) {
      const before = blocks.pop();
      block = { sum: before.sum + block.sum, count: before.count + block.count };
    }
    blocks.push(block);
  }
  const rows = [];
  for (const { sum, count } of blocks) {
    const start = sum / count;
    for (let i = 0; i < count; i += 1) rows.push(start + rows.length);
  }
  return rows;
}

/** Returns evenly distributed rows for shared nodes (nodes, drivers, classes), at least 1.5 rows apart. */
function even(number, last) {
  const each = Math.max(number * 2 <= last ? last / number : 1, 1.5);
  const start = (last - (number - 1) * each) / 2;
  return Array.from({ length: number }, (_, index) => start + index * each);
}

/** Returns the mean row of the neighbours that already have a row, or NaN. */
function pull(node, nodes, rows) {
  let [sum, count] = [0, 0];
  for (const id of node.near) {
    const row = rows.get(id);
    if (row === undefined || !nodes.has(id)) continue;
    sum += row;
    count += 1;
  }
  return count ? sum / count : NaN;
}

/**
 * Sets `tx` and `ty` of the nodes in `kept` (of all nodes if null). Finally returns `{columns, places, width, height}`: `columns` contains the
 * nodes of each column from top to bottom, `places` the x coordinate of each column.
 */
export function* layout(model, kept) {
  const columns = Array.from({ length: COLUMNS }, () => []);
  let done = 0;
  for (const node of model.nodes.values()) {
    if (!kept || kept.has(node.id)) columns[node.column].push(node);
    if (++done % PIECE === 0) yield;
  }
  const rows = new Map();
  // Place the claims first: all other positions depend on them.
  columns[1].sort(byLabel);
  let row = 0;
  columns[1].forEach((claim, index) => {
    if (index && columns[1][index - 1].namespace !== claim.namespace) row += GAP;
    rows.set(claim.id, row);
    row += 1;
  });
  yield;
  const bottom = row;
  let last = Math.max(0, row - 1);
  for (const column of [2, 0, 3, 4, 5]) {
    const tied = [];
    const loose = [];
    for (const node of columns[column]) {
      const wanted = pull(node, model.nodes, rows);
      if (Number.isNaN(wanted)) loose.push(node);
      else tied.push({ node, wanted });
      if (++done % PIECE === 0) yield;
    }
    tied.sort((a, b) => a.wanted - b.wanted || byLabel(a.node, b.node));
    const placed = column < HUB ? spread(tied.map((t) => t.wanted)) : even(tied.length + loose.length, last);
    yield;
    tied.forEach((t, index) => rows.set(t.node.id, placed[index]));
    // Nodes without placed neighbours follow below, sorted by state and name.
    loose.sort((a, b) => (a.word < b.word ? -1 : a.word > b.word ? 1 : byLabel(a, b)));
    let next = Math.max(column === 2 ? bottom + 1 : 0, tied.length ? placed[tied.length - 1] + 2 : 0);
    loose.forEach((node, index) => {
      rows.set(node.id, column < HUB ? next : placed[tied.length + index]);
      next += 1;
    });
    if (column < HUB) last = Math.max(last, loose.length ? next - 1 : 0, placed.at(-1) ?? 0);
    columns[column] = [...tied.map((t) => t.node), ...loose];
    yield;
  }
  let [top, end] = [Infinity, -Infinity];
  for (const value of rows.values()) {
    top = Math.min(top, value);
    end = Math.max(end, value);
  }
  if (top === Infinity) [top, end] = [0, 0];
  const used = columns.map((column, index) => (column.length ? index : -1)).filter((index) => index >= 0);
  const places = columns.map((_, index) => Math.max(0, used.indexOf(index)) * WIDTH);
  for (let index = 0; index < COLUMNS; index += 1) {
    for (const node of columns[index]) {
      node.tx = places[index];
      node.ty = (rows.get(node.id) - top) * ROW;
      if (++done % PIECE === 0) yield;
    }
  }
  const width = Math.max(0, used.length - 1) * WIDTH + NODE;
  return { columns, places, width, height: (end - top) * ROW + ROW };
}

/**
 * Nodes, drivers and classes have edges from all rows. If the layout is higher than the visible part (from `top` to `low`), distributes them over
 * the visible part, so that they move with it. Reports whether it did.
 */
export function pin(plan, top, low) {
  plan.pinned = plan.height > low - top;
  if (!plan.pinned) return false;
  const part = Math.min(1, Math.max(0, top / Math.max(1, plan.height - (low - top))));
  for (const column of plan.columns.slice(HUB)) {
    const each = Math.max(ROW, Math.min((low - top) / column.length, 3 * ROW));
    // If they do not fit, scroll them in proportion to the position in the layout.
    const start = top + (low - top - column.length * each) * part;
    column.forEach((node, index) => {
      node.y = start + (index + 0.5) * each;
      node.ty = node.y;
    });
  }
  return true;
}

/** Runs a generator for a number of milliseconds. Returns its result, or null if it has not finished. */
export function some(work, milliseconds, now = () => performance.now()) {
  const end = now() + milliseconds;
  do {
    const { done, value } = work.next();
    if (done) return value;
  } while (now() < end);
  return null;
}

/**
 * Moves all nodes part of the way to their target positions. Reports whether any node is still moving. New nodes start at their target position.
 */
export function approach(columns, part) {
  let moving = false;
  for (const column of columns) {
    for (const node of column) {
      const [dx, dy] = [node.tx - node.x, node.ty - node.y];
      if (Number.isNaN(dx) || Number.isNaN(dy) || part >= 1 || Math.abs(dx) + Math.abs(dy) < 0.5) {
        node.x = node.tx;
        node.y = node.ty;
      } else {
        node.x += dx * part;
        node.y += dy * part;
        moving = true;
      }
    }
  }
  return moving;
}
