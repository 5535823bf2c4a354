// The API reference: displays and searches /openapi/v3, and sends GET requests.
// The URL fragment selects what is displayed: #/api/v1/pods is a resource, #/schema/api/v1/NAME a schema.

import { element, fields, resolve, short, typeName } from '/ui/schema.js';
import { request, session } from '/ui/session.js';
import { tryForm } from '/ui/try.js';
import '/ui/parts/settings.js';

const $ = (id) => document.getElementById(id);
const METHODS = ['get', 'post', 'put', 'patch', 'delete'];
const ACTIONS = {
  list: 'list', get: 'read', post: 'create', put: 'replace', patch: 'change', delete: 'delete',
  deletecollection: 'delete several',
};
/** Deprecated operations: lists with the parameter `watch` replace them. */
const WATCHES = ['watch', 'watchlist'];
const MOST_FOUND = 100;

/** OpenAPI documents by path, such as `api/v1`. */
const documents = new Map();
/** The resources of all documents by `path/resource`, each with its name and operations. */
const resources = new Map();
let entries = [];

async function json(url) {
  const response = await request(url, { headers: { Accept: 'application/json' } });
  if (session.required) throw new Error('This server requires credentials. Sign in on the page /ui/ in this tab, then return to this page.');
  if (!response.ok) throw new Error(`${url}: ${response.status} ${response.statusText}`);
  return response.json();
}

