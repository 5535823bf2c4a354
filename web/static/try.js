// A form that sends a GET request and displays the response as text.

import { element } from '/ui/schema.js';
import { request } from '/ui/session.js';

// Limits for watches, which do not end, and for snapshots, which are large: characters and milliseconds.
const MOST_CHARACTERS = 200000;
const LONGEST = 10000;

const isText = (type) => /json|yaml|^text\//.test(type);

/** Reads the text of a response, up to the limit. */
async function read(response, stop) {
  if (!isText(response.headers.get('Content-Type') || '')) {
    stop();
    return '(not text)';
  }
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return text;
      text += value;
      if (text.length > MOST_CHARACTERS) break;
    }
  } catch (error) {
    if (error.name !== 'AbortError') throw error;
  }
  stop();
  return `${text.slice(0, MOST_CHARACTERS)}\n… (truncated)`;
}

/** Indents JSON; returns any other text unchanged. */
function shown(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

export function tryForm(path, parameters) {
  const inputs = parameters.map((parameter) => {
    const input = element('input', { name: parameter.name, required: parameter.in === 'path', autocomplete: 'off' });
    input.title = parameter.description || '';
    if (parameter.name === 'namespace') input.value = 'default';
    return { ...parameter, input };
  });
  const rows = inputs.map(({ name, input }) => element('label', {}, element('code', {}, name), input));
  const note = element('p', { className: 'note' });
  note.setAttribute('role', 'status');
  const answer = element('pre', { className: 'answer', tabIndex: 0, hidden: true });
  const send = element('button', { type: 'submit' }, 'Send GET');
  const form = element('form', {}, element('div', { className: 'try' }, ...rows), send, note, answer);
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    let url = path;
    const query = new URLSearchParams();
    for (const { name, in: place, input } of inputs) {
      if (place === 'path') url = url.replace(`{${name}}`, encodeURIComponent(input.value));
      else if (input.value) query.append(name, input.value);
    }
    if (String(query)) url += `?${query}`;
    note.textContent = `GET ${url} …`;
    const clock = new AbortController();
    const timer = setTimeout(() => clock.abort(), LONGEST);
    try {
      const response = await request(url, { signal: clock.signal, cache: 'no-store' });
      answer.textContent = shown(await read(response, () => clock.abort()));
      note.textContent = `GET ${url}: ${response.status} ${response.statusText}`;
      answer.hidden = false;
    } catch (error) {
      note.textContent = `GET ${url}: ${error.message}`;
    } finally {
      clearTimeout(timer);
    }
  });
  return form;
}
