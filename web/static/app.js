// The shell: navigation, connection state, search, keyboard shortcuts, theme and read-only mode. The overview, graph, state machine and time
// views are loaded on demand.

import { session } from './session.js';
import { Component, html, render, useEffect, useRef, useState } from './vendor/preact.js';
import { KINDS, kindOf } from './state/kinds.js';
import { objects } from './state/objects.js';
import { start } from './state/stream.js';
import { time } from './state/time.js';
import { adjust, go, route, write } from './route.js';
import { useConnection, useObjects, useSession, useSettings, useTime } from './parts/hooks.js';
import { Notice, clockOf } from './parts/components.js';
import { keepFocus } from './parts/focus.js';
import { Scrubber, useMoment } from './parts/scrubber.js';
import { Search } from './parts/search.js';
import { settings } from './parts/settings.js';
import { Story } from './parts/story.js';
import { View as Create } from './views/create.js';
import { Help } from './views/help.js';
import { View as List } from './views/list.js';
import { View as Obj } from './views/object.js';
import { View as Remove } from './views/remove.js';
import { SignIn } from './views/sign_in.js';

const PICTURES = [['overview', 'Overview'], ['graph', 'Graph'], ['machines', 'State machines'], ['time', 'Time']];
const GO = {
  o: 'overview', g: 'graph', m: 'machines', t: 'time', c: 'list/persistentvolumeclaims', v: 'list/persistentvolumes', p: 'list/pods', e: 'list/events',
  a: 'list/volumeattachments.storage.k8s.io', s: 'list/storageclasses.storage.k8s.io', n: 'list/nodes',
};
const TABS = { s: 'summary', w: 'why', y: 'yaml', e: 'edit', h: 'history' };
const HOME = 'overview';
const OTHERWISE = 'list/persistentvolumeclaims';

const loaded = new Map([['list', List], ['object', Obj], ['create', Create], ['remove', Remove]]);
/** Loads a view. The caller reports a failure and offers a retry. */
async function load(name) {
  if (loaded.has(name)) return loaded.get(name);
  const module = await import(`./views/${name}.js`);
  loaded.set(name, module.View);
  return module.View;
}

const isView = (name) => loaded.has(name) || PICTURES.some(([id]) => id === name);

/** Preloads all views while the page is idle, so that recordings can be viewed after the server has stopped. */
function loadAll() {
  const idle = globalThis.requestIdleCallback || ((fn) => setTimeout(fn, 1000));
  idle(() => PICTURES.forEach(([name]) => load(name).catch(() => {})));
}

/** An error boundary: an error in one view does not affect the rest of the page. */
class Fence extends Component {
  componentDidCatch(error) {
    this.setState({ error });
  }
  // Create the view here instead of passing it as a child. The component would retain its first child, and through rows that are not
  // rendered again, everything that was ever rendered.
  render({ View, at }, { error }) {
    if (!error) return html`<${View} route=${at} />`;
    return html`<${Notice} tone="bad"><p>This part of the page failed: ${error.message}</p>
      <button type="button" onClick=${() => this.setState({ error: null })}>Try again</button><//>`;
  }
}

const WORDS = { connecting: 'connecting', live: 'live', reconnecting: 'reconnecting', offline: 'offline', paused: 'paused' };

function Connection() {
  const { state, text, since } = useConnection();
  const { mode, busy } = useTime();
  if (busy && mode === 'live') return html`<p id="connection" class="badge" role="status" data-state="connecting">loading history …</p>`;
  if (mode !== 'live') return html`<p id="connection" class="badge" role="status" data-state="past">the past</p>`;
  const words = state === 'live' || !since ? WORDS[state] : `${WORDS[state]}, as of ${clockOf(since)}`;
  return html`<p id="connection" class="badge" role="status" data-state=${state} title=${text}>${words}</p>`;
}

