// Tests of the page's pure modules. Run: node --test web/test/

import assert from 'node:assert/strict';
import test from 'node:test';

import { changes, pathText } from '../static/parts/diff.js';
import { toYaml } from '../static/parts/yaml.js';
import { link, read, write } from '../static/route.js';
import { Track, historyOf, parse, stateAt } from '../static/state/capture.js';
import { canonical, insight, path, phase } from '../static/state/kinds.js';
import { Store } from '../static/state/objects.js';
import { references } from '../static/state/relations.js';
import { backoff, splitter } from '../static/state/stream.js';
import { amount, columnsOf, facets, filtered, sorted } from '../static/views/columns.js';
import { applied, replaced, versioned } from '../static/views/object/text.js';
import { consequences } from '../static/views/remove.js';
import { FORMS, values } from '../static/views/samples.js';

const volume = (name, spec = {}, more = {}) => ({
  kind: 'PersistentVolume', __resource: 'persistentvolumes', metadata: { name, uid: `uid-${name}` }, spec: { capacity: { storage: '1Gi' }, ...spec }, ...more,
});

test('routes are parsed from and written to URL fragments', () => {
  for (const [hash, want] of [
    ['', { view: '', parts: [], query: {} }],
    ['#/list/pods?ns=a&q=b+c', { view: 'list', parts: ['pods'], query: { ns: 'a', q: 'b c' } }],
    ['#/object/persistentvolumes/-/a%2Fb', { view: 'object', parts: ['persistentvolumes', '-', 'a/b'], query: {} }],
    ['#/object/%', { view: 'object', parts: ['%'], query: {} }],
  ]) assert.deepEqual(read(hash), want, hash);
  assert.equal(write('list/pods', { ns: '', q: 'a b' }), '#/list/pods?q=a+b');
  assert.equal(link(volume('a')), '#/object/persistentvolumes/-/a');
  assert.equal(link({ metadata: { name: 'x' } }, 'volumeattachments'), '#/object/volumeattachments.storage.k8s.io/-/x');
});

test('kinds resolve to API paths, with and without their groups', () => {
  assert.equal(canonical('volumeattachments'), 'volumeattachments.storage.k8s.io');
  assert.equal(canonical('Pod'), 'pods');
  assert.equal(canonical('leases'), 'leases');
  assert.equal(path('storageclasses', '', 'a'), '/apis/storage.k8s.io/v1/storageclasses/a');
  assert.equal(path('pods', 'ns', 'a'), '/api/v1/namespaces/ns/pods/a');
  assert.equal(insight('pods', 'ns', 'a', 'why'), '/apis/orlop.dev/v1/namespaces/ns/pods/a/why');
  assert.equal(phase(volume('a', {}, { metadata: { name: 'a', deletionTimestamp: 'x' }, status: { phase: 'Bound' } })), 'Terminating');
  assert.equal(phase(volume('a')), 'Pending');
});

test('a store keeps its indexes by name and UID consistent', () => {
  const store = new Store();
  const one = volume('a');
  store.apply('ADDED', 'persistentvolumes', one);
  const again = { ...volume('a'), metadata: { name: 'a', uid: 'second' } };
  store.apply('ADDED', 'persistentvolumes', again);
  store.apply('DELETED', 'persistentvolumes', one);
  assert.equal(store.list('persistentvolumes').length, 1, 'a late deletion does not remove a new object with the same name');
  assert.equal(store.uids.has('uid-a'), false);
  store.replace('persistentvolumes', [volume('b')]);
  assert.deepEqual(store.list('persistentvolumes').map((o) => o.metadata.name), ['b']);
  assert.equal(store.uids.has('second'), false);
});

test('a recording yields the state at each revision, and an invalid one is rejected', () => {
  const line = (type, revision, object) => JSON.stringify({ type, revision, resource: 'persistentvolumes', time: `t${revision}`, object });
  const text = [
    '{"type":"HEADER","format":"orlop.dev/stream.1","revision":"3","time":"t0"}', line('ADDED', '2', volume('a')), '{"type":"SYNCED","revision":"3"}',
    line('ADDED', '4', volume('b')), line('DELETED', '9', volume('a')), '',
  ].join('\n');
  const recording = parse(text);
  const names = (revision) => stateAt(recording, revision).store.list('persistentvolumes').map((o) => o.metadata.name);
  assert.deepEqual(names(3), ['a']);
  assert.deepEqual(names('4'), ['a', 'b']);
  assert.deepEqual(names(10), ['b']);
  assert.equal(stateAt(recording, 5).time, 't4');
  for (const [bad, words] of [['', /empty/], ['{"a":1}', /not a recording/], ['nonsense', /not JSON/], [`${text}{"type":"ADD`, /not JSON/]]) assert.throws(() => parse(bad), words);
});

