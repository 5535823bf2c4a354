// Tests of the pure modules of the views. Run: node --test web/test/

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { World, random } from './world.mjs';
import { Model, addressOf } from '../static/views/graph/model.js';
import { approach, layout, some, spread } from '../static/views/graph/layout.js';
import { Camera, hit } from '../static/views/graph/draw.js';
import { Store, objects } from '../static/state/objects.js';
import { edges, references } from '../static/state/relations.js';
import { problems } from '../static/views/overview/problems.js';
import { Asker } from '../static/views/overview/why.js';
import { GONE, MACHINES, Moves, NEW } from '../static/views/machines/moves.js';
import { Marks, bars, read } from '../static/views/time/marks.js';
import { clock, countdowns, duration } from '../static/parts/countdown.js';

function filled(options) {
  const store = new Store();
  for (const { resource, object } of new World(options).objects.values()) store.apply('ADDED', resource, object);
  objects.swap(store);
  return store;
}
const all = (work) => some(work, Infinity);

test('spread keeps rows at least one apart and close to their targets', () => {
  assert.deepEqual(spread([]), []);
  assert.deepEqual(spread([3, 7]), [3, 7]);
  assert.deepEqual(spread([5, 5, 5]), [4, 5, 6]);
  const next = random(7);
  const wanted = Array.from({ length: 500 }, () => next() * 300).sort((a, b) => a - b);
  const rows = spread(wanted);
  rows.forEach((row, i) => assert.ok(!i || row - rows[i - 1] > 1 - 1e-6, `row ${i}, seed 7`));
});

test('the graph follows changes, and its layout has no overlapping nodes', () => {
  const store = filled({ size: 600, seed: 3 });
  const model = new Model();
  assert.ok(model.update(objects.list, references));
  assert.equal(model.nodes.size, [...store.uids.values()].length);
  assert.ok(model.edges.size > 300);
  assert.ok(!model.update(objects.list, references), 'an update without changes');
  const plan = all(layout(model, null));
  for (const column of plan.columns) column.forEach((node, i) => assert.ok(!i || node.ty - column[i - 1].ty > 20, node.label));
  const { shape } = model;
  const claim = store.list('persistentvolumeclaims').find((c) => c.status.phase === 'Bound');
  store.apply('MODIFIED', 'persistentvolumeclaims', { ...claim, status: { phase: 'Lost' } });
  assert.ok(model.update(objects.list, references));
  assert.equal(model.shape, shape, 'a changed state does not change the shape');
  assert.equal(model.nodes.get(claim.metadata.uid).word, 'Lost');
  objects.version += 1;
  store.apply('DELETED', 'persistentvolumeclaims', claim);
  model.update(objects.list, references);
  assert.equal(model.shape, shape + 1);
  assert.ok([...model.edges].every(({ a, b }) => model.nodes.has(a.id) && model.nodes.has(b.id)));
});

test('the chain of a claim includes its driver but no other claims', () => {
  filled({ size: 600, seed: 3 });
  const model = new Model();
  model.update(objects.list, references);
  const claim = [...model.nodes.values()].find((n) => n.kind === 'Claim' && n.word === 'Bound' && n.near.size >= 3);
  const kinds = [...model.chain(claim.id)].map((id) => model.nodes.get(id).kind);
  assert.equal(kinds.filter((kind) => kind === 'Claim').length, 1);
  assert.equal(kinds.filter((kind) => kind === 'Volume').length, 1);
  assert.ok(kinds.includes('Driver') && kinds.includes('Class'));
  assert.equal(model.find(addressOf(claim)), claim);
  const kept = model.keep({ ns: claim.namespace });
  assert.ok(kept.has(claim.id) && kept.size < model.nodes.size);
  assert.equal(model.keep({}), null);
});

test('the edges match the references of the objects, whatever the order of changes', () => {
  const [seed, next] = [11, random(11)];
  const world = new World({ size: 300, seed });
  const store = new Store();
  objects.swap(store);
  const model = new Model();
  for (const { resource, object } of world.first) store.apply('ADDED', resource, object);
  for (let round = 0; round < 60; round += 1) {
    for (let i = 0; i < 20; i += 1) world.step();
    for (const { type, resource, object } of world.lines.splice(0)) store.apply(type, resource, object);
    if (next() < 0.3) {
      // Delete a claim and create it again with the same name.
      const claim = store.list('persistentvolumeclaims')[Math.floor(next() * 30)];
      store.apply('DELETED', 'persistentvolumeclaims', claim);
      store.apply('ADDED', 'persistentvolumeclaims', { ...claim, metadata: { ...claim.metadata, uid: `again-${round}` } });
    }
    model.update(objects.list, references);
    const wanted = new Set();
    for (const { from, to } of edges()) if (model.nodes.has(from) && model.nodes.has(to)) wanted.add([from, to].sort().join(' '));
    const found = new Set([...model.edges].map(({ a, b }) => [a.id, b.id].sort().join(' ')));
    assert.deepEqual([...found].sort(), [...wanted].sort(), `round ${round}, seed ${seed}`);
    for (const { a, b } of model.edges) assert.ok(a.near.has(b.id) && b.near.has(a.id));
  }
});

