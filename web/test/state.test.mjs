// Tests of the data for the views: relations, explanations, and text with invisible characters.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Store, objects } from '../static/state/objects.js';
import { eventsOf, references, related } from '../static/state/relations.js';
import { toYaml, visible } from '../static/parts/yaml.js';
import { Asker } from '../static/views/overview/why.js';
import { World } from './world.mjs';

test('invisible characters are escaped, and strings that look like numbers are quoted', () => {
  for (const [text, want] of [
    ['a\u202eb', '"a\\u202eb"'], ['a\u200bb', '"a\\u200bb"'], ['a\u2028b', '"a\\u2028b"'], ['a\u007f', '"a\\u007f"'], ['\ufeffa', '"\\ufeffa"'],
    ['one\ntw\u202eo', '"one\\ntw\\u202eo"'],
    ['.5', '".5"'], ['._5', '"._5"'], ['.1e3', '".1e3"'], ['.a', '.a'], ['./x', './x'], ['5Gi', '5Gi'], ['1e3', '"1e3"'], ['grün', '"grün"'],
  ]) assert.equal(toYaml({ k: text }), `k: ${want}\n`, JSON.stringify(text));
  for (const sign of ['\u202e', '\u2066', '\u0085']) assert.equal(JSON.parse(toYaml({ k: `a${sign}b` }).slice(3)), `a${sign}b`, 'the escaped text parses to the original');
  assert.equal(toYaml({ k: 'a\nb' }), 'k: |-\n  a\n  b\n');
  assert.equal(visible('x\u2067y\nz'), 'x\\u2067y\nz');
});

test('related objects follow every change', () => {
  const world = new World({ size: 200, seed: 5 });
  const store = new Store();
  for (const { resource, object } of world.objects.values()) store.apply('ADDED', resource, object);
  objects.swap(store);
  const uids = (list) => list.map(({ object }) => object?.metadata.uid).filter(Boolean).sort();
  const slow = (object) => {
    const found = new Set();
    for (const one of references(object)) found.add(objects.get(one.resource, one.namespace, one.name)?.metadata.uid);
    for (const other of store.uids.values()) {
      if (other.__resource === 'events') continue;
      if (references(other).some((one) => objects.get(one.resource, one.namespace, one.name) === object)) found.add(other.metadata.uid);
    }
    found.delete(undefined);
    found.delete(object.metadata.uid);
    return [...found].sort();
  };
  for (let round = 0; round < 20; round += 1) {
    for (let i = 0; i < 10; i += 1) world.step();
    for (const { type, resource, object } of world.lines.splice(0)) objects.apply(type, resource, object);
    for (const object of [...objects.list('persistentvolumes'), ...objects.list('nodes')].slice(0, 12)) assert.deepEqual(uids(related(object)), slow(object), `round ${round}, seed 5, ${object.metadata.name}`);
  }
});

test('events of an object exclude those of another object with the same name', () => {
  objects.swap(new Store());
  const event = (name, time, involvedObject) => objects.apply('ADDED', 'events', { metadata: { name, namespace: 'a', uid: name }, lastTimestamp: time, involvedObject });
  const of = { kind: 'PersistentVolumeClaim', namespace: 'a', name: 'c' };
  event('first', '2026-01-01T00:00:01Z', { ...of, uid: 'u1' });
  event('second', '2026-01-01T00:00:03Z', { ...of, uid: 'u2' });
  event('third', '2026-01-01T00:00:02Z', of);
  const claim = { kind: 'PersistentVolumeClaim', metadata: { namespace: 'a', name: 'c', uid: 'u2' } };
  const names = () => eventsOf(claim).map((one) => one.metadata.name);
  assert.deepEqual(names(), ['second', 'third']);
  event('fourth', '2026-01-01T00:00:04Z', { ...of, uid: 'u2' });
  assert.deepEqual(names(), ['fourth', 'second', 'third']);
});

test('explanations are requested again when they are old or a request failed', async () => {
  let [answer, now] = [{ ok: true, status: 200, json: async () => ({ kind: 'Why', summary: 'first' }) }, 0];
  const urls = [];
  const get = async (url) => {
    urls.push(url);
    if (answer instanceof Error) throw answer;
    return answer;
  };
  const asker = new Asker({ path: (o) => o.metadata.uid, changed() {}, get, now: () => now });
  const one = (uid) => ({ metadata: { uid, resourceVersion: '1' } });
  const want = async (...uids) => {
    urls.length = 0;
    asker.want(uids.map(one));
    await new Promise((resolve) => setImmediate(resolve));
    return urls.join('');
  };
  const refuse = (status, body = {}) => ({ ok: false, status, json: async () => body });
  assert.equal(await want('a'), 'a');
  now = 29999;
  assert.equal(await want('a'), '', 'the explanation is known');
  now = 30000;
  answer = new Error('no network');
  assert.equal(await want('a'), 'a', 'the explanation is old');
  assert.equal(asker.answer(one('a')).summary, 'first', 'the old explanation stays');
  assert.equal(await want('a', 'b'), '', 'requests pause after an error');
  now += 5000;
  answer = refuse(503);
  assert.equal(await want('a', 'b', 'c'), 'ab', 'two concurrent requests, and none after an error');
  now += 5000;
  answer = refuse(404, { details: { name: 'b' } });
  assert.equal(await want('b', 'c'), 'bc', 'a deleted object does not affect the others');
  assert.equal(await want('d'), 'd');
  now += 30000;
  answer = refuse(404);
  assert.equal(await want('e'), 'e');
  now += 59999;
  assert.equal(await want('f'), '', 'requests stop for a minute if the server lacks the group');
  assert.equal(asker.answer(one('a')), undefined);
});
