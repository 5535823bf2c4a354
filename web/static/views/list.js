// The list of all objects of a kind. Only the visible rows are in the document, so that long lists scroll smoothly.

import { Component, html, useEffect, useLayoutEffect, useMemo, useReducer, useRef, useState } from '../vendor/preact.js';
import { kindOf } from '../state/kinds.js';
import { objects } from '../state/objects.js';
import { adjust, link, write } from '../route.js';
import { Age, Badge } from '../parts/components.js';
import { useObjects } from '../parts/hooks.js';
import { visible } from '../parts/yaml.js';
import { FACET_NAMES, columnsOf, facets, filtered, sorted } from './columns.js';

const ROW = 36;
const ROW_ON_PHONE = 64;
const MORE = 8;
// Lists with more than MANY objects are filtered and sorted at most once per LAZY milliseconds.
const MANY = 2000;
const LAZY = 250;
// The maximum length of a value in a cell, in characters.
const LONGEST = 500;

const phone = globalThis.matchMedia?.('(max-width: 46rem)');

/** Returns the scroll position and the height of the visible part. */
function useWindow(ref) {
  const [seen, see] = useState({ top: 0, height: 800, phone: phone?.matches });
  useLayoutEffect(() => {
    // Rows are added in steps: scrolling within a step renders nothing.
    const look = () => {
      const step = (MORE / 2) * (phone?.matches ? ROW_ON_PHONE : ROW);
      const top = Math.floor((ref.current?.scrollTop || 0) / step) * step;
      const height = (ref.current?.clientHeight || 800) + step;
      see((before) => (before.top === top && before.height === height && before.phone === phone?.matches ? before : { top, height, phone: phone?.matches }));
    };
    if (!ref.current) return undefined;
    const watcher = new ResizeObserver(look);
    watcher.observe(ref.current);
    phone?.addEventListener('change', look);
    ref.current.addEventListener('scroll', look, { passive: true });
    return () => {
      watcher.disconnect();
      phone?.removeEventListener('change', look);
    };
  }, []);
  return seen;
}

/** Returns the objects of a kind. Updates of long lists are delayed. */
function useList(id) {
  useObjects();
  const [, draw] = useReducer((count) => count + 1, 0);
  const kept = useRef({ id: '', list: [], at: 0 });
  const list = objects.list(id);
  const now = performance.now();
  const wait = kept.current.id === id && list.length > MANY ? kept.current.at + LAZY - now : 0;
  const late = list !== kept.current.list && wait > 0;
  if (list !== kept.current.list && !late) kept.current = { id, list, at: now };
  useEffect(() => {
    if (!late) return undefined;
    const timer = setTimeout(draw, wait);
    return () => clearTimeout(timer);
  });
  return kept.current.list;
}

/**
 * Keeps the focus on an object when its row moves. Returns the object's index, or -1 if no row has the focus. When the object is deleted, the
 * focus moves to the row that takes its place.
 */
function useFocus(ref, rows) {
  const drawn = useRef([]);
  const active = ref.current?.contains(document.activeElement) ? document.activeElement.dataset.index : undefined;
  const held = active === undefined ? null : drawn.current[Number(active)];
  const at = useMemo(() => (held ? rows.findIndex((one) => one.metadata.uid === held.metadata.uid) : -1), [held?.metadata.uid, rows]);
  useLayoutEffect(() => {
    drawn.current = rows;
    if (!held || document.activeElement !== document.body) return;
    const to = at < 0 ? Math.min(Number(active), rows.length - 1) : at;
    (ref.current?.querySelector(`a[data-index="${to}"]`) || ref.current)?.focus({ preventScroll: true });
  });
  return at;
}

/** Returns the text for screen readers. It is updated when the filters change, not when objects are created or deleted. */
function useSaid(words, filters) {
  const [said, say] = useState('');
  const first = useRef(true);
  useEffect(() => {
    if (!first.current) say(words);
    first.current = false;
  }, [filters]);
  return said;
}

function Header({ columns, order }) {
  const sort = (id) => adjust({ sort: order === id ? `-${id}` : order === `-${id}` ? '' : id });
  return html`<div role="rowgroup" class="head"><div role="row" aria-rowindex="1" class="row">
    ${columns.map((one) => {
      const way = order === one.id ? 'ascending' : order === `-${one.id}` ? 'descending' : 'none';
      return html`<div role="columnheader" aria-sort=${way} key=${one.id}>
        <button type="button" onClick=${() => sort(one.id)}>${one.name}<span aria-hidden="true">${{ ascending: ' ▲', descending: ' ▼', none: '' }[way]}</span></button>
      </div>`;
    })}
  </div></div>`;
}

/** A row. Renders again only when its object or position changes. */
class Row extends Component {
  shouldComponentUpdate(next) {
    return ['object', 'columns', 'index', 'height'].some((name) => next[name] !== this.props[name]);
  }
  render({ object, columns, index, height }) {
    return html`<div role="row" class="row" aria-rowindex=${index + 2} style=${{ top: `${index * height}px` }}>
      ${columns.map((one) => {
        const value = one.read(object);
        const cell = one.opens
          ? html`<a href=${link(object)} data-index=${index}>${value || object.metadata.name}</a>`
          : one.phase ? html`<${Badge} word=${value} />` : one.time ? html`<${Age} at=${value} />` : visible(value.slice(0, LONGEST));
        return html`<div role=${one.opens ? 'rowheader' : 'cell'} key=${one.id} data-label=${one.name} title=${one.time || one.phase ? null : value.slice(0, LONGEST)}>${cell}</div>`;
      })}
    </div>`;
  }
}

