// References between objects. Forward references are read from the object itself. Backward references are looked up in one index per kind,
// which is built on first use and kept until an object of that kind changes.

import { KINDS, canonical, kindOf } from './kinds.js';
import { key, objects } from './objects.js';

/** Returns the references in an object as `{resource, namespace, name, kind}`, where `kind` describes the reference. Pure. */
export function references(object) {
  const { spec = {}, metadata } = object;
  const found = [];
  const add = (resource, namespace, name, kind) => {
    if (name) found.push({ resource: canonical(resource), namespace: namespace || '', name, kind });
  };
  for (const owner of metadata.ownerReferences || []) {
    const of = kindOf(owner.kind);
    if (of) add(of.id, of.namespaced ? metadata.namespace : '', owner.name, 'owner');
  }
  switch (kindOf(object.__resource)?.kind) {
    case 'PersistentVolumeClaim':
      add('persistentvolumes', '', spec.volumeName, 'volume');
      add('storageclasses', '', spec.storageClassName, 'class');
      add('volumeattributesclasses', '', spec.volumeAttributesClassName, 'attributes');
      if (spec.dataSourceRef || spec.dataSource) {
        const source = spec.dataSourceRef || spec.dataSource;
        const of = kindOf(source.kind);
        if (of) add(of.id, source.namespace || metadata.namespace, source.name, 'data from');
      }
      add('nodes', '', metadata.annotations?.['volume.kubernetes.io/selected-node'], 'chosen node');
      break;
    case 'PersistentVolume':
      add('persistentvolumeclaims', spec.claimRef?.namespace, spec.claimRef?.name, 'claim');
      add('storageclasses', '', spec.storageClassName, 'class');
      add('csidrivers', '', spec.csi?.driver, 'driver');
      break;
    case 'Pod':
      for (const volume of spec.volumes || []) {
        add('persistentvolumeclaims', metadata.namespace, volume.persistentVolumeClaim?.claimName, 'claim');
        if (volume.ephemeral) add('persistentvolumeclaims', metadata.namespace, `${metadata.name}-${volume.name}`, 'claim');
        add('csidrivers', '', volume.csi?.driver, 'driver');
      }
      add('nodes', '', spec.nodeName, 'node');
      break;
    case 'VolumeAttachment':
      add('persistentvolumes', '', spec.source?.persistentVolumeName, 'volume');
      add('nodes', '', spec.nodeName, 'node');
      add('csidrivers', '', spec.attacher, 'driver');
      break;
    case 'StorageClass':
      add('csidrivers', '', object.provisioner, 'driver');
      break;
    case 'CSIStorageCapacity':
      add('storageclasses', '', object.storageClassName, 'class');
      break;
    case 'VolumeAttributesClass':
      add('csidrivers', '', object.driverName, 'driver');
      break;
    case 'CSINode':
      if (!found.length) add('nodes', '', metadata.name, 'node');
      for (const driver of spec.drivers || []) add('csidrivers', '', driver.name, 'driver');
      break;
    case 'VolumeSnapshot':
      add('persistentvolumeclaims', metadata.namespace, spec.source?.persistentVolumeClaimName, 'snapshot of');
      add('volumesnapshotcontents', '', object.status?.boundVolumeSnapshotContentName, 'content');
      add('volumesnapshotclasses', '', spec.volumeSnapshotClassName, 'class');
      break;
    case 'VolumeSnapshotContent':
      add('volumesnapshots', spec.volumeSnapshotRef?.namespace, spec.volumeSnapshotRef?.name, 'snapshot');
      add('csidrivers', '', spec.driver, 'driver');
      break;
    case 'VolumeGroupSnapshot':
      add('volumegroupsnapshotcontents', '', object.status?.boundVolumeGroupSnapshotContentName, 'content');
      add('volumegroupsnapshotclasses', '', spec.volumeGroupSnapshotClassName, 'class');
      break;
    case 'VolumeGroupSnapshotContent':
      add('volumegroupsnapshots', spec.volumeGroupSnapshotRef?.namespace, spec.volumeGroupSnapshotRef?.name, 'snapshot');
      add('csidrivers', '', spec.driver, 'driver');
      break;
    case 'Event': {
      const of = kindOf(object.involvedObject?.kind);
      if (of) add(of.id, of.namespaced ? object.involvedObject.namespace : '', object.involvedObject.name, 'about');
      break;
    }
    default:
  }
  return found;
}

