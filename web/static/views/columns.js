// The columns and filters of the list of each kind. Pure.

import { kindOf, phase } from '../state/kinds.js';
import { references, seen } from '../state/relations.js';

const MODES = { ReadWriteOnce: 'RWO', ReadOnlyMany: 'ROX', ReadWriteMany: 'RWX', ReadWriteOncePod: 'RWOP' };
/** Formats access modes as kubectl does, in the same order. */
export const modes = (list = []) => Object.keys(MODES).filter((mode) => list.includes(mode)).map((mode) => MODES[mode]).join(',');

const UNITS = { '': 1, k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15, E: 1e18, Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40, Pi: 2 ** 50, Ei: 2 ** 60, m: 1e-3 };
/** Converts a quantity to a number, for sorting. */
export function amount(text = '') {
  const found = /^([0-9.]+)(?:[eE]([0-9]+))?([A-Za-z]*)$/.exec(text);
  return found ? Number(found[1]) * 10 ** Number(found[2] || 0) * (UNITS[found[3]] ?? 1) : -1;
}

const text = (id, name, read, more) => ({ id, name, read, ...more });
const NAME = text('name', 'Name', (o) => o.metadata.name, { width: 'minmax(9rem, 3fr)', opens: true });
const NS = text('ns', 'Namespace', (o) => o.metadata.namespace || '', { width: 'minmax(6rem, .8fr)' });
const PHASE = text('phase', 'Phase', phase, { width: '8.5rem', phase: true });
const AGE = text('age', 'Age', (o) => o.metadata.creationTimestamp || '', { width: '4.5rem', time: true });
const size = (id, name, read) => text(id, name, read, { width: '6rem', sort: (o) => amount(read(o)) });
const CLASS = text('class', 'Class', (o) => o.spec?.storageClassName || '', { width: 'minmax(6rem, .8fr)' });
const wide = (id, name, read) => text(id, name, read, { width: 'minmax(8rem, 2fr)' });
const access = (read) => text('access', 'Access', read, { width: '8.2rem' });
const short = (id, name, read) => text(id, name, read, { width: 'minmax(5rem, .5fr)' });

const claims = (o) => references(o).filter((one) => one.kind === 'claim').map((one) => one.name).join(', ');
// The name comes first, because it identifies the object when the cell is truncated.
const involved = ({ involvedObject: of = {} }) => [[of.namespace, of.name].filter(Boolean).join('/'), of.kind].filter(Boolean).join(' · ');
const isDefault = (o) => (o.metadata.annotations?.['storageclass.kubernetes.io/is-default-class'] === 'true' ? 'default' : '');

const COLUMNS = {
  persistentvolumeclaims: [
    NAME, NS, PHASE, wide('volume', 'Volume', (o) => o.spec.volumeName || ''),
    size('size', 'Capacity', (o) => o.status?.capacity?.storage || o.spec.resources?.requests?.storage || ''),
    access((o) => modes(o.status?.accessModes || o.spec.accessModes)), CLASS, AGE,
  ],
  persistentvolumes: [
    NAME, PHASE, size('size', 'Capacity', (o) => o.spec.capacity?.storage || ''), access((o) => modes(o.spec.accessModes)),
    short('reclaim', 'Reclaim', (o) => o.spec.persistentVolumeReclaimPolicy || ''),
    wide('claim', 'Claim', ({ spec: { claimRef: c } }) => (c ? `${c.namespace}/${c.name}` : '')), CLASS, AGE,
  ],
  pods: [NAME, NS, PHASE, short('node', 'Node', (o) => o.spec.nodeName || ''), wide('claims', 'Claims', claims), AGE],
  events: [
    text('name', 'Reason', (o) => o.reason || '', { width: 'minmax(8rem, 1.5fr)', opens: true }), text('phase', 'Type', phase, { width: '7rem', phase: true }),
    wide('object', 'Object', involved), text('message', 'Message', (o) => o.message || o.note || '', { width: 'minmax(12rem, 4fr)' }),
    text('count', 'Count', (o) => String(o.series?.count || o.count || 1), { width: '4.5rem', sort: (o) => o.series?.count || o.count || 1 }),
    text('age', 'Seen', seen, { width: '4.5rem', time: true }),
  ],
  storageclasses: [
    NAME, wide('provisioner', 'Provisioner', (o) => o.provisioner), short('reclaim', 'Reclaim', (o) => o.reclaimPolicy || ''),
    wide('binding', 'Binding', (o) => o.volumeBindingMode || ''), short('default', 'Default', isDefault), AGE,
  ],
  'volumeattachments.storage.k8s.io': [
    NAME, PHASE, wide('volume', 'Volume', (o) => o.spec.source?.persistentVolumeName || ''), short('node', 'Node', (o) => o.spec.nodeName),
    wide('attacher', 'Driver', (o) => o.spec.attacher), AGE,
  ],
  nodes: [
    NAME, PHASE, short('attached', 'Attached', (o) => String(o.status?.volumesAttached?.length || 0)),
    short('zone', 'Zone', (o) => o.metadata.labels?.['topology.kubernetes.io/zone'] || ''), AGE,
  ],
  'csidrivers.storage.k8s.io': [NAME, short('attach', 'Attach', (o) => (o.spec.attachRequired === false ? 'no' : 'yes')), AGE],
  'csinodes.storage.k8s.io': [NAME, wide('drivers', 'Drivers', (o) => (o.spec.drivers || []).map((one) => one.name).join(', ')), AGE],
  'csistoragecapacities.storage.k8s.io': [NAME, NS, text('class', 'Class', (o) => o.storageClassName || '', { width: 'minmax(6rem, 1fr)' }), size('size', 'Capacity', (o) => o.capacity || ''), AGE],
  'volumesnapshots.snapshot.storage.k8s.io': [NAME, NS, PHASE, wide('source', 'Claim', (o) => o.spec?.source?.persistentVolumeClaimName || ''), size('size', 'Size', (o) => o.status?.restoreSize || ''), AGE],
  'volumesnapshotcontents.snapshot.storage.k8s.io': [NAME, PHASE, wide('driver', 'Driver', (o) => o.spec?.driver || ''), AGE],
  'volumegroupsnapshots.groupsnapshot.storage.k8s.io': [NAME, NS, PHASE, wide('class', 'Class', (o) => o.spec?.volumeGroupSnapshotClassName || ''), AGE],
  'volumegroupsnapshotcontents.groupsnapshot.storage.k8s.io': [NAME, PHASE, wide('driver', 'Driver', (o) => o.spec?.driver || ''), AGE],
  'volumeattributesclasses.storage.k8s.io': [NAME, wide('driver', 'Driver', (o) => o.driverName || ''), AGE],
  namespaces: [NAME, PHASE, AGE],
};
COLUMNS['storageclasses.storage.k8s.io'] = COLUMNS.storageclasses;

