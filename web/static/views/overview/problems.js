// Finds problems from the objects alone. Pure. Where the server provides an explanation (`why`), it replaces the text from this module.

import { kindOf, phase } from '../../state/kinds.js';
import { countdowns } from '../../parts/countdown.js';

// Younger objects, in milliseconds, may still be in progress.
const YOUNG = 30000;
const NO_PROVISIONER = 'kubernetes.io/no-provisioner';

const named = ({ metadata: { namespace, name } }) => (namespace ? `${namespace}/${name}` : name);
const since = (object) => Date.parse(object.metadata.creationTimestamp || '');
const some = (list, most = 3) => {
  const rest = list.length > most ? ` and ${list.length - most} more` : '';
  return list.slice(0, most).join(', ') + rest;
};
const counted = (noun, list) => `${noun}${list.length === 1 ? '' : 's'} ${some(list)}`;

/** Builds the lookup tables for the rules below, once per round. */
export function world(list) {
  const table = (resource) => new Map(list(resource).map((object) => [named(object), object]));
  const found = {
    claims: table('persistentvolumeclaims'), volumes: table('persistentvolumes'), pods: table('pods'), nodes: table('nodes'),
    classes: table('storageclasses'), drivers: table('csidrivers'), attachments: table('volumeattachments'),
    users: new Map(), attached: new Map(), warnings: new Map(), free: new Map(),
  };
  const add = (map, key, value) => {
    if (!map.has(key)) map.set(key, []);
    map.get(key).push(value);
  };
  for (const pod of found.pods.values()) {
    for (const claim of claimsOf(pod)) add(found.users, claim, pod);
  }
  for (const attachment of found.attachments.values()) {
    const volume = attachment.spec?.source?.persistentVolumeName;
    if (volume) add(found.attached, volume, attachment);
  }
  for (const volume of found.volumes.values()) {
    if (phase(volume) === 'Available') add(found.free, volume.spec?.storageClassName || '', volume);
  }
  for (const event of list('events')) {
    const { uid } = event.involvedObject || event.regarding || {};
    if (event.type !== 'Warning' || !uid) continue;
    const before = found.warnings.get(uid);
    if (!before || seen(before) < seen(event)) found.warnings.set(uid, event);
  }
  return found;
}

const seen = (event) => event.series?.lastObservedTime || event.lastTimestamp || event.eventTime || event.metadata.creationTimestamp || '';

/** Returns the claims of a pod, including those of its ephemeral volumes. */
function claimsOf({ metadata: { namespace, name }, spec = {} }) {
  return (spec.volumes || []).flatMap((volume) => {
    if (volume.persistentVolumeClaim) return [`${namespace}/${volume.persistentVolumeClaim.claimName}`];
    return volume.ephemeral ? [`${namespace}/${name}-${volume.name}`] : [];
  });
}

const over = (pod) => ['Succeeded', 'Failed'].includes(pod.status?.phase);
const users = (w, claim) => (w.users.get(named(claim)) || []).filter((pod) => !over(pod));

function claim(object, w, now) {
  const { spec = {} } = object;
  switch (phase(object)) {
    case 'Lost': {
      const volume = w.volumes.get(spec.volumeName);
      if (!volume) return problem('LostVolume', 'attention', `Its volume ${spec.volumeName} does not exist.`);
      return problem('LostVolume', 'attention', `Its volume ${spec.volumeName} is bound to another claim, or to an earlier claim of the same name.`);
    }
    case 'Pending':
      return pending(object, w, now);
    case 'Bound': {
      const failed = (object.status?.conditions || []).find((c) => /Error$/.test(c.type) && c.status === 'True');
      return failed ? problem('ResizeFailed', 'attention', failed.message || `${failed.type}.`) : null;
    }
    default:
      return null;
  }
}

