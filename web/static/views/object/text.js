// The forms of an object for display and for the editor. Pure.

/** Returns an object for display, without managed fields. */
export function plain(object) {
  const { __resource, ...rest } = object;
  const { managedFields, ...metadata } = rest.metadata;
  return { ...rest, metadata };
}

/** Returns an object for a replacement (PUT), with its resource version, so that the server detects concurrent writes. */
export function replaced(object) {
  const { __resource, status, ...rest } = object;
  const { managedFields, ...metadata } = rest.metadata;
  return { ...rest, metadata };
}

/** Returns an object for server-side apply, without the fields that the server sets. */
export function applied(object) {
  const { __resource, status, ...rest } = object;
  const { managedFields, resourceVersion, uid, creationTimestamp, generation, deletionTimestamp, selfLink, ...metadata } = rest.metadata;
  return { ...rest, metadata };
}

/** Replaces the resource version in the text and leaves the rest unchanged. */
export function versioned(text, version) {
  const lines = text.split('\n');
  const at = lines.findIndex((line) => /^metadata:/.test(line));
  if (at < 0) return text;
  for (let index = at + 1; index < lines.length && !/^\S/.test(lines[index]); index += 1) {
    // Ignore deeper lines, such as those of an annotation.
    if (/^ {2}resourceVersion:/.test(lines[index])) {
      lines[index] = `  resourceVersion: "${version}"`;
      return lines.join('\n');
    }
  }
  lines.splice(at + 1, 0, `  resourceVersion: "${version}"`);
  return lines.join('\n');
}
