// What every story of the page stands on: a browser, a page whose every complaint is a failure, requests to the server as
// somebody else makes them, and waiting for levels. A story says what it saw and keeps a picture when it fails.

import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { basename, extname, join } from 'node:path';

/** Where `hack/clients` puts the packages of package.json. */
const packages = createRequire(new URL('../../target/clients/browser/package.json', import.meta.url));
const { chromium } = packages('playwright-core');

/** What every start of the browser is told. */
export const FLAGS = [
  '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync',
];
/** As long as anything may take on two busy cores; much longer than it ever should. */
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

/** What a page has complained about. What the story itself provokes is allowed by name. */
class Complaints {
  #all = [];
  #allowed = [];

  allow(pattern) {
    this.#allowed.push(pattern);
  }
  add(text) {
    this.#all.push(text);
  }
  /** Those that nobody has allowed. */
  get left() {
    return this.#all.filter((text) => !this.#allowed.some((pattern) => pattern.test(text)));
  }
}

const TYPES = { '.html': 'text/html; charset=utf-8', '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml' };

/** With ORLOP_PAGE, the page's files come from this folder: a change is tried without building the server. */
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

/** A page in a window of its own. Errors, refusals of the content policy, dialogs and requests to elsewhere are kept. */
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
    if (!to.startsWith(`${home}/`) && !/^(data|blob|about):/.test(to)) complaints.add(`a request to elsewhere: ${to}`);
  });
  await page.exposeBinding('refusedByPolicy', (_, text) => complaints.add(`content policy: ${text}`));
  await page.addInitScript(() => {
    document.addEventListener('securitypolicyviolation', (event) => globalThis.refusedByPolicy(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
  });
  return page;
}

/** Waits for a level; `ask` gives what is wanted, or something that is not true. What it last was is told. */
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
    if (Date.now() > end) throw new Error(`waited ${patience} ms for: ${what}; seen last: ${last}`);
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
}

export function ensure(holds, what) {
  if (!holds) throw new Error(typeof what === 'function' ? what() : what);
}

export function same(found, wanted, what) {
  const [a, b] = [JSON.stringify(found), JSON.stringify(wanted)];
  ensure(a === b, `${what}: it is ${a} and not ${b}`);
}

export const CLAIMS = '/api/v1/namespaces/default/persistentvolumeclaims';
export const VOLUMES = '/api/v1/persistentvolumes';
export const PODS = '/api/v1/namespaces/default/pods';

/** Somebody else, who speaks to the server directly. */
export class Somebody {
  constructor(url) {
    this.url = url;
  }
  /** Any request; refusals are errors with the server's words unless `answer` is asked for. */
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
  /** Waits until an object is as wanted. */
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

/** The page's word for how it is connected. */
export const connection = (page, state) => page.locator(`#connection[data-state="${state}"]`).waitFor();

/** Goes to an address of the page as a link does, without loading it again. */
export async function go(page, address) {
  await page.evaluate((to) => {
    location.hash = to;
  }, address);
}

/** A row of the list that is shown, by its name. */
export const row = (page, name) => page.getByRole('row').filter({ has: page.getByRole('rowheader', { name, exact: true }) });

/** Says something to the test that has started this. */
export const say = (word) => process.stdout.write(`${JSON.stringify(word)}\n`);

/**
 * A story: `tell` gets `{ page, browser, complaints, somebody, url }`, the page not yet opened. At its end nothing may have
 * complained.
 */
export async function story(tell, options = {}) {
  const [url] = process.argv.slice(2);
  ensure(url, 'usage: node STORY.mjs URL');
  const complaints = new Complaints();
  const browser = await launch(options.flags);
  const page = await open(browser, url, complaints, options.page);
  try {
    await tell({ page, browser, complaints, url, somebody: new Somebody(url) });
    same(complaints.left, [], 'complaints of the page');
    await browser.close();
    process.stdout.write('done\n');
  } catch (error) {
    const shots = new URL('../../target/browser/', import.meta.url).pathname;
    mkdirSync(shots, { recursive: true });
    const shot = `${shots}${basename(process.argv[1], '.mjs')}.png`;
    const seen = await page.locator('body').innerText({ timeout: 1000 }).catch((problem) => `(${problem.message})`);
    await page.screenshot({ path: shot, timeout: 5000 }).catch(() => {});
    process.stderr.write(`${error.stack}\n\nat ${page.url()} was seen:\n${seen}\n\ncomplaints: ${complaints.left.join('\n')}\npicture: ${shot}\n`);
    // A browser that hangs is no reason to hang.
    await Promise.race([browser.close(), new Promise((resolve) => setTimeout(resolve, 3000))]);
    process.exit(1);
  }
}