function pending(object, w, now) {
  const { spec = {} } = object;
  if (spec.volumeName) {
    const volume = w.volumes.get(spec.volumeName);
    if (!volume) return problem('NoSuchVolume', 'attention', `It requests the volume ${spec.volumeName}, which does not exist.`);
    const other = volume.spec?.claimRef;
    if (other && (other.name !== object.metadata.name || other.namespace !== object.metadata.namespace)) {
      return problem('VolumeTaken', 'attention', `It requests the volume ${spec.volumeName}, which is reserved for the claim ${other.namespace}/${other.name}.`);
    }
  }
  const name = spec.storageClassName;
  const free = (w.free.get(name || '') || []).length;
  const kind = name ? w.classes.get(name) : undefined;
  const warning = w.warnings.get(object.metadata.uid);
  const lastWarning = warning ? ` Last warning: ${warning.message || warning.note || warning.reason}` : '';
  if (kind?.volumeBindingMode === 'WaitForFirstConsumer') {
    const pods = users(w, object);
    if (!pods.length) return problem('NoConsumer', 'waiting', `Class ${name} delays binding until a pod uses the claim, and no pod uses it.`);
    const scheduled = object.metadata.annotations?.['volume.kubernetes.io/selected-node'];
    if (!scheduled) return problem('PodNotPlaced', 'attention', `It waits for ${counted('pod', pods.map(named))} to be scheduled.${lastWarning}`);
  }
  if (kind && kind.provisioner && kind.provisioner !== NO_PROVISIONER && !spec.volumeName) {
    const absent = !w.drivers.has(kind.provisioner) && !kind.provisioner.startsWith('kubernetes.io/');
    if (absent) return problem('NoDriver', 'attention', `The driver ${kind.provisioner} of its class ${name} is not registered.${lastWarning}`);
    if (warning) return problem('ProvisioningFailed', 'attention', warning.message || warning.note || warning.reason);
    return now - since(object) < YOUNG ? null : problem('Provisioning', 'waiting', `${kind.provisioner} has not provisioned a volume for the claim yet.`);
  }
  if (now - since(object) < YOUNG / 10) return null;
  const which = name ? `of class ${name}` : 'without a class';
  if (name && !kind && !free) return problem('NoSuchClass', 'attention', `The class ${name} does not exist, and no available volume belongs to it.`);
  if (!free) return problem('NoVolume', 'attention', `No volume ${which} is available, and no provisioner can create one.`);
  return problem('NoVolumeFits', 'attention', `${free === 1 ? '1 volume' : `${free} volumes`} ${which} ${free === 1 ? 'is available, but does not fit' : 'are available, but none of them fits'}.`);
}

function volume(object, w) {
  const { spec = {}, status = {} } = object;
  const of = spec.claimRef ? `${spec.claimRef.namespace}/${spec.claimRef.name}` : '';
  switch (phase(object)) {
    case 'Failed':
      return problem('VolumeFailed', 'attention', status.message || 'Reclaiming failed without a message.');
    case 'Released': {
      if (spec.persistentVolumeReclaimPolicy === 'Retain') {
        return problem('Released', 'attention', `Its claim ${of} was deleted. The volume retains its data and cannot be bound until it is reclaimed manually.`);
      }
      const warning = w.warnings.get(object.metadata.uid);
      const doing = spec.persistentVolumeReclaimPolicy === 'Recycle' ? 'scrubbed' : 'deleted';
      const lastWarning = warning ? ` Last warning: ${warning.message || warning.note || warning.reason}` : '';
      return problem('Reclaiming', warning ? 'attention' : 'waiting', `Its claim ${of} was deleted; the volume is being ${doing}.${lastWarning}`);
    }
    default:
      return null;
  }
}

function attachment(object, w, now) {
  const { spec = {}, status = {} } = object;
  const failed = status.attachError || status.detachError;
  const doing = status.detachError ? 'Detaching' : 'Attaching';
  const where = `${spec.source?.persistentVolumeName || 'a volume'} on ${spec.nodeName}`;
  if (failed) return problem('AttachFailed', 'attention', `${doing} ${where} failed: ${failed.message || 'no message'}`);
  if (!w.nodes.has(spec.nodeName)) return problem('NodeGone', 'attention', `Its node ${spec.nodeName} does not exist; ${where} is still reported as attached.`);
  const [forced] = countdowns(object, { now });
  if (forced) return problem('DetachWaiting', 'waiting', `No pod uses ${where} any more, but the node has not unmounted it.`);
  if (!status.attached && now - since(object) > 2 * YOUNG) return problem('Attaching', 'waiting', `${spec.attacher} has not attached ${where} yet.`);
  return null;
}

function pod(object, w) {
  const claims = claimsOf(object);
  if (!claims.length || over(object)) return null;
  const here = object.spec?.nodeName;
  if (phase(object) !== 'Pending') return null;
  const placed = (object.status?.conditions || []).find((c) => c.type === 'PodScheduled');
  if (!here) {
    const gone = claims.filter((name) => !w.claims.has(name));
    if (gone.length) return problem('NoClaim', 'attention', `Its ${counted('claim', gone)} ${gone.length === 1 ? 'does' : 'do'} not exist.`);
    return placed?.status === 'False' && placed.message ? problem('NotPlaced', 'attention', placed.message) : null;
  }
  for (const name of claims) {
    const held = w.claims.get(name)?.spec?.volumeName;
    const single = (w.volumes.get(held)?.spec?.accessModes || []).every((mode) => mode.startsWith('ReadWriteOnce'));
    const elsewhere = (w.attached.get(held) || []).filter((a) => a.spec.nodeName !== here);
    if (!held || !single || !elsewhere.length) continue;
    const [holder] = (w.users.get(name) || []).filter((p) => p !== object && p.spec?.nodeName === elsewhere[0].spec.nodeName);
    const who = holder ? `, where pod ${named(holder)} uses it` : '';
    return { ...problem('MultiAttach', 'attention', `Volume ${held} is still attached to ${elsewhere[0].spec.nodeName}${who}; it can be attached to one node only.`), about: elsewhere[0] };
  }
  const warning = w.warnings.get(object.metadata.uid);
  return warning ? problem('PodWaits', 'attention', warning.message || warning.note || warning.reason) : null;
}

