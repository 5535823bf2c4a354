// Converts JSON values to readable YAML. Independent of Kubernetes.

// A dot followed by a digit would begin a number.
const PLAIN = /^((?:[A-Za-z_/]|\.(?![0-9_]))[A-Za-z0-9_./@()+, -]*|[0-9]+([KMGTP]i?|Ei|m|s|h))$/;
const WORDS = /^(true|false|null|yes|no|on|off|y|n|~|\.inf|\.nan)$/i;

// Invisible characters that reverse or break the text around them.
const ODD = /[\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

/** Replaces invisible characters with their escape sequences. */
export const visible = (text) => text.replace(ODD, (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, '0')}`);

/** A single-line YAML scalar: plain if that is unambiguous, otherwise quoted. */
function scalar(text) {
  const plain = PLAIN.test(text) && !WORDS.test(text) && !text.endsWith(' ') && !text.includes(', ');
  return plain ? text : visible(JSON.stringify(text));
}

function isEmpty(value) {
  return value === null || typeof value !== 'object' || Object.keys(value).length === 0;
}

function inline(value) {
  if (typeof value === 'string') return scalar(value);
  if (value !== null && typeof value === 'object') return Array.isArray(value) ? '[]' : '{}';
  return String(value);
}

/** The lines of a block scalar: `|` if the text ends with a newline, otherwise `|-`. */
function block(text, indent) {
  const body = text.endsWith('\n') ? text.slice(0, -1) : text;
  const lines = body.split('\n').map((line) => (line ? indent + line : line));
  return [text.endsWith('\n') ? '|' : '|-', ...lines];
}

/** Reports whether a block scalar represents the value exactly: several lines, no unusual spaces or characters. */
function isBlock(value) {
  return typeof value === 'string' && value.includes('\n') && value.search(ODD) < 0 && !/^\s|[^\S\n]\n|\n\n$|[^\n\t\x20-\x7e\xa0-\uffff]/.test(value);
}

function write(value, indent, lines) {
  if (Array.isArray(value)) {
    for (const item of value) {
      if (isBlock(item)) {
        const [mark, ...rest] = block(item, indent + '  ');
        lines.push(`${indent}- ${mark}`, ...rest);
      } else if (isEmpty(item)) {
        lines.push(`${indent}- ${inline(item)}`);
      } else {
        const inner = [];
        write(item, indent + '  ', inner);
        inner[0] = `${indent}- ${inner[0].slice(indent.length + 2)}`;
        lines.push(...inner);
      }
    }
    return;
  }
  for (const [key, item] of Object.entries(value)) {
    const name = `${indent}${scalar(key)}:`;
    if (isBlock(item)) {
      const [mark, ...rest] = block(item, indent + '  ');
      lines.push(`${name} ${mark}`, ...rest);
    } else if (isEmpty(item)) {
      lines.push(`${name} ${inline(item)}`);
    } else {
      lines.push(name);
      write(item, Array.isArray(item) ? indent : indent + '  ', lines);
    }
  }
}

/** Converts a JSON value to YAML. */
export function toYaml(value) {
  if (isEmpty(value)) return `${inline(value)}\n`;
  const lines = [];
  write(value, '', lines);
  return `${lines.join('\n')}\n`;
}
