// The kinds that the page displays: their API names, titles and phases. Pure.

const kind = (plural, group, version, name, title, namespaced) => ({
  id: group ? `${plural}.${group}` : plural, plural, group, version, kind: name, title, namespaced,
  apiVersion: group ? `${group}/${version}` : version,
  base: group ? `/apis/${group}/${version}` : `/api/${version}`,
});
const STORAGE = 'storage.k8s.io';
const SNAPSHOT = 'snapshot.storage.k8s.io';
const GROUP_SNAPSHOT = 'groupsnapshot.storage.k8s.io';

/** All kinds, in the order of the navigation. */
export const KINDS = [
  kind('persistentvolumeclaims', '', 'v1', 'PersistentVolumeClaim', 'Claims', true),
  kind('persistentvolumes', '', 'v1', 'PersistentVolume', 'Volumes', false),
  kind('pods', '', 'v1', 'Pod', 'Pods', true),
  kind('events', '', 'v1', 'Event', 'Events', true),
  kind('storageclasses', STORAGE, 'v1', 'StorageClass', 'Classes', false),
  kind('volumeattachments', STORAGE, 'v1', 'VolumeAttachment', 'Attachments', false),
  kind('nodes', '', 'v1', 'Node', 'Nodes', false),
  kind('csidrivers', STORAGE, 'v1', 'CSIDriver', 'Drivers', false),
  kind('csinodes', STORAGE, 'v1', 'CSINode', 'Node drivers', false),
  kind('csistoragecapacities', STORAGE, 'v1', 'CSIStorageCapacity', 'Capacities', true),
  kind('volumeattributesclasses', STORAGE, 'v1', 'VolumeAttributesClass', 'Volume attributes classes', false),
  kind('volumesnapshots', SNAPSHOT, 'v1', 'VolumeSnapshot', 'Snapshots', true),
  kind('volumesnapshotcontents', SNAPSHOT, 'v1', 'VolumeSnapshotContent', 'Snapshot contents', false),
  kind('volumesnapshotclasses', SNAPSHOT, 'v1', 'VolumeSnapshotClass', 'Snapshot classes', false),
  kind('volumegroupsnapshots', GROUP_SNAPSHOT, 'v1', 'VolumeGroupSnapshot', 'Group snapshots', true),
  kind('volumegroupsnapshotcontents', GROUP_SNAPSHOT, 'v1', 'VolumeGroupSnapshotContent', 'Group snapshot contents', false),
  kind('volumegroupsnapshotclasses', GROUP_SNAPSHOT, 'v1', 'VolumeGroupSnapshotClass', 'Group snapshot classes', false),
  kind('namespaces', '', 'v1', 'Namespace', 'Namespaces', false),
];

const names = new Map();
for (const one of KINDS) {
  names.set(one.id, one);
  names.set(one.plural, one);
  names.set(`${one.kind}`, one);
}

/** Returns a kind by its resource (`volumeattachments`, with or without its group) or by its name (`VolumeAttachment`). */
export const kindOf = (name) => names.get(name) || null;

/** Returns the full name of a resource, or the name itself if the resource is unknown. */
export const canonical = (resource) => names.get(resource)?.id || resource;

/** Returns the API path of an object. */
export function path(resource, namespace, name) {
  const of = kindOf(resource);
  if (!of) return null;
  const where = of.namespaced && namespace ? `/namespaces/${encodeURIComponent(namespace)}` : '';
  return `${of.base}${where}/${of.plural}${name ? `/${encodeURIComponent(name)}` : ''}`;
}

/** Returns the path of an object in the group orlop.dev. */
export function insight(resource, namespace, name, rest) {
  const where = namespace ? `/namespaces/${encodeURIComponent(namespace)}` : '';
  return `/apis/orlop.dev/v1${where}/${canonical(resource)}/${encodeURIComponent(name)}/${rest}`;
}

/** Returns the phase of an object. An object that is being deleted is `Terminating`, whatever its phase. */
export function phase(object) {
  if (object.metadata.deletionTimestamp) return 'Terminating';
  if (object.status?.phase) return object.status.phase;
  switch (kindOf(object.__resource)?.kind) {
    case 'PersistentVolume':
    case 'PersistentVolumeClaim':
    case 'Pod':
      return 'Pending';
    case 'VolumeAttachment':
      if (object.status?.attachError) return 'Failed';
      return object.status?.attached ? 'Attached' : 'Attaching';
    case 'Node': {
      const ready = object.status?.conditions?.find((one) => one.type === 'Ready');
      return ready?.status === 'True' ? 'Ready' : 'NotReady';
    }
    case 'VolumeSnapshot':
    case 'VolumeSnapshotContent':
    case 'VolumeGroupSnapshot':
    case 'VolumeGroupSnapshotContent':
      if (object.status?.error) return 'Failed';
      return object.status?.readyToUse ? 'Ready' : 'Pending';
    case 'Event':
      return object.type || 'Normal';
    default:
      return '';
  }
}

const FREE = ['Available'];
const GOOD = ['Bound', 'Running', 'Succeeded', 'Active', 'Attached', 'Ready', 'Normal', 'ok'];
const WAIT = ['Pending', 'Released', 'Terminating', 'Attaching', 'waiting'];
const BAD = ['Failed', 'Lost', 'Warning', 'NotReady', 'Unknown', 'attention'];

/** Returns the tone of a phase: `good`, `wait`, `bad`, `free` (not in use) or an empty string. */
export function tone(word) {
  if (FREE.includes(word)) return 'free';
  if (GOOD.includes(word)) return 'good';
  if (WAIT.includes(word)) return 'wait';
  return BAD.includes(word) ? 'bad' : '';
}
