// Renders OpenAPI schemas as DOM trees. Each level is rendered when it is opened, because schemas can be recursive.

export function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

/** Shortens `io.k8s.api.core.v1.PodSpec` to `PodSpec`. */
export const short = (name) => name.split('.').pop();

const target = (reference) => reference.split('/').pop();

/** Returns the reference of a schema. An `allOf` with one element is a reference with a description. */
function reference(schema) {
  if (schema.$ref) return schema.$ref;
  return schema.allOf?.length === 1 ? reference(schema.allOf[0]) : null;
}

export function resolve(doc, schema) {
  const to = reference(schema);
  return to ? doc.components?.schemas?.[target(to)] || {} : schema;
}

/** Returns a short description of the type. */
export function typeName(schema) {
  const to = reference(schema);
  if (to) return short(target(to));
  const either = schema.anyOf || schema.oneOf;
  if (either) return either.map(typeName).join(' or ');
  if (schema.type === 'array') return `list of ${typeName(schema.items || {})}`;
  if (schema.additionalProperties) return `map of ${typeName(schema.additionalProperties)}`;
  return [schema.type || 'any value', schema.format && `(${schema.format})`].filter(Boolean).join(' ');
}

/** Returns the schema that has the fields: for a list or a map, the schema of its elements. */
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

/** Renders the fields of a schema as a list. */
export function fields(doc, schema) {
  const found = inner(doc, schema);
  const required = new Set(found.required || []);
  const rows = Object.entries(found.properties || {}).map(([name, of]) => field(doc, name, of, required.has(name)));
  return element('ul', { className: 'fields' }, ...rows);
}
