// Countdowns to events at a known time: forced detach, back-off, lease expiry, eviction, the grace period of a deletion. `countdowns`
// reads them from an object and is pure. The component uses the page's clock, which stops at past revisions and while the page is
// disconnected.

import { html, useEffect, useState } from '../vendor/preact.js';
import { time } from '../state/time.js';
import { kindOf } from '../state/kinds.js';

const DETACH = 'orlop.dev/detach-not-before';
const DAY = 86400000;

/** Parses a duration such as `1m30s`, `500ms` or `2h` into milliseconds. Returns NaN if the text is not a duration. */
export function duration(text) {
  const units = { h: 3600000, m: 60000, s: 1000, ms: 1, us: 0.001, 'µs': 0.001, ns: 0.000001 };
  let [sum, rest] = [0, text];
  for (;;) {
    const found = /^(\d+(?:\.\d+)?)(ms|us|µs|ns|h|m|s)/.exec(rest);
    if (!found) return rest === '' && text !== '' ? sum : NaN;
    sum += Number(found[1]) * units[found[2]];
    rest = rest.slice(found[0].length);
  }
}

/** Formats milliseconds as `0:07`, `4:32`, `1:04:05` or `3 d 4 h`; negative values have a minus sign. */
export function clock(milliseconds) {
  const sign = milliseconds < 0 ? '−' : '';
  // Round up, so that the countdown does not display 0:00 before its end.
  const seconds = Math.abs(Math.ceil(milliseconds / 1000));
  const [h, m, s] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60];
  const two = (number) => String(number).padStart(2, '0');
  if (h >= 48) return `${sign}${Math.floor(h / 24)} d ${h % 24} h`;
  return h ? `${sign}${h}:${two(m)}:${two(s)}` : `${sign}${m}:${two(s)}`;
}

function backoffs(pod) {
  const all = [...(pod.status?.initContainerStatuses || []), ...(pod.status?.containerStatuses || [])];
  return all.flatMap((container) => {
    const { reason, message = '' } = container.state?.waiting || {};
    if (reason !== 'CrashLoopBackOff') return [];
    const pause = duration(/back-off ([0-9hmsµun.]+)/.exec(message)?.[1] || '');
    const since = Date.parse(container.lastState?.terminated?.finishedAt || '');
    if (Number.isNaN(pause + since)) return [];
    return [{ what: `restart of ${container.name}`, at: since + pause, since, tone: 'wait' }];
  });
}

function evictions(pod, node) {
  return (node?.spec?.taints || []).flatMap((taint) => {
    if (taint.effect !== 'NoExecute' || !taint.timeAdded) return [];
    const fits = (t) => (!t.key || t.key === taint.key) && (!t.effect || t.effect === taint.effect);
    const patient = (pod.spec?.tolerations || []).filter(fits);
    if (patient.some((t) => t.tolerationSeconds === undefined)) return [];
    const since = Date.parse(taint.timeAdded);
    const seconds = Math.min(...patient.map((t) => t.tolerationSeconds));
    if (!Number.isFinite(seconds)) return [];
    return [{ what: 'eviction', at: since + seconds * 1000, since, tone: 'bad' }];
  });
}

/**
 * Returns the coming events of an object as `{what, at, since, tone}`, with times in milliseconds; `since` may be absent.
 * `node` is the node of a pod, if known. Events more than a day before `now` are omitted.
 */
export function countdowns(object, { node, now = time.now() } = {}) {
  const { metadata = {}, spec = {} } = object;
  const found = [];
  const detach = Date.parse(metadata.annotations?.[DETACH] || '');
  if (!Number.isNaN(detach)) found.push({ what: 'forced detach', at: detach, tone: 'bad' });
  switch (kindOf(object.__resource || object.kind)?.kind || object.kind) {
    case 'Pod': {
      found.push(...backoffs(object), ...evictions(object, node));
      const end = Date.parse(metadata.deletionTimestamp || '');
      const grace = metadata.deletionGracePeriodSeconds;
      if (grace) found.push({ what: 'end of grace period', at: end, since: end - grace * 1000, tone: 'wait' });
      break;
    }
    case 'Lease': {
      const since = Date.parse(spec.renewTime || '');
      const at = since + (spec.leaseDurationSeconds || NaN) * 1000;
      if (!Number.isNaN(at) && spec.holderIdentity) found.push({ what: 'lease expiry', at, since, tone: 'wait' });
      break;
    }
    default:
  }
  return found.filter(({ at }) => at > now - DAY).sort((a, b) => a.at - b.at);
}

// All countdowns share one timer, which runs only while countdowns are displayed.
const readers = new Set();
let timer = 0;
function tick() {
  for (const fn of [...readers]) fn();
}
function useSeconds() {
  const [, draw] = useState(0);
  useEffect(() => {
    const fn = () => draw((count) => count + 1);
    readers.add(fn);
    timer ||= setInterval(tick, 1000);
    const unsubscribe = time.subscribe(fn);
    return () => {
      readers.delete(fn);
      unsubscribe();
      if (readers.size) return;
      clearInterval(timer);
      timer = 0;
    };
  }, []);
}

const R = 6;
const ROUND = 2 * Math.PI * R;

/** One countdown: a ring that empties, and text. `until` and `since` are times as text or in milliseconds. */
export function Countdown({ until, since, what = '', tone = 'wait' }) {
  useSeconds();
  const at = typeof until === 'number' ? until : Date.parse(until);
  if (Number.isNaN(at)) return null;
  const begun = typeof since === 'number' ? since : Date.parse(since || '');
  const left = at - time.now();
  const part = begun < at ? Math.min(1, Math.max(0, left / (at - begun))) : NaN;
  const text = new Date(at).toISOString();
  return html`<span class="count-down" data-tone=${left > 0 ? tone : 'bad'}>
    ${!Number.isNaN(part) && html`<svg viewBox="0 0 16 16" width="14" height="14" aria-hidden="true">
      <circle class="whole" cx="8" cy="8" r=${R} /><circle class="left" cx="8" cy="8" r=${R}
        stroke-dasharray=${`${ROUND * part} ${ROUND}`} transform="rotate(-90 8 8)" /></svg>`}
    ${what && `${what} `}<time datetime=${text} title=${text}>${left > 0 ? `in ${clock(left)}` : `overdue by ${clock(-left)}`}</time></span>`;
}

/** All countdowns of an object. */
export function Countdowns({ object, node }) {
  return countdowns(object, { node }).map((one) => html`<${Countdown} key=${one.what} what=${one.what} until=${one.at} since=${one.since} tone=${one.tone} />`);
}