function node(object, w) {
  if (phase(object) === 'Ready') return null;
  let held = 0;
  for (const one of w.attachments.values()) if (one.spec?.nodeName === object.metadata.name) held += 1;
  const said = (object.status?.conditions || []).find((c) => c.type === 'Ready')?.message;
  const volumes = held === 1 ? '1 volume is' : `${held} volumes are`;
  return problem('NodeNotReady', 'attention', `The node is not ready${said ? ` (${said})` : ''}; ${volumes} attached to it.`);
}

/** Describes why a finalizer has not been removed. */
function held(object, finalizer, w) {
  if (finalizer === 'kubernetes.io/pvc-protection') {
    const pods = users(w, object);
    return pods.length ? `${counted('pod', pods.map(named))} ${pods.length === 1 ? 'uses' : 'use'} the claim` : 'the finalizer kubernetes.io/pvc-protection has not been removed yet, although no pod uses the claim any more';
  }
  if (finalizer === 'kubernetes.io/pv-protection') {
    const ref = object.spec?.claimRef;
    return ref && w.claims.has(`${ref.namespace}/${ref.name}`) ? `the claim ${ref.namespace}/${ref.name} is bound to the volume` : 'the finalizer kubernetes.io/pv-protection has not been removed yet, although no claim is bound to the volume any more';
  }
  if (finalizer.startsWith('external-attacher/')) {
    const at = (w.attached.get(object.metadata.name) || []).map((a) => a.spec.nodeName);
    return at.length ? `the volume is attached to ${some(at)}` : `the driver has not removed the finalizer ${finalizer}`;
  }
  return `no controller has removed the finalizer ${finalizer}`;
}

function terminating(object, w, now) {
  const begun = Date.parse(object.metadata.deletionTimestamp);
  if (now - begun < YOUNG) return null;
  const by = (object.metadata.finalizers || []).map((finalizer) => held(object, finalizer, w));
  return problem('Terminating', 'attention', by.length ? `Its deletion is blocked: ${by.join('; ')}.` : 'Its deletion is waiting for the node agent.', begun);
}

const problem = (code, severity, reason, at) => ({ code, severity, reason, at });

const RULES = {
  persistentvolumeclaims: claim, persistentvolumes: volume, volumeattachments: attachment, pods: pod, nodes: node,
};

/** The headings of the groups, in order: problems that endanger data come first. */
export const CODES = [
  ['LostVolume', 'Claims whose volume is lost'], ['VolumeFailed', 'Failed volumes'], ['NodeNotReady', 'Nodes not ready'],
  ['MultiAttach', 'Volumes needed on two nodes'], ['AttachFailed', 'Attach or detach failed'], ['NodeGone', 'Attachments of deleted nodes'],
  ['Terminating', 'Stuck deletions'], ['NoSuchVolume', 'Claims that name a missing volume'], ['VolumeTaken', 'Claims that name the volume of another claim'],
  ['NoSuchClass', 'Claims with a missing class'], ['NoDriver', 'Claims with a missing driver'], ['ProvisioningFailed', 'Provisioning failed'],
  ['NoVolumeFits', 'Claims for which no volume fits'], ['NoVolume', 'Claims without a volume'], ['PodNotPlaced', 'Claims waiting for a pod to be scheduled'],
  ['NoClaim', 'Pods with a missing claim'], ['NotPlaced', 'Unschedulable pods'], ['PodWaits', 'Pods that cannot start'], ['ResizeFailed', 'Resize failed'],
  ['Released', 'Released volumes'], ['Reclaiming', 'Volumes being reclaimed'], ['DetachWaiting', 'Volumes waiting to be unmounted'],
  ['Attaching', 'Attaching'], ['Provisioning', 'Provisioning'], ['NoConsumer', 'Claims waiting for a pod'],
];

/** Returns `{object, code, severity, reason, at}` for each problem; `severity` is `attention` (does not resolve itself) or `waiting`. */
export function problems(list, now) {
  const w = world(list);
  const found = [];
  for (const [resource, rule] of Object.entries(RULES)) {
    for (const object of list(resource)) {
      const gone = object.metadata.deletionTimestamp;
      const answer = gone && resource !== 'nodes' ? terminating(object, w, now) || alsoGone(resource, object, w, now) : rule(object, w, now);
      if (answer) found.push({ object, kind: kindOf(resource)?.kind || resource, ...answer, at: answer.at || since(object) });
    }
  }
  return found;
}

/** Also reports the error and the countdown of an attachment that is being deleted. */
function alsoGone(resource, object, w, now) {
  return resource === 'volumeattachments' ? attachment(object, w, now) : null;
}
