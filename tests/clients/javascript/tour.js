// Typical operations with the JavaScript client: create, list, patch, apply, delete. The argument is the server's URL.

import assert from 'node:assert/strict';
import * as k8s from '@kubernetes/client-node';

const config = new k8s.KubeConfig();
// Without `skipTLSVerify` the client rejects plain HTTP.
const cluster = { name: 'orlop', server: process.argv[2], skipTLSVerify: true };
config.loadFromClusterAndUser(cluster, { name: 'nobody' });
const core = config.makeApiClient(k8s.CoreV1Api);
const storage = config.makeApiClient(k8s.StorageV1Api);
const objects = k8s.KubernetesObjectApi.makeApiClient(config);
const namespace = 'default';

const map = (name, value, labels) => ({ metadata: { name, labels }, data: { value } });
const read = async (name) => core.readNamespacedConfigMap({ name, namespace });
const names = (list) => list.items.map((item) => item.metadata.name);

async function refused(code, reason, promise) {
  const error = await promise.then(() => assert.fail('the request was not rejected'), (error) => error);
  assert.equal(error.code, code, String(error));
  assert.equal(JSON.parse(error.body).reason, reason);
}

// Create and read.
for (const name of 'abcde') {
  const body = map(name, '1', { parity: 'ace'.includes(name) ? 'odd' : 'even' });
  const made = await core.createNamespacedConfigMap({ namespace, body });
  assert(made.metadata.uid && made.metadata.creationTimestamp instanceof Date, JSON.stringify(made));
}
await refused(409, 'AlreadyExists', core.createNamespacedConfigMap({ namespace, body: map('a', '1') }));
await refused(404, 'NotFound', read('nobody'));
const volume = await core.createPersistentVolume({
  body: {
    metadata: { generateName: 'disk-' },
    spec: { capacity: { storage: '1Gi' }, accessModes: ['ReadWriteOnce'], hostPath: { path: '/tmp/disk' } },
  },
});
assert.match(volume.metadata.name, /^disk-.....$/);
assert.equal(volume.status.phase, 'Pending');
const bad = { metadata: { name: 'bad' }, spec: { capacity: { storage: '-1' }, accessModes: ['ReadWriteOnce'] } };
await refused(422, 'Invalid', core.createPersistentVolume({ body: bad }));
await storage.createStorageClass({ body: { metadata: { name: 'slow' }, provisioner: 'example.com/x' } });
assert.deepEqual(names(await storage.listStorageClass()), ['slow']);

// Lists: with selectors, and in pages of one consistent state.
assert.deepEqual(names(await core.listNamespacedConfigMap({ namespace, labelSelector: 'parity=odd' })), ['a', 'c', 'e']);
assert.deepEqual(names(await core.listConfigMapForAllNamespaces({ fieldSelector: 'metadata.name=b' })), ['b']);
const parts = [];
let _continue;
do {
  const part = await core.listNamespacedConfigMap({ namespace, limit: 2, _continue });
  parts.push(names(part));
  _continue = part.metadata._continue;
  if (parts.length === 1) await core.createNamespacedConfigMap({ namespace, body: map('later', '1') });
} while (_continue);
assert.deepEqual(parts, [['a', 'b'], ['c', 'd'], ['e']]);

// Update, and a conflict with an outdated version.
const old = await read('a');
old.data.value = '2';
await core.replaceNamespacedConfigMap({ name: 'a', namespace, body: old });
await refused(409, 'Conflict', core.replaceNamespacedConfigMap({ name: 'a', namespace, body: old }));

// Every patch type.
const { PatchStrategy, setHeaderOptions } = k8s;
for (const [strategy, body] of [
  [PatchStrategy.MergePatch, { data: { value: '3' } }],
  [PatchStrategy.StrategicMergePatch, { data: { value: '4' } }],
  [PatchStrategy.JsonPatch, [{ op: 'replace', path: '/data/value', value: '5' }]],
]) {
  const before = Number((await read('a')).data.value);
  const options = setHeaderOptions('Content-Type', strategy);
  const patched = await core.patchNamespacedConfigMap({ name: 'a', namespace, body }, options);
  assert.equal(Number(patched.data.value), before + 1, strategy);
}
await core.patchNamespacedConfigMap(
  { name: 'a', namespace, body: { data: { value: 'no' } }, dryRun: 'All' },
  setHeaderOptions('Content-Type', PatchStrategy.MergePatch),
);
assert.equal((await read('a')).data.value, '5');

// Server-side apply.
const apply = (manager, value, force) => {
  const spec = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'applied', namespace }, data: { value } };
  return objects.patch(spec, undefined, undefined, manager, force, PatchStrategy.ServerSideApply);
};
const first = await apply('me', '1');
assert.equal((await apply('me', '1')).metadata.resourceVersion, first.metadata.resourceVersion);
await refused(409, 'Conflict', apply('other', '2'));
await apply('other', '2', true);
const managers = (await read('applied')).metadata.managedFields.filter((entry) => entry.operation === 'Apply');
assert.deepEqual(managers.map((entry) => entry.manager), ['other']);

// Files, discovery, versions.
for (const spec of k8s.loadAllYaml('{apiVersion: v1, kind: Secret, metadata: {name: s}, stringData: {k: v}}')) {
  spec.metadata.namespace = namespace;
  await objects.create(spec);
}
assert.deepEqual((await core.readNamespacedSecret({ name: 's', namespace })).data, { k: 'dg==' });
assert.equal((await config.makeApiClient(k8s.VersionApi).getCode()).minor, '36');
const { groups } = await config.makeApiClient(k8s.ApisApi).getAPIVersions();
assert(groups.some((group) => group.name === 'storage.k8s.io'));
assert((await core.getAPIResources()).resources.some((resource) => resource.name === 'persistentvolumes/status'));

// Delete.
const gone = await core.deleteNamespacedConfigMap({ name: 'a', namespace, body: { propagationPolicy: 'Background' } });
assert.equal(gone.status, 'Success');
await refused(404, 'NotFound', core.deleteNamespacedConfigMap({ name: 'a', namespace }));
await core.deleteCollectionNamespacedConfigMap({ namespace, labelSelector: 'parity' });
assert.deepEqual(names(await core.listNamespacedConfigMap({ namespace })), ['applied', 'later']);
console.log('done');