const BACK = {
  volume: 'used by', claim: 'used by', class: 'class of', node: 'on this node', driver: 'driver of', owner: 'owns',
  'data from': 'data source of', 'snapshot of': 'source of snapshot', attributes: 'attributes of',
  content: 'content of', snapshot: 'its content', about: 'subject of', 'chosen node': 'selected node of',
};
const WORDS = { volume: 'its volume', claim: 'its claim', class: 'its class', node: 'its node', driver: 'its driver', owner: 'its owner', about: 'about' };

/** Returns a function that indexes a list. The index is cached per array: a list is the same array until one of its objects changes. */
function tableOf(rows) {
  const tables = new WeakMap();
  // Cache the rows per object: a changed object is a new value, so unchanged objects are not processed again.
  const known = new WeakMap();
  const rowsOf = (object) => {
    if (!known.has(object)) known.set(object, rows(object));
    return known.get(object);
  };
  return (list) => {
    let by = tables.get(list);
    if (by) return by;
    tables.set(list, (by = new Map()));
    for (const object of list) {
      for (const [at, row] of rowsOf(object)) {
        if (by.has(at)) by.get(at).push(row);
        else by.set(at, [row]);
      }
    }
    return by;
  };
}

const naming = tableOf((object) => references(object).map((one) => [`${one.resource} ${key(one.namespace, one.name)}`, { object, kind: one.kind }]));

/** Returns all references to an object, except those of events, which are too many. */
const backward = (at) => KINDS.flatMap(({ id, kind }) => (kind === 'Event' ? [] : naming(objects.list(id)).get(at) || []));

/** Returns the related objects as `{object, resource, why}`. A referenced object that does not exist has `missing` with its name instead. */
export function related(object) {
  const found = [];
  const seen = new Set([object.metadata.uid]);
  for (const one of references(object)) {
    const other = objects.get(one.resource, one.namespace, one.name);
    const id = other?.metadata.uid || `${one.resource} ${key(one.namespace, one.name)}`;
    if (seen.has(id)) continue;
    seen.add(id);
    const why = WORDS[one.kind] || one.kind;
    if (other) found.push({ object: other, resource: one.resource, why });
    else found.push({ object: null, resource: one.resource, why, missing: { namespace: one.namespace, name: one.name } });
  }
  const { namespace, name } = object.metadata;
  for (const { object: other, kind } of backward(`${object.__resource} ${key(namespace, name)}`)) {
    if (seen.has(other.metadata.uid)) continue;
    seen.add(other.metadata.uid);
    found.push({ object: other, resource: other.__resource, why: BACK[kind] || kind });
  }
  return found;
}

/** Returns all references between existing objects, by UID. */
export function edges() {
  const found = [];
  for (const { id, kind } of KINDS) {
    if (kind === 'Event') continue;
    for (const object of objects.list(id)) {
      for (const one of references(object)) {
        const other = objects.get(one.resource, one.namespace, one.name);
        if (other) found.push({ from: object.metadata.uid, to: other.metadata.uid, kind: one.kind });
      }
    }
  }
  return found;
}

// Some events have no UID of the object: they are indexed by its name.
const telling = tableOf((event) => {
  const { uid, kind, namespace, name } = event.involvedObject || {};
  return [[uid || `${kind} ${key(namespace, name)}`, event]];
});

/** Returns the events about an object, newest first. */
export function eventsOf(object) {
  const { uid, namespace, name } = object.metadata;
  const by = telling(objects.list('events'));
  const found = [...(by.get(uid) || []), ...(by.get(`${object.kind} ${key(namespace, name)}`) || [])];
  return found.sort((a, b) => (seen(a) < seen(b) ? 1 : -1));
}

/** Returns the time when an event was last seen. */
export const seen = (event) =>
  event.series?.lastObservedTime || event.lastTimestamp || event.eventTime || event.metadata.creationTimestamp || '';
