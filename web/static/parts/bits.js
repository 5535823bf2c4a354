// Small pieces that several views have: phases, ages, countdowns, links, copy buttons, notices.

import { html, useState } from '../vendor/preact.js';
import { kindOf, phase, tone } from '../state/kinds.js';
import { time } from '../state/time.js';
import { link } from '../route.js';
import { useSettings, useTick } from './hooks.js';
import { settings } from './settings.js';

/** `5s`, `3m`, `2h`, `4d`, as kubectl tells it. */
export function span(ms) {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  if (Number.isNaN(seconds)) return '';
  if (seconds < 120) return `${seconds}s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)}h`;
  return `${Math.floor(seconds / 86400)}d`;
}

export const age = (text, now = time.now()) => (text ? span(now - Date.parse(text)) : '');

/** The time of day, with the day when it is another. */
export function clockOf(at) {
  if (!at) return '';
  const date = new Date(at);
  const now = new Date();
  const year = date.getFullYear() === now.getFullYear() ? {} : { year: 'numeric' };
  const day = date.toDateString() === now.toDateString() ? '' : `${date.toLocaleDateString([], { day: 'numeric', month: 'short', ...year })} `;
  return day + date.toLocaleTimeString([], { hourCycle: 'h23' });
}

/** A state: a shape, a colour and its word, or other words for it. */
export function Badge({ word, text = word }) {
  return word ? html`<span class="phase" data-tone=${tone(word)}>${text}</span>` : null;
}

/** Words of the server: what stands between backticks is a command. */
export const Words = ({ text = '' }) => text.split('`').map((piece, at) => (at % 2 ? html`<code>${piece}</code>` : piece));

export const Phase = ({ object }) => html`<${Badge} word=${phase(object)} />`;

/** How old something is; the exact time is its title. */
export function Age({ at }) {
  useTick();
  return at ? html`<time datetime=${at} title=${at}>${age(at)}</time>` : null;
}

/** How long until then. It stands still when the connection is down. */
export function Countdown({ until }) {
  useTick();
  const left = Date.parse(until) - time.now();
  return html`<time class="countdown" datetime=${until} title=${until}>${left > 0 ? `in ${span(left)}` : 'due now'}</time>`;
}

/** A link to an object, or to what is said to be one. */
export function Ref({ object, resource, children }) {
  const { namespace, name } = object.metadata || object;
  const kind = kindOf(resource || object.__resource || object.resource || object.kind);
  const words = children || `${kind ? `${kind.kind} ` : ''}${namespace ? `${namespace}/` : ''}${name}`;
  return kind ? html`<a href=${link(object, kind.id)}>${words}</a>` : html`<span>${words}</span>`;
}

export function Copy({ text, label }) {
  const [done, tell] = useState('');
  const copy = async () => {
    let words = 'Copied';
    try {
      await navigator.clipboard.writeText(typeof text === 'function' ? text() : text);
    } catch {
      words = 'The browser does not allow this';
    }
    tell(words);
    setTimeout(() => tell(''), 1500);
  };
  return html`<button type="button" class="small" onClick=${copy}><span aria-live="polite">${done || label}</span></button>`;
}

/** A command to copy. */
export const Command = ({ text }) => html`<div class="command"><pre tabindex="0">${text}</pre><${Copy} text=${text} label="Copy" /></div>`;

export const Notice = ({ tone: of = '', children }) => html`<div class="notice" data-tone=${of} role=${of === 'bad' ? 'alert' : 'status'}>${children}</div>`;

/** What a view shows instead of what would change things, before that is allowed. */
export function Allow({ children }) {
  const { readOnly } = useSettings();
  const past = time.mode !== 'live';
  if (past) return html`<${Notice} tone="wait">You are viewing the past. Go back to live to make changes.<//>`;
  if (!readOnly) return children;
  return html`<div class="buttons"><span class="soft">The page is in read-only mode.</span>
    <button type="button" onClick=${() => settings.setReadOnly(false)}>Allow changes in this tab</button></div>`;
}
