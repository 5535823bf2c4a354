// The session of the page on a server that requires credentials. The page exchanges the one-time code of a link for a token, and stores the
// token in the session storage of this tab. app.js imports this module first: the code must leave the address before another module reads it.

const EXCHANGE = '/orlop/sign-in';
const CODES = '/orlop/sign-in/codes';
const KEY = 'orlop.session';
const INCOMPLETE = 'The link is incomplete. Copy the whole link, or run `orlop page` again.';
const SILENT = 'The server does not respond.';
const INVALID = 'The token is not valid. Run `orlop page` for a new link, or paste another token.';
/** The length and the characters of a code. */
const CODE = /^[\w-]{43}$/;

/** Returns the code in a URL fragment or a pasted link; an empty string if there is none. Pure. */
export function codeOf(text) {
  const found = /(?:^|#)#?code=([\w-]+)$/.exec(text.trim())?.[1] || text.trim();
  return CODE.test(found) ? found : '';
}

// A browser that blocks site data throws; the token then lives until the next reload.
const stored = (use) => {
  try {
    return use(globalThis.sessionStorage);
  } catch {
    return undefined;
  }
};

let token = stored((storage) => storage.getItem(KEY)) || '';
const readers = new Set();

/** `required`: the server rejects the page's requests until the user signs in. `problem`: why the last attempt failed. */
export const session = {
  required: false,
  problem: '',
  subscribe(fn) {
    readers.add(fn);
    return () => readers.delete(fn);
  },
  /** Signs in with a link, its code, or a token. */
  async signIn(text) {
    const code = codeOf(text);
    const next = code && await exchange(code);
    if (next) put(next);
    // A token may look like a code.
    else if (!text.includes('code=')) await useToken(text.trim());
    else if (!code) tell(true, INCOMPLETE);
  },
};

function tell(required, problem = '') {
  if (session.required === required && session.problem === problem) return;
  Object.assign(session, { required, problem });
  for (const fn of [...readers]) fn();
}

function put(next, isKept = true) {
  if (!next) return;
  token = next;
  if (isKept) stored((storage) => storage.setItem(KEY, token));
  tell(false);
}

/**
 * Signs in with a pasted token. It is exchanged for a session, which ends with the server. Without a session, a page without TLS holds the
 * token only until the next reload: another program may listen on the port by then. The page uses no token that the server rejects, so the
 * form stays.
 */
async function useToken(pasted) {
  // No header can contain other characters.
  if (/[^\x21-\x7e]/.test(pasted)) return tell(true, INVALID);
  const init = { method: 'POST', headers: { Authorization: `Bearer ${pasted}`, Accept: 'application/json' }, cache: 'no-store' };
  const answer = await fetch(CODES, init).catch(() => null);
  if (!answer) return tell(true, SILENT);
  if (answer.status === 401) return tell(true, INVALID);
  const { code } = answer.ok ? await answer.json().catch(() => ({})) : {};
  const next = code && await exchange(code);
  if (next) put(next);
  else put(pasted, globalThis.location?.protocol === 'https:');
  return undefined;
}

/** Returns the token for a code. On failure, reports the problem and returns an empty string. */
async function exchange(code) {
  const init = { method: 'POST', headers: { 'Content-Type': 'application/json', Accept: 'application/json' }, body: JSON.stringify({ code }), cache: 'no-store' };
  try {
    const answer = await fetch(EXCHANGE, init);
    const value = await answer.json().catch(() => ({}));
    if (answer.ok) return value.token;
    tell(true, value.message || `${answer.status} ${answer.statusText}`);
  } catch {
    tell(true, SILENT);
  }
  return '';
}

/** Whether a response means that the user has to sign in: 401, or 403 for the user of requests without credentials. */
async function isRefusal(answer, used) {
  if (answer.status === 401) return true;
  if (answer.status !== 403 || used) return false;
  const status = await answer.clone().json().catch(() => ({}));
  return Boolean(status.message?.includes('"system:anonymous"'));
}

/** Sends a request with the token of the session. */
export async function request(url, init = {}) {
  if (signingIn) await signingIn;
  const used = token;
  const answer = await fetch(url, used ? { ...init, headers: { ...init.headers, Authorization: `Bearer ${used}` } } : init);
  // If another sign-in has replaced the rejected token in the meantime, also while the response was read, the user need not sign in again.
  if (await isRefusal(answer, used) && token === used) {
    token = '';
    stored((storage) => storage.removeItem(KEY));
    tell(true, session.problem || (used ? 'The session has ended, or the token is not valid.' : ''));
  }
  return answer;
}

/** Saves the response of a path as a file, because a link cannot send a token. Returns false if no token is needed: the browser can follow the link. */
export function save(path, name) {
  if (!token) return false;
  request(path).then((answer) => (answer.ok ? answer.blob() : Promise.reject(new Error(`${answer.status} ${answer.statusText}`)))).then((blob) => {
    const url = URL.createObjectURL(blob);
    Object.assign(document.createElement('a'), { href: url, download: name }).click();
    URL.revokeObjectURL(url);
  }).catch((error) => tell(session.required, error.message));
  return true;
}

/** Removes the code of a link from the address and from the history, and signs in with it. */
function begin() {
  const hash = globalThis.location?.hash || '';
  if (!hash.startsWith('#code=')) return null;
  history.replaceState(null, '', location.pathname + location.search);
  const code = codeOf(hash);
  if (!code) tell(true, INCOMPLETE);
  return code ? exchange(code).then(put).finally(() => { signingIn = null; }) : null;
}

/** The exchange of the code in the address. Requests wait until it ends. */
let signingIn = begin();

// A link that the user pastes into the address of the open page changes only the fragment. The router must not see the code.
globalThis.addEventListener?.('hashchange', (event) => {
  if (!location.hash.startsWith('#code=')) return;
  event.stopImmediatePropagation();
  signingIn = begin();
});