test('a track replays in both directions', () => {
  const at = (second) => new Date(1e12 + second * 1000).toISOString();
  const line = (type, revision, object) => ({ type, revision: String(revision), resource: 'persistentvolumes', time: at(revision), object });
  const named = (name, uid, phase) => ({ metadata: { name, uid }, status: { phase } });
  const track = new Track({
    header: { revision: '3', until: '12', time: at(99) }, base: [line('ADDED', 2, named('a', 'a1', 'Available'))],
    changes: [
      line('MODIFIED', 4, named('a', 'a1', 'Bound')), line('DELETED', 5, named('a', 'a1', 'Bound')), line('ADDED', 6, named('a', 'a2', 'Pending')),
      // A late deletion of the first object does not affect the second object with the same name.
      line('DELETED', 7, named('a', 'a1', 'Bound')), line('ADDED', 8, named('b', 'b1', 'Pending')), { ...line('ADDED', 9, named('x', 'x', '')), resource: 'leases.coordination.k8s.io' },
    ],
  });
  const seen = (revision) => track.go(track.upTo(revision)).list('persistentvolumes').map((o) => `${o.metadata.uid} ${o.status.phase}`);
  const wanted = [[3, ['a1 Available']], [4, ['a1 Bound']], [5, []], [6, ['a2 Pending']], [7, ['a2 Pending']], [12, ['a2 Pending', 'b1 Pending']]];
  for (const [revision, state] of [...wanted, ...wanted.toReversed(), wanted[2], wanted[5], wanted[0]]) assert.deepEqual(seen(revision), state, `revision ${revision}`);
  assert.deepEqual([...track.store.uids.keys()], ['a1']);
  assert.deepEqual([track.has(2), track.has(3), track.has(12), track.has(13)], [false, true, true, false]);
  assert.equal(track.at, 1e12 + 2000, 'the time of the last write, not of the recording');
  assert.equal(track.until(1e12 + 5500), 2);
  track.extend([line('MODIFIED', 14, named('b', 'b1', 'Available'))], 15);
  seen(15);
  track.trim(2);
  assert.deepEqual([track.from, track.to, track.changes.length, track.index], [7, 15, 2, 2]);
  assert.deepEqual(seen(7), ['a2 Pending']);
  assert.deepEqual(seen(14), ['a2 Pending', 'b1 Available']);
});

test('a recording contains the history of an object', () => {
  const line = (type, revision, phase) => ({ type, revision: String(revision), resource: 'persistentvolumes', time: `t${revision}`, object: { metadata: { name: 'a', uid: 'a' }, status: { phase } } });
  const recording = { base: [line('ADDED', 2, 'Available')], changes: [line('MODIFIED', 4, 'Bound'), line('DELETED', 5, 'Bound')] };
  const items = historyOf(recording, 'persistentvolumes', 'a', changes);
  assert.deepEqual(items.map((one) => [one.type, one.revision]), [['DELETED', '5'], ['MODIFIED', '4'], ['ADDED', '2']]);
  assert.deepEqual(items[1].changes, [{ path: ['status', 'phase'], op: 'replace', from: 'Available', to: 'Bound' }]);
  assert.deepEqual(historyOf(recording, 'persistentvolumes', 'b', changes), []);
});

test('pieces are split into lines, and pauses grow up to a limit', () => {
  const split = splitter();
  assert.deepEqual([split('a\nb'), split('c\n\nd'), split('\n')], [['a'], ['bc'], ['d']]);
  const pauses = backoff(() => 1);
  assert.deepEqual([1, 2, 3, 4, 5, 6, 7].map(() => pauses.next()), [500, 1000, 2000, 4000, 8000, 15000, 15000]);
  assert.equal(pauses.long, true);
  pauses.reset();
  assert.equal(pauses.next(), 500);
});

test('references are read from each kind', () => {
  const kinds = (object) => references(object).map((one) => `${one.kind} ${one.resource} ${one.namespace}/${one.name}`);
  assert.deepEqual(kinds(volume('a', { claimRef: { namespace: 'n', name: 'c' }, csi: { driver: 'd' }, storageClassName: 's' })), [
    'claim persistentvolumeclaims n/c', 'class storageclasses.storage.k8s.io /s', 'driver csidrivers.storage.k8s.io /d']);
  const pod = { __resource: 'pods', metadata: { name: 'p', namespace: 'n' }, spec: { nodeName: 'x', volumes: [{ name: 'v', ephemeral: {} }, { name: 'w', persistentVolumeClaim: { claimName: 'c' } }] } };
  assert.deepEqual(kinds(pod), ['claim persistentvolumeclaims n/p-v', 'claim persistentvolumeclaims n/c', 'node nodes /x']);
  const group = {
    __resource: 'volumegroupsnapshots.groupsnapshot.storage.k8s.io', metadata: { name: 'g', namespace: 'n' }, spec: { volumeGroupSnapshotClassName: 'k' },
    status: { boundVolumeGroupSnapshotContentName: 'x', readyToUse: true },
  };
  assert.deepEqual(kinds(group), ['content volumegroupsnapshotcontents.groupsnapshot.storage.k8s.io /x', 'class volumegroupsnapshotclasses.groupsnapshot.storage.k8s.io /k']);
  assert.equal(phase(group), 'Ready');
  const content = { __resource: 'volumegroupsnapshotcontents', metadata: { name: 'x' }, spec: { driver: 'd', volumeGroupSnapshotRef: { name: 'g', namespace: 'n' } } };
  assert.deepEqual(kinds(content), ['snapshot volumegroupsnapshots.groupsnapshot.storage.k8s.io n/g', 'driver csidrivers.storage.k8s.io /d']);
  assert.equal(phase(content), 'Pending');
  assert.deepEqual(kinds({ __resource: 'others', metadata: { name: 'a' } }), []);
});

