// Deletes an object, after showing the consequences.

import { html, useState } from '../vendor/preact.js';
import { insight, kindOf, path } from '../state/kinds.js';
import { objects } from '../state/objects.js';
import { related } from '../state/relations.js';
import { link } from '../route.js';
import { get, send } from '../parts/api.js';
import { Allow, Notice, Phase, Ref } from '../parts/components.js';
import { useAnswer, useObjects, useTime } from '../parts/hooks.js';
import { Plan } from '../parts/plan.js';

/** Computes the consequences of a deletion from the objects alone, for a server without the group orlop.dev. Pure. */
export function consequences(object, others) {
  const { kind, metadata, spec = {} } = object;
  const found = [];
  const of = (name) => others.filter((one) => one.object?.kind === name).map((one) => one.object);
  if (kind === 'PersistentVolumeClaim') {
    const volume = of('PersistentVolume').find((one) => one.metadata.name === spec.volumeName);
    const policy = volume?.spec.persistentVolumeReclaimPolicy;
    if (policy === 'Delete') found.push(['bad', `Its volume ${spec.volumeName} has the reclaim policy Delete: the volume and its data are deleted.`]);
    else if (policy === 'Recycle') found.push(['bad', `Its volume ${spec.volumeName} has the reclaim policy Recycle: its data is deleted.`]);
    else if (policy) found.push(['', `Its volume ${spec.volumeName} becomes Released and retains its data.`]);
    const pods = of('Pod').filter((one) => !['Succeeded', 'Failed'].includes(one.status?.phase));
    if (pods.length) found.push(['wait', `It stays Terminating while pods use it: ${pods.map((one) => one.metadata.name).join(', ')}.`]);
  }
  if (kind === 'PersistentVolume' && spec.claimRef) {
    const claim = of('PersistentVolumeClaim')[0];
    if (claim) found.push(['wait', `It stays Terminating while the claim ${spec.claimRef.namespace}/${spec.claimRef.name} is bound to it.`]);
    else if (spec.persistentVolumeReclaimPolicy === 'Delete') found.push(['bad', 'Its reclaim policy is Delete: its data is deleted.']);
  }
  if (kind === 'VolumeAttachment') found.push(['wait', `The volume is detached from ${spec.nodeName}: pods that use it there lose access.`]);
  if (kind === 'StorageClass') found.push(['', 'No more volumes are provisioned for pending claims of this class. Such a claim is bound only if a volume of this class is available or you create one. Bound claims are not affected.']);
  if (kind === 'Namespace') found.push(['bad', 'All objects in the namespace are deleted.']);
  if (metadata.finalizers?.length) found.push(['', `The object is deleted only after controllers have removed its finalizers: ${metadata.finalizers.join(', ')}.`]);
  if (!found.length) found.push(['', 'No other objects are affected.']);
  return found;
}

/** The server's preview of the deletion. */
function Preview({ object, kind }) {
  const { namespace, name, resourceVersion } = object.metadata;
  const { data, error, missing } = useAnswer(() => get(insight(kind.id, namespace, name, 'impact')), [kind.id, namespace, name, resourceVersion]);
  if (data) return html`<${Plan} plan=${data} />`;
  if (!error) return html`<p class="note">Loading …</p>`;
  const others = related(object);
  return html`${!missing && html`<${Notice} tone="wait">The server's preview cannot be loaded: ${error}<//>`}
    ${consequences(object, others).map(([tone, words]) => html`<${Notice} key=${words} tone=${tone}>${words}<//>`)}
    ${others.length > 0 && html`<h2>Related</h2><ul class="related">${others.filter((one) => one.object).slice(0, 50).map((one) => html`<li key=${one.object.metadata.uid}><span class="soft">${one.why}</span> <${Ref} object=${one.object} resource=${one.resource} /> <${Phase} object=${one.object} /></li>`)}</ul>`}`;
}

function Confirm({ object, kind }) {
  const [typed, type] = useState('');
  const [state, put] = useState({});
  const { namespace, name, uid } = object.metadata;
  const submit = async (event) => {
    event.preventDefault();
    put({ busy: true });
    try {
      // Delete only the object with this UID, not a new one with the same name.
      await send('DELETE', path(kind.id, namespace, name), { body: { kind: 'DeleteOptions', apiVersion: 'v1', preconditions: { uid }, propagationPolicy: 'Background' } });
      put({ done: true });
    } catch (error) {
      put({ error: error.message });
    }
  };
  if (state.done) return html`<${Notice} tone="wait">The deletion was requested. If the object still exists, see <a href=${`${link(object)}?tab=why`}>why</a>.<//>`;
  return html`<form class="confirm" onSubmit=${submit}>
    <label><span>Type the name ${name} to confirm</span><input value=${typed} autocomplete="off" spellcheck=${false} onInput=${(event) => type(event.target.value)} /></label>
    <div class="buttons"><button type="submit" class="danger" disabled=${typed !== name || state.busy}>Delete</button><a class="button" href=${link(object)}>Cancel</a></div>
    ${state.error && html`<${Notice} tone="bad">${state.error}<//>`}
  </form>`;
}

export function View({ route }) {
  useObjects();
  const { mode } = useTime();
  const [resource, ns, name] = route.parts;
  const kind = kindOf(resource);
  const object = kind && name ? objects.get(kind.id, ns, name) : null;
  if (!object) return html`<div><h1 tabindex="-1">${name || 'This object'} does not exist</h1><p class="note">${objects.synced ? 'It was deleted, or never existed.' : 'Loading …'}
    ${objects.synced && kind && name && html`${' '}<a href=${`${link({ namespace: ns === '-' ? '' : ns, name }, kind.id)}?tab=history`}>Its history may still be stored.</a>`}</p></div>`;
  return html`<div>
    <div class="title"><h1 tabindex="-1">Delete ${kind.kind} ${name}?</h1><${Phase} object=${object} /></div>
    ${mode === 'live' && html`<${Preview} object=${object} kind=${kind} />`}
    <${Allow}><${Confirm} key=${object.metadata.uid} object=${object} kind=${kind} /><//>
  </div>`;
}
