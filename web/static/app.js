// The page: one table per kind, each following the API, and a panel for the object that is chosen.
// The address bar holds the choice (#/pods/default/web), so that it can be kept and sent.

import { follow } from '/ui/api.js';
import { KINDS } from '/ui/kinds.js';
import { Table } from '/ui/table.js';
import { toYaml } from '/ui/yaml.js';

const $ = (id) => document.getElementById(id);
// Worst first: the badge tells of the worst.
const STATES = ['offline', 'reconnecting', 'connecting', 'paused', 'live'];
// A browser has few connections for all its tabs, so a tab that nobody sees lets go of its own.
const HIDDEN_FOR = 5000;

const states = new Map(KINDS.map((kind) => [kind.id, 'connecting']));
const tables = new Map();
const follows = [];
let chosen = null;

function badge(id, state, text) {
  states.set(id, state);
  const worst = STATES.find((name) => [...states.values()].includes(name));
  const element = $('connection');
  if (element.dataset.state !== worst) {
    element.dataset.state = worst;
    element.textContent = worst;
  }
  element.title = worst === 'live' ? '' : text || element.title;
}

/** An object as it is shown: what servers note for themselves is left out. */
function shown(kind, object) {
  const { managedFields, ...metadata } = object.metadata;
  return { apiVersion: 'v1', kind: kind.kind, ...object, metadata };
}

function drawPanel() {
  for (const [id, table] of tables) table.select(chosen?.kind.id === id ? chosen.uid : null);
  $('panel').hidden = !chosen;
  document.body.classList.toggle('with-panel', Boolean(chosen));
  if (!chosen) return;
  const { kind, object } = chosen;
  const { namespace, name } = object.metadata;
  $('panel-title').textContent = `${kind.kind} ${namespace ? `${namespace}/` : ''}${name}`;
  $('panel-gone').hidden = !chosen.gone;
  $('panel-text').textContent = toYaml(shown(kind, object));
}

const link = (kind, { namespace, name }) =>
  `#/${[kind.id, ...(namespace ? [namespace] : []), name].map(encodeURIComponent).join('/')}`;

function choose(kind, object, from) {
  chosen = { kind, object, uid: object.metadata.uid, gone: false, from };
  drawPanel();
}

function open(kind, object, button) {
  choose(kind, object, button);
  history.replaceState(null, '', link(kind, object.metadata));
  $('panel-title').focus();
}

function close() {
  const back = chosen?.from;
  chosen = null;
  drawPanel();
  history.replaceState(null, '', location.pathname);
  if (back?.isConnected) back.focus();
}

/** Opens what the address bar names, as soon as it is known. */
function openFromAddress() {
  const [id, ...rest] = location.hash.replace(/^#\/?/, '').split('/').map(decodeURIComponent);
  const table = tables.get(id);
  if (!table || !rest.length) return;
  const name = rest.pop();
  const object = table.find(rest.pop() || '', name);
  if (object && chosen?.uid !== object.metadata.uid) choose(table.kind, object, null);
}

/** The panel follows its object. */
function followChosen(kind, type, object) {
  if (!chosen || chosen.kind !== kind || chosen.uid !== object.metadata.uid) return;
  chosen.object = object;
  chosen.gone = type === 'DELETED';
  drawPanel();
}

for (const kind of KINDS) {
  const table = new Table(kind, open);
  tables.set(kind.id, table);
  $('tables').append(table.section);
  follows.push(
    follow(kind.path, {
      state: (state, text) => badge(kind.id, state, text),
      reset(items) {
        table.reset(items);
        if (!chosen) openFromAddress();
        else if (chosen.kind === kind) {
          const now = table.objects.get(chosen.uid);
          followChosen(kind, now ? 'MODIFIED' : 'DELETED', now || chosen.object);
        }
      },
      event(type, object) {
        table.event(type, object);
        followChosen(kind, type, object);
      },
    }),
  );
}

$('filter').addEventListener('input', (event) => {
  for (const table of tables.values()) table.setFilter(event.target.value);
});
$('panel-close').addEventListener('click', close);
$('panel-copy').addEventListener('click', async () => {
  const button = $('panel-copy');
  await navigator.clipboard.writeText($('panel-text').textContent).then(
    () => (button.textContent = 'Copied'),
    () => (button.textContent = 'Not allowed'),
  );
  setTimeout(() => (button.textContent = 'Copy'), 1500);
});
document.addEventListener('keydown', (event) => {
  if (event.key === 'Escape' && chosen) close();
  if (event.key === '/' && !/^(input|textarea)$/i.test(event.target.tagName) && !event.ctrlKey && !event.metaKey) {
    event.preventDefault();
    $('filter').focus();
  }
});
window.addEventListener('hashchange', openFromAddress);

let hiding;
document.addEventListener('visibilitychange', () => {
  clearTimeout(hiding);
  if (document.hidden) hiding = setTimeout(() => follows.forEach((one) => one.pause()), HIDDEN_FOR);
  else follows.forEach((one) => one.resume());
});
setInterval(() => {
  for (const table of tables.values()) table.tick();
}, 5000);
