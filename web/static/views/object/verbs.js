// The actions that the server offers for an object in its current state, one button each.

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
    { verb: 'reclaim', options: { keepData: true }, label: 'Make it available, with its data', about: 'The volume becomes Available, or is reserved for one claim. It retains its data.',
      fields: [{ id: 'for', label: 'Reserve for the claim NAMESPACE/NAME (empty: any claim that fits)', known: 'persistentvolumeclaims', name: (one) => `${one.metadata.namespace}/${one.metadata.name}` }] },
    { verb: 'reclaim', options: { scrub: true }, label: 'Scrub it and make it available', about: 'The volume plugin deletes the data, then the volume becomes Available.', danger: true },
  ];
}

function ofClaim(object, state, others) {
  if (state === 'Lost') return [{ verb: 'recover', label: 'Recover its volume', about: 'Binds its volume to this claim again. If the volume was deleted, recreates it from the history first.' }];
  const used = others.some(({ object: one }) => one?.kind === 'Pod' && !OVER.includes(one.status?.phase));
  if (state !== 'Bound' || used) return [];
  return [{ verb: 'transfer', label: 'Move it to another namespace', about: 'Moves the claim together with its volume and data. No pod may be using the claim.',
    fields: [{ id: 'namespace', label: 'To namespace', known: 'namespaces', required: true }, { id: 'name', label: 'New name (empty: the same name)' }] }];
}

function ofAttachment(object) {
  const node = objects.get('nodes', '', object.spec?.nodeName || '');
  const out = (node?.spec?.taints || []).some((one) => one.key === 'node.kubernetes.io/out-of-service');
  const lost = !node || out || phase(node) !== 'Ready' || object.status?.detachError;
  if (!lost && !object.metadata.deletionTimestamp) return [];
  return [{ verb: 'release', label: 'Force detach', about: 'For a node that was deleted or is out of service. If the node can still write to the volume, data may be corrupted.', danger: true,
    fields: [{ id: 'force', label: node && !out ? `Required, because the node exists: if you are sure that it no longer writes to the volume, enter the words "${WORDS}"` : `Optional. Only if the driver no longer runs and the storage system has detached the volume, enter the words "${WORDS}"` }] }];
}

/** Returns the actions for the state of an object. */
export function verbsOf(object, others = related(object)) {
  const state = phase(object);
  const held = state === 'Terminating' && object.metadata.finalizers?.length > 0;
  const found = held ? [{ verb: 'unblock', label: 'Unblock its deletion', about: 'Removes orphaned finalizers, and no others.',
    fields: object.kind === 'PersistentVolume' ? [{ id: 'force', label: `Optional. Only if the provisioner no longer runs, enter the words "${WORDS}"` }] : [] }] : [];
  switch (object.kind) {
    case 'PersistentVolume':
      return [...ofVolume(object, state), ...found];
    case 'PersistentVolumeClaim':
      return [...ofClaim(object, state, others), ...found];
    case 'VolumeAttachment':
      // No `unblock`: `release` handles the finalizer of an attachment.
      return ofAttachment(object);
    default:
      return found;
  }
}

/** The action buttons. A started action stays until the user closes it, even if it no longer applies to the new state. */
export function Verbs({ object, kind, gone }) {
  const [begun, begin] = useState(null);
  const called = gone ? [] : verbsOf(object);
  const verbs = begun && !called.some((one) => one.label === begun.label) ? [begun, ...called] : called;
  if (!verbs.length) return null;
  const { namespace, name } = object.metadata;
  return html`<div class="verbs" role="group" aria-label="Actions">${verbs.map((one) => html`<${PlanButton} key=${one.label} kind=${kind} namespace=${namespace} name=${name} ...${one} busyWith=${(busy) => begin(busy ? one : null)} />`)}</div>`;
}
