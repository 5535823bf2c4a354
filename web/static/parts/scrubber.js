// The timeline at the bottom of the page: all stored changes, a handle and playback. The whole page shows the state at the handle. The
// timeline also opens and saves recordings. Only this module reads and writes `at=`, the displayed revision, in the URL.

import { html, useEffect, useReducer, useRef, useState } from '../vendor/preact.js';
import { line } from '../state/line.js';
import { objects } from '../state/objects.js';
import { connection } from '../state/stream.js';
import { SPEEDS, time } from '../state/time.js';
import { adjust, route } from '../route.js';
import { save } from '../session.js';
import { TYPES, bars } from '../views/time/marks.js';
import { clockOf } from './components.js';
import { useConnection, useTime } from './hooks.js';

const BINS = 160;
const SPANS = [['all', 0], ['last 1 h', 3600000], ['last 10 min', 600000], ['last 1 min', 60000]];
const SETTLED = 400;
const WORDS = ['created', 'changed', 'deleted'];

/** Synchronizes `at=` in the URL with the displayed revision. Used once, by the shell. */
export function useMoment() {
  useEffect(() => {
    let written = '';
    let timer = 0;
    let was = 'live';
    const follow = () => {
      const at = route.query.at || '';
      // Revisions of a recording do not belong in the URL: they require the file.
      if (time.source || at === written) return;
      if (at) {
        written = at;
        time.seek(at);
      } else if (time.mode !== 'live') {
        // The user followed a link: keep the revision until they return to live mode.
        written = time.revision;
        adjust({ at: written });
      }
    };
    const note = () => {
      clearTimeout(timer);
      if (time.mode === 'live' && (was !== 'live' || time.problem)) {
        written = '';
        if (route.query.at) adjust({ at: '' });
      } else if (time.mode !== 'live') {
        timer = setTimeout(() => {
          const next = time.source ? '' : time.revision;
          if (time.mode === 'live' || (route.query.at || '') === next) return;
          written = next;
          adjust({ at: next });
        }, SETTLED);
      }
      was = time.mode;
    };
    const ends = [route.subscribe(follow), time.subscribe(note)];
    follow();
    return () => {
      clearTimeout(timer);
      ends.forEach((end) => end());
    };
  }, []);
}

/** Subscribes to the timeline's marks. */
export function useLine() {
  const [, draw] = useReducer((count) => count + 1, 0);
  useTime();
  useEffect(() => {
    let frame = 0;
    const again = () => {
      frame ||= requestAnimationFrame(() => {
        frame = 0;
        draw();
      });
    };
    const hear = () => line.refresh();
    const ends = [line.subscribe(again), time.subscribe(hear), objects.subscribe(hear)];
    // The end of the timeline advances even without changes.
    const timer = setInterval(() => {
      if (time.mode !== 'live' || connection.state !== 'live') return;
      hear();
      again();
    }, 2000);
    hear();
    return () => {
      ends.forEach((end) => end());
      clearInterval(timer);
      cancelAnimationFrame(frame);
    };
  }, []);
  return line;
}

/** Moves by a number of changes, forward or back. */
export function step(by) {
  const { list } = line.marks;
  const now = time.wanted ?? Number(time.revision);
  const from = time.mode === 'live' && !time.wanted ? list.length : line.marks.upTo(now);
  let index = Math.min(list.length, Math.max(1, from + by)) - 1;
  // All changes of one commit are one step, so skip the others of the current commit.
  if (by < 0) while (index > 0 && list[index].revision === now) index -= 1;
  if (!list[index]) return;
  time.pause();
  time.seek(list[index].revision);
}

async function toggle(from) {
  if (time.mode === 'playing') return time.pause();
  const { list } = line.marks;
  if (!list.length) return undefined;
  // In live mode and at the end, playback starts at the beginning of the displayed timeline.
  if (time.mode === 'live' || Number(time.revision) >= (list.at(-1)?.revision ?? 0)) await time.seek(list[Math.max(0, line.marks.until(from) - 1)].revision);
  return time.play();
}

const faster = (by) => time.setSpeed(SPEEDS[Math.min(SPEEDS.length - 1, Math.max(0, SPEEDS.indexOf(time.speed) + by))]);

function Recordings({ tell }) {
  const { insight } = useConnection();
  const file = useRef(null);
  const open = (event) => {
    const [one] = event.target.files;
    event.target.value = '';
    tell('');
    if (one) time.open(one).catch((problem) => tell(problem.message));
  };
  return html`<button type="button" onClick=${() => file.current.click()}>Open a recording …</button>
    ${insight && html`<a class="button" href="/apis/orlop.dev/v1/capture" download="orlop.capture"
      onClick=${(event) => save('/apis/orlop.dev/v1/capture', 'orlop.capture') && event.preventDefault()}>Save a recording</a>`}
    <input ref=${file} type="file" class="hidden" tabindex="-1" aria-label="Recording file" accept=".capture,.ndjson,.json,.txt" onChange=${open} />`;
}

