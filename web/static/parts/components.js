// Small components shared by several views: phases, ages, countdowns, links, copy buttons, notices.

import { html, useState } from '../vendor/preact.js';
import { kindOf, phase, tone } from '../state/kinds.js';
import { time } from '../state/time.js';
import { link } from '../route.js';
import { useSettings, useTick } from './hooks.js';
import { settings } from './settings.js';

/** Formats a duration as kubectl does: `5s`, `3m`, `2h`, `4d`. */
export function span(ms) {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  if (Number.isNaN(seconds)) return '';
  if (seconds < 120) return `${seconds}s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)}h`;
  return `${Math.floor(seconds / 86400)}d`;
}

export const age = (text, now = time.now()) => (text ? span(now - Date.parse(text)) : '');

/** Formats the time of day, with the date if it is not today. */
export function clockOf(at) {
  if (!at) return '';
  const date = new Date(at);
  const now = new Date();
  const year = date.getFullYear() === now.getFullYear() ? {} : { year: 'numeric' };
  const day = date.toDateString() === now.toDateString() ? '' : `${date.toLocaleDateString([], { day: 'numeric', month: 'short', ...year })} `;
  return day + date.toLocaleTimeString([], { hourCycle: 'h23' });
}

/** A state: a symbol, a colour, and the name of the state or `text`. */
export function Badge({ word, text = word }) {
  return word ? html`<span class="phase" data-tone=${tone(word)}>${text}</span>` : null;
}

/** A message of the server. Text between backticks is formatted as code. */
export const Words = ({ text = '' }) => text.split('`').map((piece, at) => (at % 2 ? html`<code>${piece}</code>` : piece));

export const Phase = ({ object }) => html`<${Badge} word=${phase(object)} />`;

/** An age, with the exact time as its title. */
export function Age({ at }) {
  useTick();
  return at ? html`<time datetime=${at} title=${at}>${age(at)}</time>` : null;
}

/** The time that remains until `until`. It stops while the page is disconnected. */
export function Countdown({ until }) {
  useTick();
  const left = Date.parse(until) - time.now();
  return html`<time class="countdown" datetime=${until} title=${until}>${left > 0 ? `in ${span(left)}` : 'due now'}</time>`;
}

/** A link to an object or an object reference. The object need not exist. */
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
      words = 'The browser blocked copying';
    }
    tell(words);
    setTimeout(() => tell(''), 1500);
  };
  return html`<button type="button" class="small" onClick=${copy}><span aria-live="polite">${done || label}</span></button>`;
}

/** A command with a copy button. */
export const Command = ({ text }) => html`<div class="command"><pre tabindex="0">${text}</pre><${Copy} text=${text} label="Copy" /></div>`;

export const Notice = ({ tone: of = '', children }) => html`<div class="notice" data-tone=${of} role=${of === 'bad' ? 'alert' : 'status'}>${children}</div>`;

/** Renders its children, which make changes, only if changes are allowed; otherwise a notice. */
export function Allow({ children }) {
  const { readOnly } = useSettings();
  const past = time.mode !== 'live';
  if (past) return html`<${Notice} tone="wait">You are viewing the past. Go back to live to make changes.<//>`;
  if (!readOnly) return children;
  return html`<div class="buttons"><span class="soft">The page is in read-only mode.</span>
    <button type="button" onClick=${() => settings.setReadOnly(false)}>Allow changes in this tab</button></div>`;
}
