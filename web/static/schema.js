// Schemas as trees that open one level at a time: what refers to itself has no end. Documents in, elements out.

export function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

/** `io.k8s.api.core.v1.PodSpec` is `PodSpec` to a reader. */
export const short = (name) => name.split('.').pop();

const target = (reference) => reference.split('/').pop();

/** What a schema refers to; an `allOf` of one is how a reference has a description. */
function reference(schema) {
  if (schema.$ref) return schema.$ref;
  return schema.allOf?.length === 1 ? reference(schema.allOf[0]) : null;
}

export function resolve(doc, schema) {
  const to = reference(schema);
  return to ? doc.components?.schemas?.[target(to)] || {} : schema;
}

/** The type in a word or two. */
export function typeName(schema) {
  const to = reference(schema);
  if (to) return short(target(to));
  const either = schema.anyOf || schema.oneOf;
  if (either) return either.map(typeName).join(' or ');
  if (schema.type === 'array') return `list of ${typeName(schema.items || {})}`;
  if (schema.additionalProperties) return `map of ${typeName(schema.additionalProperties)}`;
  return [schema.type || 'any value', schema.format && `(${schema.format})`].filter(Boolean).join(' ');
}

/** The schema with the fields: of a list or a map, that of what is in it. */
function inner(doc, schema) {
  const found = resolve(doc, schema);
  if (found.type === 'array' && found.items) return inner(doc, found.items);
  if (typeof found.additionalProperties === 'object') return inner(doc, found.additionalProperties);
  return found;
}

function field(doc, name, schema, required) {
  const head = [element('code', {}, name), ' ', element('span', { className: 'type' }, typeName(schema))];
  if (required) head.push(' ', element('span', { className: 'required' }, 'required'));
  const text = schema.description || resolve(doc, schema).description;
  const note = text ? [element('p', { className: 'note' }, text)] : [];
  const below = inner(doc, schema);
  if (!below.properties) return element('li', {}, element('div', {}, ...head), ...note);
  const details = element('details', {}, element('summary', {}, ...head), ...note);
  details.addEventListener('toggle', () => details.append(fields(doc, below)), { once: true });
  return element('li', {}, details);
}

/** The fields of a schema, as a list. */
export function fields(doc, schema) {
  const found = inner(doc, schema);
  const required = new Set(found.required || []);
  const rows = Object.entries(found.properties || {}).map(([name, of]) => field(doc, name, of, required.has(name)));
  return element('ul', { className: 'fields' }, ...rows);
}
