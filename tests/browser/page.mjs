// Shared parts of the browser stories: starting the browser, a page on which every error fails the story, requests to the server as another
// client, and waiting for a state. A failing story prints the state of the page and saves a screenshot.

import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { basename, extname, join } from 'node:path';

/** Loads the packages that `hack/clients` installs from package.json. */
const packages = createRequire(new URL('../../target/clients/browser/package.json', import.meta.url));
const { chromium } = packages('playwright-core');

/** The command-line flags of every browser. */
export const FLAGS = [
  '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync',
];
/** The default timeout in milliseconds: enough for any step on two busy cores, and much longer than a step normally takes. */
export const PATIENCE = 45_000;
export const WIDE = { width: 1400, height: 900 };
export const PHONE = { width: 390, height: 844 };

export const axe = () => packages.resolve('axe-core');

/** Starts the browser of this machine. On a busy machine Chromium sometimes crashes at the start: at most two such crashes are tolerated. */
export async function launch(flags = []) {
  const executablePath = execFileSync('sh', ['-c', 'command -v chromium'], { encoding: 'utf8' }).trim();
  const start = () => chromium.launch({ executablePath, args: [...FLAGS, ...flags] });
  return start().catch(start).catch(start);
}

/** The errors that a page reported. A story allows, by pattern, those that it causes itself. */
class Complaints {
  #all = [];
  #allowed = [];

  allow(pattern) {
    this.#allowed.push(pattern);
  }
  add(text) {
    this.#all.push(text);
  }
  /** The errors that match no allowed pattern. */
  get left() {
    return this.#all.filter((text) => !this.#allowed.some((pattern) => pattern.test(text)));
  }
}

const TYPES = { '.html': 'text/html; charset=utf-8', '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml' };

/** Serves the page's files from the directory in ORLOP_PAGE, if it is set, to test a change without building the server. */
async function overlay(context, home) {
  const folder = process.env.ORLOP_PAGE;
  if (!folder) return;
  const answered = await fetch(`${home}/ui/`);
  const policy = answered.headers.get('content-security-policy');
  await context.route((to) => to.origin === home && /^\/($|ui\/)/.test(to.pathname), (route) => {
    const path = join(folder, new URL(route.request().url()).pathname.replace(/^\/(ui\/)?/, '') || 'index.html');
    if (!existsSync(path)) return route.fulfill({ status: 404, body: 'the page has no such file' });
    return route.fulfill({ body: readFileSync(path), headers: { 'Content-Type': TYPES[extname(path)], 'Content-Security-Policy': policy } });
  });
}

