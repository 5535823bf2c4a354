// The forms for new objects: their fields, the objects built from them, and samples. Pure.

const meta = (name, namespace) => (namespace ? { name, namespace } : { name });
const field = (id, label, value, more) => ({ id, label, value, ...more });
const select = (id, label, options, value = options[0]) => ({ id, label, value, options });
const MODES = ['ReadWriteOnce', 'ReadOnlyMany', 'ReadWriteMany', 'ReadWriteOncePod'];

export const FORMS = {
  'storageclasses.storage.k8s.io': {
    is: 'A class of storage: its provisioner, its volume binding mode, and the reclaim policy of its volumes.',
    fields: [
      field('name', 'Name', 'fast'), field('provisioner', 'Provisioner', 'kubernetes.io/no-provisioner', { from: 'csidrivers' }),
      select('binding', 'Binding', ['WaitForFirstConsumer', 'Immediate']), select('reclaim', 'Reclaim policy', ['Delete', 'Retain']),
      { id: 'expand', label: 'Allow expansion', value: true, check: true }, { id: 'default', label: 'Default class', value: false, check: true },
    ],
    make: (f) => ({
      apiVersion: 'storage.k8s.io/v1', kind: 'StorageClass',
      metadata: { name: f.name, ...(f.default && { annotations: { 'storageclass.kubernetes.io/is-default-class': 'true' } }) },
      provisioner: f.provisioner, volumeBindingMode: f.binding, reclaimPolicy: f.reclaim, allowVolumeExpansion: f.expand,
    }),
    samples: [['Static local volumes', { name: 'local', provisioner: 'kubernetes.io/no-provisioner', binding: 'WaitForFirstConsumer', reclaim: 'Delete', expand: false }],
      ['Retain volumes of deleted claims', { name: 'keep', reclaim: 'Retain', binding: 'Immediate' }]],
  },
  persistentvolumes: {
    is: 'A piece of storage: its size, its location and its access modes.',
    fields: [
      field('name', 'Name', 'volume-1'), field('size', 'Capacity', '1Gi'), select('mode', 'Access', MODES), field('class', 'Class', 'manual', { from: 'storageclasses' }),
      select('reclaim', 'Reclaim policy', ['Retain', 'Delete', 'Recycle']), select('source', 'Source', ['hostPath', 'nfs', 'csi', 'local']),
      field('path', 'Path (hostPath, nfs, local) or volume handle (csi)', '/tmp/volume-1'), field('server', 'Server (nfs), driver (csi) or node (local)', '', { optional: true }),
    ],
    make: (f) => {
      const sources = {
        hostPath: { hostPath: { path: f.path } },
        nfs: { nfs: { server: f.server, path: f.path } },
        csi: { csi: { driver: f.server, volumeHandle: f.path } },
        local: { local: { path: f.path }, nodeAffinity: { required: { nodeSelectorTerms: [{ matchExpressions: [{ key: 'kubernetes.io/hostname', operator: 'In', values: [f.server] }] }] } } },
      };
      return {
        apiVersion: 'v1', kind: 'PersistentVolume', metadata: meta(f.name),
        spec: { capacity: { storage: f.size }, accessModes: [f.mode], persistentVolumeReclaimPolicy: f.reclaim, ...(f.class && { storageClassName: f.class }), ...sources[f.source] },
      };
    },
    samples: [['A directory on the node', { source: 'hostPath', path: '/tmp/volume-1', server: '' }],
      ['An NFS share', { source: 'nfs', server: 'nfs.example', path: '/exports/a', mode: 'ReadWriteMany' }],
      ['A disk of one node', { source: 'local', server: 'node-1', path: '/mnt/disk-1', class: 'local' }]],
  },
  persistentvolumeclaims: {
    is: 'A request for storage of a size, class and access mode. The binder selects an existing volume, or a provisioner creates one.',
    fields: [
      field('name', 'Name', 'claim-1'), field('namespace', 'Namespace', 'default', { from: 'namespaces' }), field('size', 'Size', '1Gi'), select('mode', 'Access', MODES),
      field('class', 'Class (empty: the default class)', '', { from: 'storageclasses', optional: true }), field('volume', 'Volume name', '', { from: 'persistentvolumes', optional: true }),
    ],
    make: (f) => ({
      apiVersion: 'v1', kind: 'PersistentVolumeClaim', metadata: meta(f.name, f.namespace),
      spec: { accessModes: [f.mode], resources: { requests: { storage: f.size } }, ...(f.class && { storageClassName: f.class }), ...(f.volume && { volumeName: f.volume }) },
    }),
    samples: [['Any volume of a class', { class: 'manual' }], ['Shared by several nodes', { mode: 'ReadWriteMany', class: 'manual' }], ['A specific volume', { volume: 'volume-1', class: 'manual' }]],
  },
  pods: {
    is: 'A pod that uses a claim. The volume of the claim is attached to the node of the pod, and mounted into its containers.',
    fields: [
      field('name', 'Name', 'pod-1'), field('namespace', 'Namespace', 'default', { from: 'namespaces' }), field('image', 'Image', 'busybox'),
      field('claim', 'Claim', 'claim-1', { from: 'persistentvolumeclaims' }), field('path', 'Mounted at', '/data'), field('node', 'Node', '', { from: 'nodes', optional: true }),
    ],
    make: (f) => ({
      apiVersion: 'v1', kind: 'Pod', metadata: meta(f.name, f.namespace),
      spec: {
        containers: [{ name: 'main', image: f.image, command: ['sleep', 'infinity'], ...(f.claim && { volumeMounts: [{ name: 'data', mountPath: f.path }] }) }],
        ...(f.claim && { volumes: [{ name: 'data', persistentVolumeClaim: { claimName: f.claim } }] }), ...(f.node && { nodeName: f.node }),
      },
    }),
    samples: [['With a claim', { claim: 'claim-1' }], ['Without a claim', { claim: '' }]],
  },
};

/** Returns the initial values of a form. */
export const values = (form, changes = {}) => ({ ...Object.fromEntries(form.fields.map((one) => [one.id, one.value])), ...changes });
