// Sign-in of the page: the code leaves the address, and its token is sent with each request.

import assert from 'node:assert/strict';
import { test } from 'node:test';

const code = 'A-_'.repeat(14) + 'b';
const stored = new Map();
const replaced = [];
const asked = [];
let answer = () => new Response('{}');
globalThis.sessionStorage = {
  getItem: (key) => stored.get(key) ?? null, setItem: (key, value) => stored.set(key, value), removeItem: (key) => stored.delete(key),
};
globalThis.location = { hash: `#code=${code}`, pathname: '/', search: '' };
globalThis.history = { replaceState: (...all) => replaced.push(all[2]) };
globalThis.fetch = async (url, init = {}) => {
  asked.push([url, init.headers?.Authorization]);
  return answer(url, init);
};
const status = (number, message) => new Response(JSON.stringify({ kind: 'Status', message }), { status: number });
const anonymous = 'forbidden: User "system:anonymous" cannot get path "/api"';

answer = (url, init) => (url === '/orlop/sign-in' && JSON.parse(init.body).code === code ? new Response('{"token":"orlop-page.t"}') : status(401, 'Unauthorized: x'));
const { codeOf, request, session } = await import('../static/session.js');

test('codes are found in links and alone', () => {
  for (const [text, want] of [
    [code, code], [` ${code}\n`, code], [`#code=${code}`, code], [`http://127.0.0.1:8080/#code=${code}`, code],
    ['', ''], ['#code=', ''], ['#/overview', ''], [code.slice(1), ''], [`#code=${code}x`, ''], ['eyJhbGciOi.a.b', ''],
  ]) assert.equal(codeOf(text), want, text);
});

test('the code of the address begins a session before the first request', async () => {
  answer = ((exchange) => (url, init) => (url === '/api' ? new Response('{}') : exchange(url, init)))(answer);
  await request('/api', { headers: { Accept: 'application/json' } });
  assert.deepEqual(replaced, ['/'], 'the address has no code');
  assert.deepEqual(asked, [['/orlop/sign-in', undefined], ['/api', 'Bearer orlop-page.t']]);
  assert.deepEqual([...stored.values()], ['orlop-page.t']);
  assert.equal(session.required, false);
});

test('a refused token is forgotten, and the page asks the user to sign in', async () => {
  const told = [];
  session.subscribe(() => told.push(session.required));
  answer = () => status(403, 'forbidden: User "ann" cannot get path "/api"');
  assert.equal((await request('/api')).status, 403);
  assert.equal(session.required, false, 'a signed-in user without a right');
  answer = () => status(401, 'Unauthorized');
  assert.equal((await request('/api')).status, 401);
  assert.deepEqual([told, stored.size], [[true], 0]);
  assert.match(session.problem, /has ended/);
  answer = () => status(403, anonymous);
  assert.equal(await (await request('/api')).json().then((one) => one.message), anonymous, 'the body is still readable');
  answer = (url) => (url === '/orlop/sign-in' ? status(401, 'Unauthorized: the code is unknown') : new Response('{}'));
  await session.signIn(`http://127.0.0.1:1/#code=${code}`);
  assert.deepEqual([session.required, session.problem], [true, 'Unauthorized: the code is unknown']);
  await session.signIn('eyJhbGciOi.a.b');
  assert.deepEqual([session.required, session.problem, told.at(-1)], [false, '', false]);
  await request('/api');
  assert.deepEqual(asked.at(-1), ['/api', 'Bearer eyJhbGciOi.a.b']);
});

test('a pasted token is exchanged for a session, or stays in memory', async () => {
  assert.equal(stored.size, 0, 'the token of the last test');
  answer = (url) => new Response(JSON.stringify(url === '/orlop/sign-in/codes' ? { code } : { token: 'orlop-page.u' }));
  await session.signIn('eyJhbGciOi.a.b');
  assert.deepEqual(asked.slice(-2), [['/orlop/sign-in/codes', 'Bearer eyJhbGciOi.a.b'], ['/orlop/sign-in', undefined]]);
  assert.deepEqual([...stored.values()], ['orlop-page.u']);
  // A token that looks like a code, of a user without the right to request one.
  answer = (url) => (url.startsWith('/orlop/') ? status(url.endsWith('/codes') ? 403 : 401, 'no') : new Response('{}'));
  await session.signIn(code);
  await request('/api');
  assert.deepEqual(asked.at(-1), ['/api', `Bearer ${code}`]);
});

test('a rejected link or token does not end the sign-in', async () => {
  answer = () => status(401, 'Unauthorized');
  await request('/api');
  assert.equal(session.required, true);
  const seen = [];
  session.subscribe(() => seen.push(session.required));
  const silent = () => { throw new TypeError('network'); };
  for (const [text, reply, problem] of [
    ['eyJhbGciOi.a.b', () => status(401, 'Unauthorized'), /token is not valid/],
    ['eyJhbGciOi.a.b', silent, /does not respond/],
    ['token…', silent, /token is not valid/],
    [code, () => status(401, 'Unauthorized'), /orlop page/],
    [`#code=${code}`, () => status(401, 'Unauthorized: the code is unknown'), /code is unknown/],
    [`#code=${code.slice(1)}`, () => status(500, 'not asked'), /link is incomplete/],
  ]) {
    answer = reply;
    await session.signIn(text);
    assert.match(session.problem, problem);
  }
  // The form would lose its text.
  assert.ok(seen.length === 7 && seen.every(Boolean), String(seen));
});

test('a late refusal of an earlier request does not end a new session', async () => {
  assert.equal(session.required, true);
  let read;
  const text = new Promise((resolve) => { read = resolve; });
  answer = () => ({ status: 403, clone: () => ({ json: () => text }) });
  const early = request('/api');
  // The response has arrived, and its text has not.
  await new Promise((resolve) => { setImmediate(resolve); });
  answer = () => new Response('{"token":"orlop-page.v"}');
  await session.signIn(code);
  assert.equal(session.required, false);
  read({ message: anonymous });
  await early;
  assert.deepEqual([session.required, [...stored.values()]], [false, ['orlop-page.v']]);
});