test('changes lists the fields that differ', () => {
  const all = (a, b) => changes(a, b).map((one) => `${one.op} ${pathText(one.path)}`);
  assert.deepEqual(all({ a: 1 }, { a: 1 }), []);
  assert.deepEqual(all({ a: 1, b: { c: 1 } }, { b: { c: 2 }, d: 0 }), ['remove a', 'replace b.c', 'add d']);
  assert.deepEqual(all({ metadata: { resourceVersion: '1', name: 'a' } }, { metadata: { resourceVersion: '2', name: 'a' } }), []);
  assert.deepEqual(all({ l: [{ name: 'a', v: 1 }, { name: 'b' }] }, { l: [{ name: 'c' }, { name: 'a', v: 2 }] }), ['replace l[name=a].v', 'remove l[name=b]', 'add l[name=c]']);
  assert.deepEqual(all({ l: [1] }, { l: [2] }), ['replace l']);
  assert.deepEqual(all({ a: null }, {}), ['remove a']);
});

test('lists are filtered and sorted', () => {
  const columns = columnsOf('persistentvolumes');
  const list = [volume('b', { capacity: { storage: '512Mi' }, storageClassName: 'x' }), volume('a', { capacity: { storage: '1Gi' } }, { status: { phase: 'Bound' } }), volume('c', { capacity: { storage: '1G' } })];
  const names = (found) => found.map((o) => o.metadata.name).join('');
  assert.equal(names(sorted(list, columns)), 'abc');
  assert.equal(names(sorted(list, columns, 'size')), 'bca');
  assert.equal(names(sorted(list, columns, '-size')), 'acb');
  assert.equal(names(filtered(list, columns, { q: 'bound' })), 'a');
  assert.equal(names(filtered(list, columns, { q: '-bound' })), 'bc');
  assert.equal(names(filtered(list, columns, { class: 'x' })), 'b');
  assert.deepEqual(facets(list, {}), { phase: ['Bound', 'Pending'] });
  assert.deepEqual(facets(list, { ns: 'gone' }).ns, ['gone']);
  assert.equal(amount('1.5Gi'), 1.5 * 2 ** 30);
  assert.equal(amount('1e3'), 1000);
});

test('editor texts omit server fields and preserve the resource version', () => {
  const object = { __resource: 'x', kind: 'A', metadata: { name: 'a', uid: 'u', resourceVersion: '7', managedFields: [], annotations: { t: 'x\n  resourceVersion: y\n' } }, status: {} };
  assert.deepEqual(applied(object), { kind: 'A', metadata: { name: 'a', annotations: object.metadata.annotations } });
  const text = toYaml(replaced(object));
  assert.match(text, /^ {2}resourceVersion: "7"$/m);
  assert.equal(versioned(text, '8'), text.replace('"7"', '"8"'));
  assert.match(versioned('metadata:\n  name: a\nspec: {}', '9'), /metadata:\n {2}resourceVersion: "9"\n {2}name: a/);
});

test('consequences describe what a deletion removes', () => {
  const claim = { kind: 'PersistentVolumeClaim', metadata: { name: 'c' }, spec: { volumeName: 'v' } };
  const tones = (policy) => consequences(claim, [{ object: volume('v', { persistentVolumeReclaimPolicy: policy }) }])[0];
  assert.equal(tones('Delete')[0], 'bad');
  assert.match(tones('Retain')[1], /retains its data/);
  assert.match(consequences(claim, [{ object: { kind: 'Pod', metadata: { name: 'p' } } }])[0][1], /while pods use it: p/);
});

test('every sample generates an object', () => {
  for (const [id, form] of Object.entries(FORMS)) {
    for (const [label, change] of [['plain', {}], ...form.samples]) {
      const known = form.fields.map((one) => one.id);
      for (const name of Object.keys(change)) assert.ok(known.includes(name), `${id} ${label}: ${name}`);
      const made = form.make(values(form, change));
      assert.ok(made.metadata.name && made.kind && toYaml(made), `${id} ${label}`);
    }
  }
});

test('marks of compacted revisions are dropped', async () => {
  const { Marks } = await import('../static/views/time/marks.js');
  const marks = new Marks();
  marks.add([3, 5, 8].map((revision) => ({ type: 'ADDED', revision: String(revision), time: '2026-01-31T12:00:00Z', resource: 'pods' })));
  const left = (oldest) => {
    marks.forget(oldest);
    return marks.list.map((mark) => mark.revision);
  };
  assert.deepEqual(left(0), [3, 5, 8]);
  assert.deepEqual(left(5), [5, 8], 'the mark of the oldest available revision');
  assert.deepEqual(left(9), []);
  assert.equal(marks.first, undefined, 'no marks are left');
});
