// What can be done about an object in its state, with one button each: the safe verbs of the server.

import { html, useState } from '../../vendor/preact.js';
import { phase } from '../../state/kinds.js';
import { objects } from '../../state/objects.js';
import { related } from '../../state/relations.js';
import { PlanButton } from '../../parts/plan.js';

const WORDS = 'data may be corrupted';
const OVER = ['Succeeded', 'Failed'];

function ofVolume(object, state) {
  if (state !== 'Released' && state !== 'Failed') return [];
  return [
    { verb: 'reclaim', options: { keepData: true }, label: 'Give it back with its data', about: 'It becomes Available, or is kept for one claim, with the data that is on it.',
      fields: [{ id: 'for', label: 'For this claim only, NAMESPACE/NAME (empty: for any claim that fits)', known: 'persistentvolumeclaims', name: (one) => `${one.metadata.namespace}/${one.metadata.name}` }] },
    { verb: 'reclaim', options: { scrub: true }, label: 'Scrub it and give it back', about: 'Its data is wiped by its plugin, then it is Available.', danger: true },
  ];
}

function ofClaim(object, state, others) {
  if (state === 'Lost') return [{ verb: 'recover', label: 'Recover its volume', about: 'Its volume comes back as it was, from the history, and is bound to this claim again.' }];
  const used = others.some(({ object: one }) => one?.kind === 'Pod' && !OVER.includes(one.status?.phase));
  if (state !== 'Bound' || used) return [];
  return [{ verb: 'transfer', label: 'Move it to another namespace', about: 'The claim goes there and keeps its volume with the data. No pod uses it now.',
    fields: [{ id: 'namespace', label: 'To namespace', known: 'namespaces', required: true }, { id: 'name', label: 'Under this name (empty: the same)' }] }];
}

function ofAttachment(object) {
  const node = objects.get('nodes', '', object.spec?.nodeName || '');
  const out = (node?.spec?.taints || []).some((one) => one.key === 'node.kubernetes.io/out-of-service');
  const lost = !node || out || phase(node) !== 'Ready' || object.status?.detachError;
  if (!lost && !object.metadata.deletionTimestamp) return [];
  return [{ verb: 'release', label: 'Release it from its node', about: 'For a node that is gone or out of service. A node that may still write to the volume would destroy data.', danger: true,
    fields: [{ id: 'force', label: node && !out ? `The node is there. If you are sure that it does not write any more, say: ${WORDS}` : `Only if nobody runs its driver any more and the storage has let the volume go, say: ${WORDS}` }] }];
}

/** The verbs that the state of an object calls for. */
export function verbsOf(object, others = related(object)) {
  const state = phase(object);
  const held = state === 'Terminating' && object.metadata.finalizers?.length > 0;
  const found = held ? [{ verb: 'unblock', label: 'Unblock its deletion', about: 'Takes away the finalizers that nobody would take away any more, and no other.',
    fields: object.kind === 'PersistentVolume' ? [{ id: 'force', label: `Only if nobody runs its provisioner any more, say: ${WORDS}` }] : [] }] : [];
  switch (object.kind) {
    case 'PersistentVolume':
      return [...ofVolume(object, state), ...found];
    case 'PersistentVolumeClaim':
      return [...ofClaim(object, state, others), ...found];
    case 'VolumeAttachment':
      // What its finalizer waits for, release asks.
      return ofAttachment(object);
    default:
      return found;
  }
}

/** The buttons. A verb that has begun stays until it is left, though its work may have ended what called for it. */
export function Verbs({ object, kind, gone }) {
  const [begun, begin] = useState(null);
  const called = gone ? [] : verbsOf(object);
  const verbs = begun && !called.some((one) => one.label === begun.label) ? [begun, ...called] : called;
  if (!verbs.length) return null;
  const { namespace, name } = object.metadata;
  return html`<div class="verbs" role="group" aria-label="What can be done">${verbs.map((one) => html`<${PlanButton} key=${one.label} kind=${kind} namespace=${namespace} name=${name} ...${one} busyWith=${(busy) => begin(busy ? one : null)} />`)}</div>`;
}
