// A banner above every view with the latest message of a running lab scenario. Scenarios report through Events of the ConfigMap
// default/lab, with the scenario's name as action.

import { html, useState } from '../vendor/preact.js';
import { objects } from '../state/objects.js';
import { seen } from '../state/relations.js';
import { time } from '../state/time.js';
import { useObjects, useTick } from './hooks.js';
import { visible } from './yaml.js';

const REASONS = { Begins: '', Says: '', Failed: 'bad', Ends: 'good' };
// A scenario without a message for this time, in milliseconds, is over.
const LATELY = 120000;

let kept = { list: null, last: null };

/** Returns the newest scenario event in a list. The result is cached per list. */
export function lastWord(list) {
  if (kept.list === list) return kept.last;
  let last = null;
  for (const event of list) {
    const { kind, namespace, name } = event.involvedObject || event.regarding || {};
    if (kind !== 'ConfigMap' || namespace !== 'default' || name !== 'lab' || !Object.hasOwn(REASONS, event.reason)) continue;
    // For events with the same time, the resource version decides.
    const after = !last || seen(event) > seen(last) || (seen(event) === seen(last) && Number(event.metadata.resourceVersion) > Number(last.metadata.resourceVersion));
    if (after) last = event;
  }
  kept = { list, last };
  return last;
}

export function Story() {
  useObjects();
  useTick();
  const [closed, close] = useState('');
  const event = lastWord(objects.list('events'));
  if (!event || event.metadata.uid === closed || time.now() - Date.parse(seen(event)) > LATELY) return null;
  return html`<section class="story" aria-label="Lab scenario" data-tone=${REASONS[event.reason]}>
    <p role="status"><strong>${visible(event.action || 'Scenario')}</strong> ${visible(event.message || event.note || '')}</p>
    <button type="button" class="small" onClick=${() => close(event.metadata.uid)}>Close</button></section>`;
}