function Navigation({ open, close }) {
  useObjects();
  const at = route.view === 'list' ? kindOf(route.parts[0])?.id : route.view === 'object' ? kindOf(route.parts[0])?.id : null;
  return html`<nav id="navigation" aria-label="Views" data-open=${String(open)} onClick=${(event) => event.target.closest('a') && close()}>
    <ul>${PICTURES.map(([id, title]) => html`<li key=${id}><a href=${write(id)} aria-current=${route.view === id ? 'page' : null}>${title}</a></li>`)}</ul>
    <ul>${KINDS.filter((kind) => objects.count(kind.id) || !kind.group.includes('snapshot')).map((kind) => html`<li key=${kind.id}>
      <a href=${write(`list/${kind.id}`)} aria-current=${at === kind.id ? 'page' : null}><span>${kind.title}</span> <span class="count">${objects.count(kind.id) || ''}</span></a></li>`)}</ul>
    <ul><li><a href=${write('create')} aria-current=${route.view === 'create' ? 'page' : null}>New …</a></li><li><a href="/docs">API</a></li></ul>
  </nav>`;
}

const typing = (target) => /^(input|textarea|select)$/i.test(target?.tagName || '') || Boolean(target?.isContentEditable);

function Body() {
  const [view, put] = useState(() => (loaded.has(route.view) ? { name: route.view, View: loaded.get(route.view) } : null));
  const [error, tell] = useState(null);
  const [tries, again] = useState(0);
  const name = route.view || HOME;
  const main = useRef(null);
  const place = [name, ...route.parts].join('/');
  const first = useRef(true);
  useEffect(() => {
    let mine = true;
    tell(null);
    if (!isView(name)) return undefined;
    load(name).then((View) => mine && put({ name, View }), (problem) => {
      if (!mine) return;
      // Without a view in the URL, fall back to a view that is always loaded.
      if (route.view) tell(problem);
      else go(OTHERWISE, {}, { replace: true });
    });
    return () => {
      mine = false;
    };
  }, [name, tries]);
  // After navigation, move the focus from the link to the title.
  useEffect(() => {
    if (first.current) first.current = !view;
    // The view may arrive after the user has begun to type elsewhere.
    else if (!typing(document.activeElement)) main.current?.querySelector('h1')?.focus({ preventScroll: true });
    const title = main.current?.querySelector('h1')?.textContent;
    document.title = title ? `${title} · orlop` : 'orlop';
  }, [place, view]);
  const kind = loaded.has(name) && !PICTURES.some(([id]) => id === name) ? place : name;
  const picture = PICTURES.find(([id]) => id === name);
  if (!isView(name)) {
    return html`<main id="main" ref=${main}><h1 tabindex="-1">Page not found</h1>
      <p>There is no view named ${name}. Go to the <a href=${write(HOME)}>overview</a>.</p></main>`;
  }
  return html`<main id="main" ref=${main} data-view=${name}>
    ${picture && !error && html`<h1 class="hidden" tabindex="-1">${picture[1]}</h1>`}
    ${error ? html`<div><h1 tabindex="-1">This view did not load</h1><${Notice} tone="bad"><p>${error.message}</p><button type="button" onClick=${() => again(tries + 1)}>Try again</button><//></div>`
      : view?.name === name ? html`<${Fence} key=${kind} View=${view.View} at=${route} />` : html`<p class="note">Loading …</p>`}
  </main>`;
}

function Stale() {
  const { state, text, since } = useConnection();
  const { mode } = useTime();
  if (mode !== 'live' || state === 'live' || !since) return null;
  return html`<p class="stale" role="status">Not live: this is the state as of ${clockOf(since)}${text && state !== 'paused' ? ` (${text})` : ''}.</p>`;
}

function useKeys({ help, setHelp }) {
  const waiting = useRef(0);
  useEffect(() => {
    const press = (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
      if (event.key === 'Escape') {
        if (document.querySelector('dialog[open]')) return;
        if (typing(event.target)) event.target.blur();
        else if (['object', 'remove', 'create'].includes(route.view)) go(`list/${kindOf(route.parts[0])?.id || 'persistentvolumeclaims'}`);
        return;
      }
      if (typing(event.target) || help) return;
      const done = () => event.preventDefault();
      if (Date.now() - waiting.current < 1500 && GO[event.key]) {
        waiting.current = 0;
        done();
        return go(GO[event.key]);
      }
      waiting.current = 0;
      const object = route.view === 'object';
      if (event.key === 'g') waiting.current = Date.now();
      else if (event.key === '/') { done(); document.getElementById('search')?.focus(); }
      else if (event.key === '?') setHelp(true);
      else if (event.key === 't') settings.nextTheme();
      else if (event.key === 'f') { done(); document.getElementById('filter')?.focus(); }
      else if (event.key === 'n') go(`create/${route.view === 'list' ? route.parts[0] : ''}`);
      else if (object && TABS[event.key]) adjust({ tab: event.key === 's' ? '' : TABS[event.key] });
      else if (object && event.key === 'd') go(`remove/${route.parts.map(encodeURIComponent).join('/')}`);
      else if (route.view === 'list' && /^(j|k|ArrowDown|ArrowUp)$/.test(event.key)) {
        const box = document.querySelector('.scroller');
        if (box && !box.contains(event.target)) { done(); box.querySelector('a[data-index]')?.focus(); }
      }
    };
    document.addEventListener('keydown', press);
    return () => document.removeEventListener('keydown', press);
  }, [help]);
}

function App() {
  const [, draw] = useState(0);
  const [menu, setMenu] = useState(false);
  const [help, setHelp] = useState(false);
  const [bar, setBar] = useState(false);
  const { theme, readOnly } = useSettings();
  useSession();
  const { state, since } = useConnection();
  const { mode, problem } = useTime();
  useEffect(() => route.subscribe(() => { draw((count) => count + 1); setMenu(false); }), []);
  useMoment();
  useKeys({ help, setHelp });
  // The timeline also opens to report a revision that could not be loaded.
  const open = bar || mode !== 'live' || route.view === 'time' || Boolean(problem);
  const stale = mode === 'live' && state !== 'live' && since;
  return html`
    <a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); document.querySelector('main h1')?.focus(); }}>Skip to content</a>
    <header>
      <button type="button" class="menu" aria-expanded=${String(menu)} aria-controls="navigation" onClick=${() => setMenu(!menu)}>Menu</button>
      <a class="brand" href=${write(HOME)}>orlop</a>
      <${Connection} />
      <${Search} />
      <div class="tools">
        <button type="button" aria-pressed=${String(readOnly)} title="In read-only mode, the page makes no changes" onClick=${() => settings.setReadOnly(!readOnly)}>${readOnly ? 'Read only' : 'Changes allowed'}</button>
        <button type="button" aria-expanded=${String(open)} onClick=${() => setBar(!bar)}>Rewind</button>
        <button type="button" onClick=${settings.nextTheme} aria-keyshortcuts="t">Theme: ${theme}</button>
        <button type="button" onClick=${() => setHelp(true)} aria-keyshortcuts="?" aria-label="Keyboard shortcuts and help">?</button>
      </div>
    </header>
    <div class="columns" data-stale=${stale ? 'true' : null}>
      ${session.required ? html`<div class="content"><${SignIn} /></div>` : html`<${Navigation} open=${menu} close=${() => setMenu(false)} />
      <div class="content"><${Stale} /><${Story} /><${Body} /></div>`}
    </div>
    ${open && html`<${Scrubber} close=${route.view === 'time' || mode !== 'live' ? null : () => { setBar(false); time.live(); }} />`}
    <${Help} open=${help} close=${() => setHelp(false)} />`;
}

const root = document.getElementById('app');
root.replaceChildren();
render(html`<${App} />`, root);
keepFocus(root);
start();
loadAll();