function Filters({ all, query, filters }) {
  const found = useMemo(() => facets(all, query), [all, filters]);
  const any = ['q', ...Object.keys(FACET_NAMES)].some((name) => query[name]);
  return html`<div class="filters" role="search" aria-label="List filters">
    <label><span>Filter</span>
      <input type="search" id="filter" value=${query.q || ''} placeholder="words, -word" title="Words to match; -word excludes" autocomplete="off" spellcheck=${false}
        onInput=${(event) => adjust({ q: event.target.value })} /></label>
    ${Object.entries(found).map(([name, values]) => html`<label key=${name}><span>${FACET_NAMES[name]}</span>
      <select value=${query[name] || ''} onChange=${(event) => adjust({ [name]: event.target.value })}>
        <option value="">all</option>
        ${values.map((value) => html`<option value=${value} key=${value} selected=${value === query[name]}>${value}</option>`)}
      </select></label>`)}
    ${any && html`<button type="button" onClick=${() => adjust({ q: '', ns: '', phase: '', class: '', node: '', driver: '' })}>Clear</button>`}
  </div>`;
}

export function View({ route }) {
  const kind = kindOf(route.parts[0]);
  const { query } = route;
  const ref = useRef(null);
  const seen = useWindow(ref);
  const id = kind?.id || route.parts[0] || '';
  const columns = columnsOf(id);
  const all = useList(id);
  const filters = JSON.stringify([query.q, query.ns, query.phase, query.class, query.node, query.driver, query.sort]);
  const rows = useMemo(() => sorted(filtered(all, columns, query), columns, query.sort || (id === 'events' ? 'age' : '')), [all, id, filters]);

  useEffect(() => {
    if (ref.current) ref.current.scrollTop = 0;
  }, [id, filters]);

  const height = seen.phone ? ROW_ON_PHONE : ROW;
  const first = Math.max(0, Math.floor(seen.top / height) - MORE);
  const last = Math.min(rows.length, Math.ceil((seen.top + seen.height) / height) + MORE);
  const at = useFocus(ref, rows);
  // The visible rows and the focused one, in one array, because a row that is created again loses the focus.
  const shown = Array.from({ length: Math.max(0, last - first) }, (_, index) => first + index);
  if (at >= 0 && at < first) shown.unshift(at);
  if (at >= last) shown.push(at);
  const number = rows.length === all.length ? `${all.length}` : `${rows.length} of ${all.length}`;
  const said = useSaid(number, filters);
  const row = (index) => html`<${Row} key=${rows[index].metadata.uid} object=${rows[index]} columns=${columns} index=${index} height=${height} />`;

  /** Moves the focus by keyboard, including to rows that are not in the document yet. */
  const move = (event) => {
    const at = Number(document.activeElement?.dataset.index ?? -1);
    const page = Math.max(1, Math.floor(ref.current.clientHeight / height) - 1);
    const to = { j: at + 1, ArrowDown: at + 1, k: at - 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: rows.length - 1 }[event.key];
    if (to === undefined || event.ctrlKey || event.metaKey || event.altKey || !rows.length) return;
    event.preventDefault();
    event.stopPropagation();
    const next = Math.min(rows.length - 1, Math.max(0, to));
    const top = next * height;
    const box = ref.current;
    if (top < box.scrollTop) box.scrollTop = top;
    else if (top + height * 2 > box.scrollTop + box.clientHeight) box.scrollTop = top + height * 2 - box.clientHeight;
    requestAnimationFrame(() => requestAnimationFrame(() => box.querySelector(`a[data-index="${next}"]`)?.focus({ preventScroll: true })));
  };

  if (!kind) return html`<h1 tabindex="-1">Kind not found</h1><p class="note">The page does not support the kind ${id}.</p>`;
  const makes = ['StorageClass', 'PersistentVolume', 'PersistentVolumeClaim', 'Pod'].includes(kind.kind);
  return html`<div class="list" style=${{ '--columns': columns.map((one) => one.width).join(' '), '--row': `${height}px` }}>
    <div class="title">
      <h1 tabindex="-1">${kind.title}</h1>
      <p class="soft">${number}</p><p class="hidden" role="status">${said}</p>
      ${makes && html`<a class="button" href=${write(`create/${kind.id}`, { ns: query.ns })}>New ${kind.kind}</a>`}
    </div>
    <${Filters} all=${all} query=${query} filters=${filters} />
    <div class="scroller" ref=${ref} tabindex="0" onKeyDown=${move} role="group" aria-label=${`${kind.title}: press j and k to move between rows`}>
      ${rows.length > 0 && html`<div role="table" aria-label=${kind.title} aria-rowcount=${rows.length + 1} aria-colcount=${columns.length}>
        <${Header} columns=${columns} order=${query.sort} />
        <div role="rowgroup" class="body" style=${{ height: `${rows.length * height}px` }}>
          ${shown.map(row)}
        </div>
      </div>`}
      ${rows.length === 0 && html`<p class="note">${!objects.synced ? 'Loading …' : all.length ? 'No objects match the filters.' : `There are no ${kind.title.toLowerCase()}.`}
        ${' '}${objects.synced && !all.length && makes && html`<a href=${write(`create/${kind.id}`)}>Create one</a>`}</p>`}
    </div>
  </div>`;
}
