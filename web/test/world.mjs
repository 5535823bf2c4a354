// A simulated cluster for tests of the page: thousands of objects and endless changes. The same seed produces the same cluster.

const GiB = 'Gi';

/** Returns a generator of numbers from 0 to 1, reproducible by seed. */
export function random(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

/** A cluster with about `size` objects. `lines` contains its writes so far, in the format of the stream. */
export class World {
  constructor({ size = 3000, seed = 1, start = Date.now() - 20 * 60000 } = {}) {
    this.random = random(seed);
    this.objects = new Map();
    this.revision = 100;
    this.clock = start;
    this.lines = [];
    this.count = 0;
    this.base();
    const chains = Math.floor((size - 40) / 4.1);
    for (let i = 0; i < chains; i += 1) this.chain(i, chains);
    this.first = [...this.objects.values()].map(({ resource, object }) => ({ resource, object }));
    this.firstRevision = this.revision;
    this.firstTime = this.clock;
    this.lines = [];
  }

  pick(list) {
    return list[Math.floor(this.random() * list.length)];
  }

  write(type, resource, object) {
    this.revision += 1;
    const { namespace = '', name } = object.metadata;
    const key = `${resource} ${namespace}/${name}`;
    const next = { ...object, metadata: { ...object.metadata, resourceVersion: String(this.revision) } };
    if (type === 'DELETED') this.objects.delete(key);
    else this.objects.set(key, { resource, object: next });
    const line = { type, resource, revision: String(this.revision), time: new Date(this.clock).toISOString(), object: next };
    this.lines.push(line);
    return next;
  }

  make(resource, namespace, name, rest) {
    this.count += 1;
    const uid = `00000000-0000-4000-8000-${String(this.count).padStart(12, '0')}`;
    const metadata = { name, ...(namespace && { namespace }), uid, creationTimestamp: new Date(this.clock).toISOString(), ...rest.metadata };
    return this.write('ADDED', resource, { ...rest, metadata });
  }

  get(resource, namespace, name) {
    return this.objects.get(`${resource} ${namespace || ''}/${name}`)?.object;
  }

  base() {
    for (const driver of ['disk.example', 'share.example', 'block.example']) this.make('csidrivers.storage.k8s.io', '', driver, { spec: { attachRequired: true } });
    const classes = [['fast', 'disk.example', 'Immediate'], ['shared', 'share.example', 'Immediate'], ['late', 'block.example', 'WaitForFirstConsumer'], ['ghost', 'gone.example', 'Immediate'], ['manual', 'kubernetes.io/no-provisioner', 'Immediate']];
    for (const [name, provisioner, volumeBindingMode] of classes) this.make('storageclasses.storage.k8s.io', '', name, { provisioner, volumeBindingMode });
    for (let i = 0; i < 24; i += 1) {
      const ready = i === 7 ? 'Unknown' : 'True';
      this.make('nodes', '', `node-${String(i).padStart(2, '0')}`, { spec: {}, status: { conditions: [{ type: 'Ready', status: ready, message: ready === 'True' ? '' : 'Kubelet stopped posting node status.' }] } });
    }
  }

  chain(i, all) {
    const namespace = `team-${String(Math.floor((i / all) * 30)).padStart(2, '0')}`;
    const [cls, driver] = this.pick([['fast', 'disk.example'], ['fast', 'disk.example'], ['shared', 'share.example'], ['late', 'block.example']]);
    const [claim, volume, pod] = [`data-${i}`, `pvc-${String(i).padStart(5, '0')}-${cls}`, `web-${i}`];
    const node = `node-${String(Math.floor(this.random() * 24)).padStart(2, '0')}`;
    const fate = this.random();
    const pending = fate < 0.04;
    const wanted = fate < 0.01 ? 'ghost' : fate < 0.02 ? 'nowhere' : fate < 0.03 ? 'manual' : cls;
    const phase = pending ? 'Pending' : fate < 0.045 ? 'Lost' : 'Bound';
    const made = this.make('persistentvolumeclaims', namespace, claim, {
      spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: `1${GiB}` } }, storageClassName: wanted, ...(!pending && { volumeName: volume }) },
      status: { phase },
    });
    const free = fate > 0.94;
    if (!pending && phase === 'Bound') {
      this.make('persistentvolumes', '', volume, {
        spec: { capacity: { storage: `1${GiB}` }, accessModes: ['ReadWriteOnce'], storageClassName: cls, persistentVolumeReclaimPolicy: this.random() < 0.2 ? 'Retain' : 'Delete', csi: { driver, volumeHandle: volume }, claimRef: { namespace, name: claim, uid: made.metadata.uid } },
        status: { phase: 'Bound' },
      });
      if (!free) {
        const broken = this.random() < 0.006;
        const waits = !broken && this.random() < 0.004;
        this.make('volumeattachments.storage.k8s.io', '', `csi-${i}`, {
          metadata: waits ? { annotations: { 'orlop.dev/detach-not-before': new Date(Date.now() + 240000).toISOString() } } : {},
          spec: { attacher: driver, nodeName: node, source: { persistentVolumeName: volume } },
          status: broken ? { attached: false, attachError: { message: 'rpc error: code = Internal desc = the disk does not answer <b>at all</b>' } } : { attached: true },
        });
      }
    }
    if (fate > 0.9 && fate < 0.92) {
      this.make('persistentvolumes', '', `old-${i}`, {
        spec: { capacity: { storage: `2${GiB}` }, accessModes: ['ReadWriteOnce'], storageClassName: 'manual', persistentVolumeReclaimPolicy: 'Retain', ...(fate < 0.91 && { claimRef: { namespace, name: `gone-${i}`, uid: 'x' } }) },
        status: { phase: fate < 0.91 ? 'Released' : fate < 0.912 ? 'Failed' : 'Available', message: 'rm: busy' },
      });
    }
    if (!free) {
      const runs = phase === 'Bound';
      const crash = runs && this.random() < 0.004;
      this.make('pods', namespace, pod, {
        spec: { ...(runs && { nodeName: node }), containers: [{ name: 'main' }], volumes: [{ name: 'data', persistentVolumeClaim: { claimName: claim } }] },
        status: {
          phase: runs ? 'Running' : 'Pending',
          ...(crash && { containerStatuses: [{ name: 'main', state: { waiting: { reason: 'CrashLoopBackOff', message: 'back-off 5m0s restarting failed container=main' } }, lastState: { terminated: { finishedAt: new Date(Date.now() - 60000).toISOString() } } }] }),
        },
      });
    }
  }

  /** Performs one random change. */
  step() {
    const kinds = this.random();
    const all = [...this.objects.values()];
    if (kinds < 0.12) return this.born();
    const { resource, object } = this.pick(all);
    const phase = object.status?.phase;
    if (resource === 'persistentvolumeclaims' && phase === 'Pending') return this.bind(object);
    if (resource === 'persistentvolumeclaims' && phase === 'Bound' && kinds < 0.7) return this.end(object);
    if (resource === 'persistentvolumes' && phase === 'Released') {
      if (object.spec.persistentVolumeReclaimPolicy === 'Delete') return this.write('DELETED', resource, object);
      const { claimRef, ...spec } = object.spec;
      return claimRef && this.write('MODIFIED', resource, { ...object, spec, status: { phase: 'Available' } });
    }
    if (resource === 'persistentvolumes' && phase === 'Bound' && kinds < 0.13) {
      const { namespace, name } = object.spec.claimRef || {};
      const claim = this.get('persistentvolumeclaims', namespace, name);
      this.write('DELETED', resource, object);
      return claim && this.write('MODIFIED', 'persistentvolumeclaims', { ...claim, status: { phase: 'Lost' } });
    }
    return this.write('MODIFIED', resource, { ...object, metadata: { ...object.metadata, annotations: { ...object.metadata.annotations, touched: String(this.revision) } } });
  }

  born() {
    const i = 100000 + this.count;
    const namespace = `team-${String(Math.floor(this.random() * 30)).padStart(2, '0')}`;
    return this.make('persistentvolumeclaims', namespace, `new-${i}`, {
      spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: `1${GiB}` } }, storageClassName: 'fast' }, status: { phase: 'Pending' },
    });
  }

  bind(claim) {
    const { namespace, name, uid } = claim.metadata;
    const volume = `pvc-${uid.slice(-6)}`;
    this.make('persistentvolumes', '', volume, {
      spec: { capacity: { storage: `1${GiB}` }, accessModes: ['ReadWriteOnce'], storageClassName: claim.spec.storageClassName, persistentVolumeReclaimPolicy: 'Delete', csi: { driver: 'disk.example', volumeHandle: volume }, claimRef: { namespace, name, uid } },
      status: { phase: 'Bound' },
    });
    return this.write('MODIFIED', 'persistentvolumeclaims', { ...claim, spec: { ...claim.spec, volumeName: volume }, status: { phase: 'Bound' } });
  }

  end(claim) {
    const volume = this.get('persistentvolumes', '', claim.spec.volumeName);
    this.write('DELETED', 'persistentvolumeclaims', claim);
    return volume && this.write('MODIFIED', 'persistentvolumes', { ...volume, status: { phase: 'Released' } });
  }
}