/** Returns the columns of a kind. */
export const columnsOf = (id) => (Object.hasOwn(COLUMNS, id) ? COLUMNS[id] : [NAME, ...(kindOf(id)?.namespaced ? [NS] : []), AGE]);

/** Functions that return an object's value for each filter. */
const FACETS = {
  ns: (o) => o.metadata.namespace || '',
  phase,
  class: (o) => o.spec?.storageClassName || o.storageClassName || '',
  node: (o) => o.spec?.nodeName || o.metadata.annotations?.['volume.kubernetes.io/selected-node'] || '',
  driver: (o) => o.spec?.csi?.driver || o.spec?.attacher || o.spec?.driver || o.provisioner || o.driverName || '',
};
export const FACET_NAMES = { ns: 'Namespace', phase: 'Phase', class: 'Class', node: 'Node', driver: 'Driver' };

/** Returns the values of each filter. Filters with only one value are omitted unless they are in use. */
export function facets(list, query) {
  const found = {};
  for (const [name, read] of Object.entries(FACETS)) {
    const values = new Set();
    for (const one of list) {
      const value = read(one);
      if (value) values.add(value);
    }
    if (query[name]) values.add(query[name]);
    if (values.size > 1 || query[name]) found[name] = [...values].sort();
  }
  return found;
}

/** Returns the objects that match the query: exact filter values, and each word of `q` in a column or label. A `-` before a word excludes it. */
export function filtered(list, columns, query) {
  const exact = Object.entries(FACETS).filter(([name]) => query[name]);
  const words = (query.q || '').toLowerCase().split(/\s+/).filter((word) => word && word !== '-');
  if (!exact.length && !words.length) return list;
  return list.filter((object) => {
    for (const [name, read] of exact) if (read(object) !== query[name]) return false;
    if (!words.length) return true;
    const labels = Object.entries(object.metadata.labels || {}).map(([name, value]) => `${name}=${value}`);
    const all = [object.metadata.name, ...columns.filter((one) => !one.time).map((one) => one.read(object)), ...labels].join(' ').toLowerCase();
    return words.every((word) => (word.startsWith('-') ? !all.includes(word.slice(1)) : all.includes(word)));
  });
}

/** Sorts by a column; `-` before its name, as in `-age`, reverses the order. Without a column, sorts by namespace and name. */
export function sorted(list, columns, order) {
  const down = order?.startsWith('-');
  const column = columns.find((one) => one.id === order?.replace('-', ''));
  const name = (o) => `${o.metadata.namespace || ''}/${o.metadata.name}`;
  const read = column ? column.sort || column.read : name;
  const keys = list.map((object) => [read(object), name(object), object]);
  // Ages are displayed, so the youngest object has the latest time.
  const sign = (down ? -1 : 1) * (column?.time ? -1 : 1);
  const by = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
  keys.sort((a, b) => sign * by(a[0], b[0]) || by(a[1], b[1]));
  return keys.map(([, , object]) => object);
}