/** Whether the document describes only the paths that list groups and versions. */
const isDiscovery = (path) => /^(api|apis|apis\/[^/]+)$/.test(path);
const isGroup = (path) => /^apis?\//.test(path);
const groupTitle = (path) => (isGroup(path) ? path.replace(/^api\//, 'core/').replace(/^apis\//, '') : 'this server');

/**
 * Returns the resource that a path belongs to; for paths outside API groups, the tag of the operation; '' for the path that lists the
 * resources of a group.
 */
function owner(docPath, path, operation) {
  if (!isGroup(docPath)) return operation.tags?.[0] || docPath;
  return path.slice(docPath.length + 2).replace(/^namespaces\/\{namespace\}\//, '').split('/')[0];
}

function take(docPath, doc) {
  documents.set(docPath, doc);
  for (const [path, item] of Object.entries(doc.paths || {})) {
    for (const method of METHODS) {
      const operation = item[method];
      if (!operation) continue;
      const plural = owner(docPath, path, operation);
      if (!plural || WATCHES.includes(operation['x-kubernetes-action'])) continue;
      const key = `${docPath}/${plural}`;
      if (!resources.has(key)) resources.set(key, { docPath, plural, title: plural, operations: [] });
      const resource = resources.get(key);
      const parameters = [...(item.parameters || []), ...(operation.parameters || [])];
      resource.operations.push({ path, method, operation, parameters });
      if (path.endsWith('/{name}') && isGroup(docPath)) {
        resource.title = operation['x-kubernetes-group-version-kind']?.kind || plural;
      }
    }
  }
}

/** Builds the search index: kinds, operations and fields. */
function index() {
  const kinds = [];
  const operations = [];
  const names = [];
  const seen = new Set();
  for (const [key, { title, plural, docPath, operations: all }] of resources) {
    kinds.push({ label: title, note: `${plural}, ${groupTitle(docPath)}`, link: `#/${key}` });
    for (const { path, method } of all) operations.push({ label: `${method.toUpperCase()} ${path}`, note: '', link: `#/${key}` });
  }
  for (const [docPath, doc] of documents) {
    for (const [name, schema] of Object.entries(doc.components?.schemas || {})) {
      if (seen.has(name)) continue;
      seen.add(name);
      for (const [property, of] of Object.entries(schema.properties || {})) {
        names.push({ label: `${short(name)}.${property}`, note: of.description || '', link: `#/schema/${docPath}/${name}` });
      }
    }
  }
  return [...kinds, ...operations, ...names];
}

function search() {
  const words = $('search').value.toLowerCase().split(/\s+/).filter(Boolean);
  $('found').hidden = !words.length;
  $('article').hidden = Boolean(words.length);
  if (!words.length) return;
  const inLabel = [];
  const inNote = [];
  for (const entry of entries) {
    const label = entry.label.toLowerCase();
    const both = `${label} ${entry.note.toLowerCase()}`;
    if (words.every((word) => label.includes(word))) inLabel.push(entry);
    else if (words.every((word) => both.includes(word))) inNote.push(entry);
  }
  const found = [...inLabel, ...inNote];
  const rows = found.slice(0, MOST_FOUND).map(({ label, note, link }) =>
    element('li', {}, element('a', { href: link }, element('code', {}, label)), element('p', { className: 'note' }, note)),
  );
  const more = found.length > rows.length ? `, showing the first ${rows.length}` : '';
  $('found').replaceChildren(element('h2', {}, `${found.length} ${found.length === 1 ? 'result' : 'results'}${more}`), element('ul', { className: 'fields' }, ...rows));
}

/** A collapsed section whose content is rendered when it is first opened. */
function folded(summary, className, make) {
  const details = element('details', { className }, element('summary', {}, ...summary));
  details.addEventListener('toggle', () => details.append(element('div', {}, ...make())), { once: true });
  return details;
}

const heading = (text) => element('h3', {}, text);

function schemaPart(doc, title, schema) {
  const name = element('p', {}, element('span', { className: 'type' }, typeName(schema)));
  const options = schema.anyOf || [schema];
  const trees = options.map((one) => folded([typeName(one)], '', () => [fields(doc, one)]));
  return [heading(title), ...(resolve(doc, options[0]).properties ? trees : [name])];
}

function operationBody(doc, { path, method, operation, parameters }) {
  const parts = [];
  if (operation.description) parts.push(element('p', { className: 'note' }, operation.description));
  if (parameters.length) {
    const rows = parameters.map(({ name, in: place, description, schema, required }) => {
      const head = [element('code', {}, name), ' ', element('span', { className: 'type' }, `${typeName(schema || {})}, in the ${place}`)];
      if (required) head.push(' ', element('span', { className: 'required' }, 'required'));
      return element('li', {}, element('div', {}, ...head), element('p', { className: 'note' }, description || ''));
    });
    parts.push(heading('Parameters'), element('ul', { className: 'fields' }, ...rows));
  }
  const body = operation.requestBody?.content || {};
  const bodySchema = Object.values(body)[0]?.schema;
  if (bodySchema) parts.push(...schemaPart(doc, `Body: ${Object.keys(body).join(', ')}`, bodySchema));
  const refused = [];
  for (const [code, given] of Object.entries(operation.responses || {})) {
    const answer = given.$ref ? doc.components?.responses?.[given.$ref.split('/').pop()] || {} : given;
    const schema = Object.values(answer.content || {})[0]?.schema;
    if (code < 300 && schema) parts.push(...schemaPart(doc, `${code} ${answer.description || ''}`, schema));
    else refused.push(element('li', {}, element('code', {}, code), ` ${answer.description || ''}`));
  }
  if (refused.length) parts.push(heading('Error responses'), element('ul', { className: 'fields' }, ...refused));
  if (method === 'get') parts.push(heading('Try it'), tryForm(path, parameters));
  return parts;
}

function showResource({ docPath, title, operations }) {
  const doc = documents.get(docPath);
  const own = operations.find(({ path, method }) => method === 'get' && path.endsWith('/{name}'));
  const schema = own?.operation.responses['200']?.content?.['application/json']?.schema;
  const text = schema && resolve(doc, schema).description;
  const rows = operations.map((one) => {
    const method = element('span', { className: 'method' }, one.method.toUpperCase());
    method.dataset.method = one.method;
    const what = ACTIONS[one.operation['x-kubernetes-action']];
    const head = [method, ' ', element('code', {}, one.path)];
    if (what) head.push(' ', element('span', { className: 'type' }, what));
    return folded(head, 'operation', () => operationBody(doc, one));
  });
  const kind = schema ? [heading('Fields'), fields(doc, schema)] : [];
  return [
    element('h2', {}, `${title} `, element('span', { className: 'count' }, groupTitle(docPath))),
    element('p', { className: 'note' }, text || ''), heading('Operations'), ...rows, ...kind,
  ];
}

function showSchema(docPath, name) {
  const doc = documents.get(docPath);
  const schema = doc?.components?.schemas?.[name];
  if (!schema) return null;
  return [
    element('h2', {}, `${short(name)} `, element('span', { className: 'count' }, name)),
    element('p', { className: 'note' }, schema.description || ''), heading('Fields'), fields(doc, schema),
  ];
}

function show() {
  const address = decodeURIComponent(location.hash.replace(/^#\/?/, ''));
  for (const link of $('groups').querySelectorAll('a')) {
    if (link.getAttribute('href') === `#/${address}`) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  const [, docPath, name] = address.match(/^schema\/(.+)\/([^/]+)$/) || [];
  const resource = resources.get(address);
  const parts = name ? showSchema(docPath, name) : resource && showResource(resource);
  $('article').replaceChildren(...(parts || [element('p', { className: 'note' }, 'Choose a kind, or search.')]));
  $('search').value = '';
  search();
  if (parts) $('shown').focus({ preventScroll: true });
  scrollTo(0, 0);
}

function menu() {
  const groups = new Map();
  for (const [key, { docPath, title }] of resources) {
    const group = groupTitle(docPath);
    groups.set(group, [...(groups.get(group) || []), { key, title }]);
  }
  for (const [group, kinds] of groups) {
    const sorted = kinds.sort((a, b) => a.title.localeCompare(b.title));
    const links = sorted.map(({ key, title }) => element('li', {}, element('a', { href: `#/${key}` }, title)));
    $('groups').append(element('h2', {}, group), element('ul', {}, ...links));
  }
}

async function load() {
  const { paths } = await json('/openapi/v3');
  const all = Object.entries(paths).filter(([path]) => !isDiscovery(path)).sort(([a], [b]) => isGroup(b) - isGroup(a) || a.localeCompare(b));
  const loaded = await Promise.all(all.map(([, { serverRelativeURL }]) => json(serverRelativeURL)));
  all.forEach(([path], position) => take(path, loaded[position]));
  entries = index();
  menu();
  show();
  const kinds = [...resources.values()].filter(({ docPath }) => isGroup(docPath)).length;
  $('state').textContent = `${kinds} kinds, ${entries.length} searchable names`;
}

$('search').addEventListener('input', search);
document.addEventListener('keydown', (event) => {
  if (event.key === 'Escape' && $('search').value) {
    $('search').value = '';
    search();
  }
  if (event.key === '/' && !/^(input|textarea)$/i.test(event.target.tagName) && !event.ctrlKey && !event.metaKey) {
    event.preventDefault();
    $('search').focus();
  }
});
window.addEventListener('hashchange', show);
load().catch((error) => ($('state').textContent = error.message));