test('hit finds each drawn node', () => {
  filled({ size: 600, seed: 3 });
  const model = new Model();
  model.update(objects.list, references);
  const plan = all(layout(model, null));
  while (approach(plan.columns, 0.3));
  const camera = new Camera();
  camera.room(plan, 1300);
  camera.zoom(0.3, 300, 200);
  for (const node of plan.columns[2].slice(0, 20)) {
    const found = hit(plan, camera, (node.x - camera.x) * camera.wide, (node.y - camera.y) * camera.scale);
    assert.equal(found?.label, node.label);
  }
  assert.equal(hit(plan, camera, -5000, 0), null);
});

const NOW = Date.parse('2026-01-01T01:00:00Z');
const meta = (name, more) => ({ name, namespace: 'a', uid: `u-${name}`, resourceVersion: '1', creationTimestamp: '2026-01-01T00:00:00Z', ...more });
const given = (table) => (resource) => (table[resource] || []).map((object) => ({ __resource: resource, ...object }));
const cluster = (table) => problems(given(table), NOW).map(({ code, severity, reason }) => [code, severity, reason]);

test('each problem has its code and reason', () => {
  const pvc = (spec, status = { phase: 'Pending' }, more) => ({ metadata: meta('data', more), spec, status });
  const cases = {
    'lost': [{ persistentvolumeclaims: [pvc({ volumeName: 'v' }, { phase: 'Lost' })] }, 'LostVolume', /volume v does not exist/],
    'no class': [{ persistentvolumeclaims: [pvc({ storageClassName: 'x' })] }, 'NoSuchClass', /class x does not exist/],
    'no volume': [{ persistentvolumeclaims: [pvc({ storageClassName: '' })] }, 'NoVolume', /No volume without a class is available/],
    'no such volume': [{ persistentvolumeclaims: [pvc({ volumeName: 'v' })] }, 'NoSuchVolume', /v, which does not exist/],
    'waits for a pod': [{ persistentvolumeclaims: [pvc({ storageClassName: 'x' })], storageclasses: [{ metadata: { name: 'x' }, provisioner: 'd', volumeBindingMode: 'WaitForFirstConsumer' }] }, 'NoConsumer', /no pod uses/],
    'no driver': [{ persistentvolumeclaims: [pvc({ storageClassName: 'x' })], storageclasses: [{ metadata: { name: 'x' }, provisioner: 'd' }] }, 'NoDriver', /driver d of its class x is not registered/],
    'released': [{ persistentvolumes: [{ metadata: meta('v'), spec: { persistentVolumeReclaimPolicy: 'Retain', claimRef: { namespace: 'a', name: 'c' } }, status: { phase: 'Released' } }] }, 'Released', /claim a\/c was deleted/],
    'failed': [{ persistentvolumes: [{ metadata: meta('v'), spec: {}, status: { phase: 'Failed', message: 'busy' } }] }, 'VolumeFailed', /^busy$/],
    'terminating': [{ persistentvolumeclaims: [pvc({}, { phase: 'Bound' }, { deletionTimestamp: '2026-01-01T00:30:00Z', finalizers: ['kubernetes.io/pvc-protection'] })], pods: [{ metadata: meta('web'), spec: { volumes: [{ persistentVolumeClaim: { claimName: 'data' } }] }, status: { phase: 'Running' } }] }, 'Terminating', /pod a\/web uses the claim/],
    'attach error': [{ nodes: [{ metadata: { name: 'n' }, status: { conditions: [{ type: 'Ready', status: 'True' }] } }], volumeattachments: [{ metadata: meta('va'), spec: { nodeName: 'n', source: { persistentVolumeName: 'v' } }, status: { attachError: { message: 'no' } } }] }, 'AttachFailed', /v on n failed: no/],
  };
  for (const [name, [table, code, words]] of Object.entries(cases)) {
    const found = cluster(table);
    assert.equal(found.length, 1, name);
    assert.equal(found[0][0], code, name);
    assert.match(found[0][2], words, name);
  }
  assert.deepEqual(cluster({ persistentvolumeclaims: [pvc({ volumeName: 'v' }, { phase: 'Bound' })] }), []);
});

test('a volume needed on two nodes is a multi-attach problem', () => {
  const pod = (name, nodeName, phase) => ({ metadata: meta(name), spec: { nodeName, volumes: [{ persistentVolumeClaim: { claimName: 'data' } }] }, status: { phase } });
  const ready = (name) => ({ metadata: { name }, status: { conditions: [{ type: 'Ready', status: 'True' }] } });
  const found = cluster({
    pods: [pod('old', 'n1', 'Running'), pod('new', 'n2', 'Pending')], nodes: [ready('n1'), ready('n2')],
    persistentvolumeclaims: [{ metadata: meta('data'), spec: { volumeName: 'v' }, status: { phase: 'Bound' } }],
    persistentvolumes: [{ metadata: { name: 'v', uid: 'v' }, spec: { accessModes: ['ReadWriteOnce'] }, status: { phase: 'Bound' } }],
    volumeattachments: [{ metadata: meta('va'), spec: { nodeName: 'n1', source: { persistentVolumeName: 'v' } }, status: { attached: true } }],
  });
  assert.deepEqual(found, [['MultiAttach', 'attention', 'Volume v is still attached to n1, where pod a/old uses it; it can be attached to one node only.']]);
});