/** Opens a page in its own browser context. Records errors, content security policy violations, dialogs and requests to other servers. */
export async function open(browser, url, complaints, options = {}) {
  const context = await browser.newContext({ viewport: WIDE, acceptDownloads: true, ...options });
  context.setDefaultTimeout(PATIENCE);
  const home = new URL(url).origin;
  await overlay(context, home);
  const page = await context.newPage();
  page.on('console', (message) => ['error', 'warning'].includes(message.type()) && complaints.add(`console: ${message.text()} ${message.location().url}`));
  page.on('pageerror', (error) => complaints.add(`error: ${error.stack}`));
  page.on('dialog', (dialog) => {
    complaints.add(`dialog: ${dialog.message()}`);
    dialog.dismiss();
  });
  page.on('request', (request) => {
    const to = request.url();
    if (!to.startsWith(`${home}/`) && !/^(data|blob|about):/.test(to)) complaints.add(`request to another server: ${to}`);
  });
  await page.exposeBinding('refusedByPolicy', (_, text) => complaints.add(`content policy: ${text}`));
  await page.addInitScript(() => {
    document.addEventListener('securitypolicyviolation', (event) => globalThis.refusedByPolicy(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
  });
  return page;
}

/** Waits until `ask` returns a truthy value, and returns it. On a timeout, the error contains the last value or error. */
export async function until(what, ask, patience = PATIENCE) {
  const end = Date.now() + patience;
  let last;
  for (;;) {
    try {
      last = await ask();
      if (last) return last;
    } catch (error) {
      last = error;
    }
    if (Date.now() > end) throw new Error(`waited ${patience} ms for: ${what}; last value: ${last}`);
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
}

export function ensure(holds, what) {
  if (!holds) throw new Error(typeof what === 'function' ? what() : what);
}

export function same(found, wanted, what) {
  const [a, b] = [JSON.stringify(found), JSON.stringify(wanted)];
  ensure(a === b, `${what}: found ${a}, expected ${b}`);
}

export const CLAIMS = '/api/v1/namespaces/default/persistentvolumeclaims';
export const VOLUMES = '/api/v1/persistentvolumes';
export const PODS = '/api/v1/namespaces/default/pods';

/** Another client, which sends requests directly to the server. */
export class Client {
  constructor(url) {
    this.url = url;
  }
  /** Sends a request. A rejection is thrown as an error with the server's message. */
  async ask(method, path, body, type = 'application/json') {
    const response = await fetch(this.url + path, { method, body: body === undefined ? undefined : JSON.stringify(body), headers: { 'Content-Type': type } });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text.slice(0, 600)}`);
    return JSON.parse(text);
  }
  get(path) {
    return this.ask('GET', path);
  }
  create(path, object) {
    return this.ask('POST', path, object);
  }
  patch(path, change) {
    return this.ask('PATCH', path, change, 'application/merge-patch+json');
  }
  remove(path) {
    return this.ask('DELETE', path);
  }
  /** Waits until an object satisfies a condition. */
  until(path, what, fits) {
    return until(`${path}: ${what}`, async () => {
      const object = await this.get(path);
      return fits(object) ? object : Promise.reject(new Error(JSON.stringify(object.status)));
    });
  }
}

export const claim = (name, more = {}, metadata = {}) => ({
  apiVersion: 'v1', kind: 'PersistentVolumeClaim', metadata: { name, namespace: 'default', ...metadata },
  spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } }, ...more },
});
export const volume = (name, more = {}, metadata = {}) => ({
  apiVersion: 'v1', kind: 'PersistentVolume', metadata: { name, ...metadata },
  spec: { accessModes: ['ReadWriteOnce'], capacity: { storage: '1Gi' }, hostPath: { path: `/tmp/orlop-of-tests/${name}` }, persistentVolumeReclaimPolicy: 'Retain', ...more },
});
export const pod = (name, claimName) => ({
  apiVersion: 'v1', kind: 'Pod', metadata: { name, namespace: 'default' },
  spec: {
    containers: [{ name: 'main', image: 'none', volumeMounts: [{ name: 'data', mountPath: '/data' }] }],
    volumes: [{ name: 'data', persistentVolumeClaim: { claimName } }],
  },
});

/** Waits until the page reports this connection state. */
export const connection = (page, state) => page.locator(`#connection[data-state="${state}"]`).waitFor();

/** Navigates to a view of the page as a link does, without a reload. */
export async function go(page, address) {
  await page.evaluate((to) => {
    location.hash = to;
  }, address);
}

/** The row of the displayed list with this name. */
export const row = (page, name) => page.getByRole('row').filter({ has: page.getByRole('rowheader', { name, exact: true }) });

/** Sends a line to the test that started the story. */
export const say = (word) => process.stdout.write(`${JSON.stringify(word)}\n`);

/**
 * Runs a story: calls `tell` with `{ page, browser, complaints, client, url }`; the page is still blank. Fails if the page reported an error
 * that the story does not allow.
 */
export async function story(tell, options = {}) {
  const [url] = process.argv.slice(2);
  ensure(url, 'usage: node STORY.mjs URL');
  const complaints = new Complaints();
  const browser = await launch(options.flags);
  const page = await open(browser, url, complaints, options.page);
  try {
    await tell({ page, browser, complaints, url, client: new Client(url) });
    same(complaints.left, [], 'errors that the page reported');
    await browser.close();
    process.stdout.write('done\n');
  } catch (error) {
    const shots = new URL('../../target/browser/', import.meta.url).pathname;
    mkdirSync(shots, { recursive: true });
    const shot = `${shots}${basename(process.argv[1], '.mjs')}.png`;
    const seen = await page.locator('body').innerText({ timeout: 1000 }).catch((problem) => `(${problem.message})`);
    await page.screenshot({ path: shot, timeout: 5000 }).catch(() => {});
    process.stderr.write(`${error.stack}\n\ntext of ${page.url()}:\n${seen}\n\nerrors of the page: ${complaints.left.join('\n')}\nscreenshot: ${shot}\n`);
    // Exit even if the browser hangs.
    await Promise.race([browser.close(), new Promise((resolve) => setTimeout(resolve, 3000))]);
    process.exit(1);
  }
}
