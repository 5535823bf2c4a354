// Requests on behalf of the user. An error response becomes an exception with the server's message and Status.

import { request } from '../session.js';

/** An error response: `status` is the HTTP status code, `body` the Status object. */
export class Refused extends Error {
  constructor(status, body, fallback) {
    super(body?.message || fallback);
    this.status = status;
    this.body = body;
  }
}

/** Sends a request. `body` is text, or a value to send as JSON. */
export async function send(method, path, { body, type = 'application/json', query } = {}) {
  const search = query ? `?${new URLSearchParams(query)}` : '';
  const init = { method, headers: { Accept: 'application/json' }, cache: 'no-store' };
  if (body !== undefined) {
    init.body = typeof body === 'string' ? body : JSON.stringify(body);
    init.headers['Content-Type'] = type;
  }
  let response;
  try {
    response = await request(path + search, init);
  } catch {
    throw new Refused(0, null, 'The server does not respond. The result of the request is unknown.');
  }
  const text = await response.text();
  let value = null;
  try {
    value = JSON.parse(text);
  } catch {
    // Not JSON: the text itself becomes the error message.
  }
  if (!response.ok) throw new Refused(response.status, value, text.slice(0, 500) || `${response.status} ${response.statusText}`);
  return value;
}

export const get = (path, query) => send('GET', path, { query });