test('explanations are requested once per version, and requests pause if the server lacks the group', async () => {
  const urls = [];
  let [status, now] = [200, 0];
  const get = async (url) => {
    urls.push(url);
    return { ok: status === 200, status, json: async () => ({ kind: 'Why', summary: url }) };
  };
  const done = () => new Promise((resolve) => setImmediate(resolve));
  const asker = new Asker({ path: (o) => o.metadata.uid, changed() {}, get, now: () => now });
  const object = { metadata: { uid: 'a', resourceVersion: '1' } };
  asker.want([object]);
  asker.want([object]);
  await done();
  assert.deepEqual(urls, ['a']);
  assert.equal(asker.answer(object).summary, 'a');
  status = 404;
  asker.want([{ metadata: { uid: 'b', resourceVersion: '1' } }]);
  await done();
  asker.want([{ metadata: { uid: 'c', resourceVersion: '1' } }]);
  await done();
  assert.deepEqual(urls, ['a', 'b']);
  [status, now] = [200, 60001];
  asker.want([{ metadata: { uid: 'b', resourceVersion: '1' } }]);
  await done();
  assert.deepEqual(urls, ['a', 'b', 'b']);
});

test('moves reports state transitions', () => {
  const moves = new Moves();
  const pv = (uid, phase) => ({ metadata: { uid, name: uid }, status: { phase } });
  assert.deepEqual(moves.look([pv('a', 'Available')]), []);
  const tell = (list) => moves.look(list).map(({ from, to }) => [from, to]);
  assert.deepEqual(tell([pv('a', 'Bound'), pv('b', 'Bound')]), [['Available', 'Bound'], [NEW, 'Pending'], ['Pending', 'Bound']]);
  assert.deepEqual(tell([pv('b', 'Released')]), [['Bound', 'Released'], ['Bound', GONE]]);
  moves.forget();
  assert.deepEqual(tell([pv('c', 'Failed')]), []);
  for (const { states, ways, ends } of MACHINES) for (const { from, to } of ways) assert.ok((states[from] || ends[from]) && (states[to] || ends[to]));
});

test('marks are added once, searched and counted', () => {
  const marks = new Marks();
  const lines = [1, 2, 2, 5].map((revision, i) => ({ type: i ? 'MODIFIED' : 'ADDED', revision: String(revision), time: new Date(1000 * revision).toISOString(), resource: 'pods', name: `p${i}` }));
  assert.equal(marks.add(lines), 4);
  assert.equal(marks.add(lines), 0, 'known marks are skipped');
  assert.equal(marks.upTo(2), 3);
  assert.equal(marks.until(4999), 3);
  assert.deepEqual([...marks.bins(1000, 5000, 2)], [1, 2, 0, 0, 1, 0]);
  assert.match(bars(marks.bins(1000, 5000, 2))[0], /^M/);
  assert.equal(read('{"revision":"1"}\n{"revision":"2"}\n').length, 2);
  assert.equal(read('{"items":[1,2,3]}').length, 3);
  assert.deepEqual(read(''), []);
});

test('countdowns are read from annotations, taints and container states', () => {
  assert.equal(duration('1m30s'), 90000);
  assert.ok(Number.isNaN(duration('soon')) && Number.isNaN(duration('')));
  assert.deepEqual([7000, 272000, 3845000, -1000, 200000000].map(clock), ['0:07', '4:32', '1:04:05', '−0:01', '2 d 7 h']);
  const attachment = { __resource: 'volumeattachments', metadata: { annotations: { 'orlop.dev/detach-not-before': '2026-01-01T01:04:00Z' } } };
  assert.deepEqual(countdowns(attachment, { now: NOW }), [{ what: 'forced detach', at: NOW + 240000, tone: 'bad' }]);
  const pod = {
    __resource: 'pods', metadata: {}, spec: { tolerations: [{ key: 'unreachable', effect: 'NoExecute', tolerationSeconds: 300 }] },
    status: { containerStatuses: [{ name: 'main', state: { waiting: { reason: 'CrashLoopBackOff', message: 'back-off 40s restarting failed container' } }, lastState: { terminated: { finishedAt: '2026-01-01T01:00:00Z' } } }] },
  };
  const node = { spec: { taints: [{ key: 'unreachable', effect: 'NoExecute', timeAdded: '2026-01-01T01:00:00Z' }] } };
  assert.deepEqual(countdowns(pod, { node, now: NOW }).map(({ what, at }) => [what, at - NOW]), [['restart of main', 40000], ['eviction', 300000]]);
});
