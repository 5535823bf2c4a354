// One table of objects that changes before one's eyes. Objects in, rows out; no request is made here.

import { age } from '/ui/kinds.js';

// More rows than a person reads; the filter finds the others.
const MOST_ROWS = 500;

function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

/** What a filter looks at: all that the row shows. */
function words(kind, object) {
  return kind.columns.map((column) => (column.text ? column.text(object) : '')).join(' ').toLowerCase();
}

export class Table {
  /** `open(kind, object, button)` is called when a row is chosen; the button is where focus comes back to. */
  constructor(kind, open) {
    this.kind = kind;
    this.open = open;
    this.objects = new Map();
    this.rows = new Map();
    this.fresh = new Set();
    this.filter = [];
    this.listed = false;
    this.build();
  }

  build() {
    const { kind } = this;
    this.count = element('span', { className: 'count' });
    const title = element('h2', { id: `title-${kind.id}` }, `${kind.title} `, this.count);
    const heads = kind.columns.map((column) => element('th', { scope: 'col' }, column.name));
    this.body = element('tbody');
    this.table = element('table', {}, element('thead', {}, element('tr', {}, ...heads)), this.body);
    this.table.setAttribute('aria-labelledby', title.id);
    this.note = element('p', { className: 'note' });
    this.command = element('pre', { className: 'command', tabIndex: 0 });
    this.section = element('section', { id: kind.id }, title, this.table, this.note, this.command);
    this.section.setAttribute('aria-labelledby', title.id);
    this.draw();
  }

  /** All objects, after a list. */
  reset(items) {
    const before = this.objects;
    this.objects = new Map(items.map((object) => [object.metadata.uid, object]));
    for (const [uid, object] of this.objects) {
      const known = before.get(uid);
      if (this.listed && known?.metadata.resourceVersion !== object.metadata.resourceVersion) this.fresh.add(uid);
    }
    this.listed = true;
    this.later();
  }

  /** One change, from a watch. */
  event(type, object) {
    const { uid } = object.metadata;
    if (type === 'DELETED') {
      this.objects.delete(uid);
    } else {
      this.objects.set(uid, object);
      this.fresh.add(uid);
    }
    this.later();
  }

  setFilter(text) {
    this.filter = text.toLowerCase().split(/\s+/).filter(Boolean);
    this.later();
  }

  select(uid) {
    this.selected = uid;
    this.later();
  }

  find(namespace, name) {
    const fits = ({ metadata }) => metadata.name === name && (metadata.namespace || '') === namespace;
    return [...this.objects.values()].find(fits);
  }

  /** Draws once per frame, however many changes come. */
  later() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.draw();
    });
  }

  visible() {
    const { kind, filter } = this;
    let objects = [...this.objects.values()];
    if (filter.length) {
      objects = objects.filter((object) => {
        const text = words(kind, object);
        return filter.every((word) => text.includes(word));
      });
    }
    const key = ({ metadata }) => `${metadata.namespace || ''}/${metadata.name}`;
    const order = kind.newestFirst
      ? (a, b) => Date.parse(kind.newestFirst(b)) - Date.parse(kind.newestFirst(a)) || key(a).localeCompare(key(b))
      : (a, b) => key(a).localeCompare(key(b), undefined, { numeric: true });
    return objects.sort(order);
  }

  draw() {
    const objects = this.visible();
    const shown = objects.slice(0, MOST_ROWS);
    const total = this.objects.size;
    this.count.textContent = this.filter.length ? `${objects.length} of ${total}` : this.listed ? String(total) : '';

    const rows = new Map();
    for (const object of shown) {
      const { uid } = object.metadata;
      rows.set(uid, this.row(uid, object));
    }
    for (const [uid, row] of this.rows) if (!rows.has(uid)) row.element.remove();
    this.rows = rows;
    // Only what is out of place is moved: focus and selection stay where they are.
    let place = this.body.firstElementChild;
    for (const { element: row } of rows.values()) {
      if (row === place) place = place.nextElementSibling;
      else this.body.insertBefore(row, place);
    }
    this.fresh.clear();

    this.table.hidden = shown.length === 0;
    this.command.hidden = total !== 0 || !this.listed;
    if (!this.listed) this.note.textContent = 'Loading …';
    else if (total === 0) this.note.textContent = this.kind.empty;
    else if (shown.length === 0) this.note.textContent = 'Nothing fits the filter.';
    else if (objects.length > shown.length) this.note.textContent = `${shown.length} rows are shown. Filter to see others.`;
    this.note.hidden = this.listed && total !== 0 && shown.length !== 0 && objects.length === shown.length;
    if (!this.command.hidden) this.command.textContent = this.kind.command();
  }

  row(uid, object) {
    const row = this.rows.get(uid) || this.newRow(uid);
    if (row.version !== object.metadata.resourceVersion) {
      row.version = object.metadata.resourceVersion;
      this.kind.columns.forEach((column, index) => this.fill(row.cells[index], column, object));
    }
    row.element.classList.toggle('selected', uid === this.selected);
    if (this.fresh.has(uid)) {
      row.element.classList.remove('fresh');
      // Reading a size makes the browser notice that the class was gone, so that the highlight starts again.
      void row.element.offsetWidth;
      row.element.classList.add('fresh');
    }
    return row;
  }

  newRow(uid) {
    const cells = this.kind.columns.map((column) => {
      const cell = element(column.opens ? 'th' : 'td');
      if (column.opens) {
        cell.scope = 'row';
        cell.append(element('button', { type: 'button', className: 'link' }));
      }
      if (column.wide) cell.className = 'wide';
      cell.dataset.label = column.name;
      return cell;
    });
    const row = element('tr', {}, ...cells);
    row.addEventListener('click', () => {
      // Who marks text wants to copy it.
      if (!String(getSelection())) this.open(this.kind, this.objects.get(uid), row.querySelector('button'));
    });
    return { element: row, cells, version: null };
  }

  fill(cell, column, object) {
    if (column.time) {
      cell.dataset.time = column.time(object) || '';
      cell.title = cell.dataset.time;
      cell.textContent = age(cell.dataset.time);
      return;
    }
    const text = column.text(object);
    const target = column.opens ? cell.firstChild : cell;
    if (target.textContent === text) return;
    const changed = target.textContent !== '';
    target.textContent = text;
    if (!column.phase) return;
    cell.className = changed ? 'phase changed' : 'phase';
    cell.dataset.phase = text;
  }

  /** Time goes on without events. */
  tick() {
    for (const { cells } of this.rows.values()) {
      for (const cell of cells) if (cell.dataset.time) cell.textContent = age(cell.dataset.time);
    }
  }
}
