// Where the nodes of the graph are: columns by kind, rows so that what is chained lies in one row as far as there is
// room. Claims stand in the order of their names, so that nothing jumps when others come and go; all others are as near
// to their neighbours as their order allows. Pure, and done in pieces: `layout` is a generator that gives way after each
// piece of work.

import { COLUMNS, HUB } from './model.js';

export const ROW = 22;
export const WIDTH = 230;
export const NODE = 150;
const PIECE = 400;
const GAP = 0.6;

const byLabel = (a, b) => (a.label < b.label ? -1 : a.label > b.label ? 1 : 0);

/**
 * The rows nearest to `wanted` (ascending) that are one apart at least: pool adjacent violators, which gives the least
 * sum of squares in one pass.
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

/** Rows for what everybody shares, over all that there is; two apart where there is room for it, and never nearer than one. */
function even(number, last) {
  const each = Math.max(number * 2 <= last ? last / number : 1, 1.5);
  const start = (last - (number - 1) * each) / 2;
  return Array.from({ length: number }, (_, index) => start + index * each);
}

/** The mean row of those neighbours that have one. */
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
 * Gives `tx, ty` to all nodes in `kept` (all when null). Returns `{columns, width, height}` at the end: the nodes of each
 * column from top to bottom.
 */
export function* layout(model, kept) {
  const columns = Array.from({ length: COLUMNS }, () => []);
  let done = 0;
  for (const node of model.nodes.values()) {
    if (!kept || kept.has(node.id)) columns[node.column].push(node);
    if (++done % PIECE === 0) yield;
  }
  const rows = new Map();
  // Claims first: everything hangs on them.
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
    // What hangs on nothing comes below, by state and name.
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
 * Nodes, drivers and classes have edges from everywhere: where a plan is higher than what is seen, they are spread over what
 * is seen of it (from `top` to `low`), and go with it. Whether they do.
 */
export function pin(plan, top, low) {
  plan.pinned = plan.height > low - top;
  if (!plan.pinned) return false;
  const part = Math.min(1, Math.max(0, top / Math.max(1, plan.height - (low - top))));
  for (const column of plan.columns.slice(HUB)) {
    const each = Math.max(ROW, Math.min((low - top) / column.length, 3 * ROW));
    // More than there is room for: their start at the top of the plan, their end at its bottom.
    const start = top + (low - top - column.length * each) * part;
    column.forEach((node, index) => {
      node.y = start + (index + 0.5) * each;
      node.ty = node.y;
    });
  }
  return true;
}

/** Runs a generator for at most so many milliseconds; its answer, or null when there is more to do. */
export function some(work, milliseconds, now = () => performance.now()) {
  const end = now() + milliseconds;
  do {
    const { done, value } = work.next();
    if (done) return value;
  } while (now() < end);
  return null;
}

/**
 * Moves all nodes a part of the way to their places; whether any is still under way. New nodes start at their place: they
 * come from nowhere.
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
