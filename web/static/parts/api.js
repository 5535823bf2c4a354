// Requests that a person makes. Refusals become errors with the server's words and its Status.

/** A refusal: `status` is the code, `body` the Status. */
export class Refused extends Error {
  constructor(status, body, fallback) {
    super(body?.message || fallback);
    this.status = status;
    this.body = body;
  }
}

/** One request. `body`: text, or a value that is sent as JSON. */
export async function send(method, path, { body, type = 'application/json', query } = {}) {
  const search = query ? `?${new URLSearchParams(query)}` : '';
  const init = { method, headers: { Accept: 'application/json' }, cache: 'no-store' };
  if (body !== undefined) {
    init.body = typeof body === 'string' ? body : JSON.stringify(body);
    init.headers['Content-Type'] = type;
  }
  let response;
  try {
    response = await fetch(path + search, init);
  } catch {
    throw new Refused(0, null, 'The server does not respond. The result of the request is unknown.');
  }
  const text = await response.text();
  let value = null;
  try {
    value = JSON.parse(text);
  } catch {
    // Words and no Status: they are shown as they are.
  }
  if (!response.ok) throw new Refused(response.status, value, text.slice(0, 500) || `${response.status} ${response.statusText}`);
  return value;
}

export const get = (path, query) => send('GET', path, { query });