/** The timeline. */
export function Scrubber({ close }) {
  const { marks, more, busy, problem } = useLine();
  const { insight } = useConnection();
  const [span, setSpan] = useState(0);
  const [error, tell] = useState('');
  const box = useRef(null);
  const wanted = useRef(0);
  const { mode, speed, source } = time;
  const to = Math.max(marks.last?.at || 0, mode === 'live' ? time.now() : 0) || 1;
  const index = mode === 'live' ? marks.list.length : marks.upTo(Number(time.revision));
  const mark = marks.list[index - 1];
  let from = span ? Math.max(marks.first?.at || 0, to - span) : marks.first?.at || to - 1;
  // Extend the displayed range so that it includes the handle.
  if (mode !== 'live' && mark && mark.at < from) from = mark.at;
  const place = mode === 'live' ? BINS : Math.min(BINS, Math.max(0, (((mark?.at ?? from) - from) / Math.max(1, to - from)) * BINS));
  const paths = bars(marks.bins(from, to, BINS));
  const words = mode === 'live' ? 'now' : `${clockOf(time.at || mark?.at)}, revision ${time.revision}, change ${index} of ${marks.list.length}`;

  const point = (event) => {
    const { left, width } = box.current.getBoundingClientRect();
    const part = Math.min(1, Math.max(0, (event.clientX - left) / width));
    const found = marks.list[Math.max(0, marks.until(from + part * (to - from)) - 1)];
    if (!found || found.revision === wanted.current) return;
    wanted.current = found.revision;
    time.seek(found.revision);
  };
  const down = (event) => {
    if (event.button) return;
    time.pause();
    wanted.current = 0;
    box.current.setPointerCapture(event.pointerId);
    point(event);
  };
  const move = (event) => box.current.hasPointerCapture(event.pointerId) && point(event);
  const keys = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const many = Math.max(1, Math.round(marks.list.length / 10));
    const does = {
      ArrowLeft: () => step(event.shiftKey ? -10 : -1), ArrowRight: () => step(event.shiftKey ? 10 : 1),
      ArrowDown: () => step(-1), ArrowUp: () => step(1), PageDown: () => step(-many), PageUp: () => step(many),
      Home: () => step(-Infinity), End: () => step(Infinity), ' ': () => toggle(from), '<': () => faster(-1), '>': () => faster(1), l: time.live,
    }[event.key];
    if (!does) return;
    does();
    event.preventDefault();
    event.stopPropagation();
  };
  const message = error || time.problem || (mode === 'live' ? problem : '');

  return html`<section class="timeline" data-mode=${mode} aria-label="Time">
    <div class="controls">
      <button type="button" onClick=${() => toggle(from)} disabled=${!marks.last} aria-label=${mode === 'playing' ? 'Pause' : 'Play'}>${mode === 'playing' ? '❚❚' : '▶'}</button>
      <button type="button" onClick=${() => step(-1)} disabled=${!marks.last} aria-label="Previous change">◂</button>
      <button type="button" onClick=${() => step(1)} disabled=${!marks.last || mode === 'live'} aria-label="Next change">▸</button>
      <button type="button" class="live" onClick=${time.live} disabled=${mode === 'live' && !time.busy}>${mode === 'live' && !time.busy ? '● Live' : 'Back to live'}</button>
      <label><span>Speed</span> <select value=${String(speed)} onChange=${(event) => time.setSpeed(Number(event.target.value))}>
        ${SPEEDS.map((each) => html`<option key=${each} value=${String(each)} selected=${each === speed}>${each}×</option>`)}</select></label>
      <label><span>Range</span> <select value=${String(span)} onChange=${(event) => setSpan(Number(event.target.value))}>
        ${SPANS.map(([name, each]) => html`<option key=${each} value=${String(each)}>${name}</option>`)}</select></label>
      <span class="place" role=${mode === 'playing' ? null : 'status'}>${source && html`<strong>${source}</strong> `}${time.busy ? 'loading …' : words}</span>
      <span class="grow"></span>
      <${Recordings} tell=${tell} />
      ${close && html`<button type="button" onClick=${close} aria-label="Close the timeline">✕</button>`}
    </div>
    ${message && html`<p class="problem" role="alert">${message}</p>`}
    ${insight === false && !source ? html`<p class="note">This server provides no history.</p>` : html`
    <div ref=${box} class="line" role="slider" tabindex="0" aria-label="Revision shown" aria-valuemin="0" aria-valuemax=${marks.list.length}
      aria-valuenow=${index} aria-valuetext=${mode === 'playing' ? 'playing' : words} aria-keyshortcuts="ArrowLeft ArrowRight PageUp PageDown Home End Space"
      onPointerDown=${down} onPointerMove=${move} onKeyDown=${keys}>
      <svg viewBox=${`0 0 ${BINS} 100`} preserveAspectRatio="none" aria-hidden="true">
        ${paths.map((d, type) => html`<path key=${type} class="bars" data-type=${TYPES[type]} d=${d} />`)}
        ${mode !== 'live' && html`<rect class="ahead" x=${place} y="0" width=${BINS - place} height="100" />`}
        <path class="handle" d=${`M${place} 0V100`} />
      </svg></div>
    <div class="ends"><span>${clockOf(marks.first && from)} ${more && html`<button type="button" class="link" disabled=${busy} onClick=${line.earlier}>${busy ? 'loading …' : 'earlier changes'}</button>`}</span>
      <span class="keys-of-line">${TYPES.map((type, i) => html`<span key=${type} class="type" data-type=${type}>${WORDS[i]}</span> `)}</span>
      <span>${marks.first ? clockOf(to) : ''}</span></div>`}
  </section>`;
}
