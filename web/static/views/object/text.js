// The texts of an object: as it is shown, and as editors start from. Pure.

/** An object as it is shown: what servers note for themselves is left out. */
export function plain(object) {
  const { __resource, ...rest } = object;
  const { managedFields, ...metadata } = rest.metadata;
  return { ...rest, metadata };
}

/** An object for a replacement: with its version, so that a write in between is noticed. */
export function replaced(object) {
  const { __resource, status, ...rest } = object;
  const { managedFields, ...metadata } = rest.metadata;
  return { ...rest, metadata };
}

/** An object for an apply: without what the server gives. */
export function applied(object) {
  const { __resource, status, ...rest } = object;
  const { managedFields, resourceVersion, uid, creationTimestamp, generation, deletionTimestamp, selfLink, ...metadata } = rest.metadata;
  return { ...rest, metadata };
}

/** The text with another version in its metadata, everything else as it was. */
export function versioned(text, version) {
  const lines = text.split('\n');
  const at = lines.findIndex((line) => /^metadata:/.test(line));
  if (at < 0) return text;
  for (let index = at + 1; index < lines.length && !/^\S/.test(lines[index]); index += 1) {
    // Deeper lines (of an annotation, say) are not it.
    if (/^ {2}resourceVersion:/.test(lines[index])) {
      lines[index] = `  resourceVersion: "${version}"`;
      return lines.join('\n');
    }
  }
  lines.splice(at + 1, 0, `  resourceVersion: "${version}"`);
  return lines.join('\n');
}
