// The kinds on the page: where they are in the API, their columns, and what to type when there are none.

/** `5s`, `3m`, `2h`, `4d`, as kubectl tells it. */
export function age(time, now = Date.now()) {
  const seconds = Math.max(0, Math.floor((now - Date.parse(time)) / 1000));
  if (Number.isNaN(seconds)) return '';
  if (seconds < 120) return `${seconds}s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)}h`;
  return `${Math.floor(seconds / 86400)}d`;
}

const MODES = { ReadWriteOnce: 'RWO', ReadOnlyMany: 'ROX', ReadWriteMany: 'RWX', ReadWriteOncePod: 'RWOP' };
/** In the order in which kubectl has them. */
const modes = (list = []) => Object.keys(MODES).filter((mode) => list.includes(mode)).map((mode) => MODES[mode]).join(',');
const created = (object) => object.metadata.creationTimestamp;
/** An object that is being deleted says so, whatever its phase. */
const phase = (object) => (object.metadata.deletionTimestamp ? 'Terminating' : object.status?.phase || 'Pending');
const seen = (event) =>
  event.series?.lastObservedTime || event.lastTimestamp || event.eventTime || event.metadata.creationTimestamp;
const involved = ({ involvedObject: of = {} }) => [of.kind, [of.namespace, of.name].filter(Boolean).join('/')].join(' ');

const apply = (lines) => `kubectl --server ${location.origin} apply -f - <<EOF\n${lines.join('\n')}\nEOF`;

export const KINDS = [
  {
    id: 'persistentvolumes',
    title: 'Volumes',
    path: '/api/v1/persistentvolumes',
    kind: 'PersistentVolume',
    columns: [
      { name: 'Name', text: (o) => o.metadata.name, opens: true },
      { name: 'Phase', text: phase, phase: true },
      { name: 'Capacity', text: (o) => o.spec.capacity?.storage || '' },
      { name: 'Access', text: (o) => modes(o.spec.accessModes) },
      { name: 'Reclaim', text: (o) => o.spec.persistentVolumeReclaimPolicy || '' },
      { name: 'Claim', text: ({ spec: { claimRef: c } }) => (c ? `${c.namespace}/${c.name}` : '') },
      { name: 'Class', text: (o) => o.spec.storageClassName || '' },
      { name: 'Age', time: created },
    ],
    empty: 'No volumes yet. This makes one:',
    command: () =>
      apply([
        'apiVersion: v1',
        'kind: PersistentVolume',
        'metadata: {name: volume-1}',
        'spec:',
        '  capacity: {storage: 1Gi}',
        '  accessModes: [ReadWriteOnce]',
        '  storageClassName: manual',
        '  hostPath: {path: /tmp/volume-1}',
      ]),
  },
  {
    id: 'persistentvolumeclaims',
    title: 'Claims',
    path: '/api/v1/persistentvolumeclaims',
    kind: 'PersistentVolumeClaim',
    columns: [
      { name: 'Name', text: (o) => o.metadata.name, opens: true },
      { name: 'Namespace', text: (o) => o.metadata.namespace },
      { name: 'Phase', text: phase, phase: true },
      { name: 'Volume', text: (o) => o.spec.volumeName || '' },
      { name: 'Capacity', text: (o) => o.status?.capacity?.storage || o.spec.resources?.requests?.storage || '' },
      { name: 'Access', text: (o) => modes(o.status?.accessModes || o.spec.accessModes) },
      { name: 'Class', text: (o) => o.spec.storageClassName || '' },
      { name: 'Age', time: created },
    ],
    empty: 'No claims yet. This asks for a volume:',
    command: () =>
      apply([
        'apiVersion: v1',
        'kind: PersistentVolumeClaim',
        'metadata: {name: claim-1, namespace: default}',
        'spec:',
        '  accessModes: [ReadWriteOnce]',
        '  storageClassName: manual',
        '  resources: {requests: {storage: 1Gi}}',
      ]),
  },
  {
    id: 'pods',
    title: 'Pods',
    path: '/api/v1/pods',
    kind: 'Pod',
    columns: [
      { name: 'Name', text: (o) => o.metadata.name, opens: true },
      { name: 'Namespace', text: (o) => o.metadata.namespace },
      { name: 'Phase', text: phase, phase: true },
      { name: 'Node', text: (o) => o.spec.nodeName || '' },
      {
        name: 'Claims',
        text: (o) => (o.spec.volumes || []).map((v) => v.persistentVolumeClaim?.claimName).filter(Boolean).join(', '),
      },
      { name: 'Age', time: created },
    ],
    empty: 'No pods yet. This one uses a claim:',
    command: () =>
      apply([
        'apiVersion: v1',
        'kind: Pod',
        'metadata: {name: pod-1, namespace: default}',
        'spec:',
        '  containers: [{name: main, image: busybox, volumeMounts: [{name: data, mountPath: /data}]}]',
        '  volumes: [{name: data, persistentVolumeClaim: {claimName: claim-1}}]',
      ]),
  },
  {
    id: 'events',
    title: 'Events',
    path: '/api/v1/events',
    kind: 'Event',
    newestFirst: seen,
    columns: [
      { name: 'Reason', text: (o) => o.reason || '', opens: true },
      { name: 'Type', text: (o) => o.type || '', phase: true },
      { name: 'Object', text: involved },
      { name: 'Message', text: (o) => o.message || o.note || '', wide: true },
      { name: 'Count', text: (o) => String(o.series?.count || o.count || 1) },
      { name: 'Seen', time: seen },
    ],
    empty: 'No events. They come when something happens to a claim or a volume; this follows them too:',
    command: () => `kubectl --server ${location.origin} get events -A --watch`,
  },
];
