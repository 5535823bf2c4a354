// Untrusted input is displayed only as text: markup, scripts, `javascript:` URLs, bidirectional control characters, JavaScript's built-in
// names, and 256 KiB in one value, in objects, in recordings and in the page's URL.

import { CLAIMS, VOLUMES, claim, connection, ensure, go, row, same, story, until, volume } from './page.mjs';

const TRAP = `<img src=x onerror="globalThis.caught=1"><script>globalThis.caught=1</script><a href="javascript:globalThis.caught=1">`;
const SVG = '"><svg onload=globalThis.caught=`1`>${document.title}{{constructor}}';
// Right-to-left override and isolate characters that are never closed.
const TURNED = 'harmless\u202egpj.exe\u2066\u200f';
const LONG = 'x'.repeat(255 * 1024);

story(async ({ page, complaints, client, url }) => {
  complaints.allow(/Failed to load resource: the server responded with a status of 404/);
  await client.create(CLAIMS, claim('trap', { storageClassName: 'none' }, { annotations: { markup: TRAP, turned: TURNED, '__proto__': 'x', constructor: SVG } }));
  await client.create(VOLUMES, volume('trap', { storageClassName: 'other', hostPath: undefined, nfs: { server: SVG, path: `/${TRAP}` } }));
  await client.create(VOLUMES, volume('large', { storageClassName: 'other' }, { annotations: { large: LONG } }));
  await client.patch(`${VOLUMES}/large`, { metadata: { annotations: { large: LONG.replace('x', 'y') } } });
  await client.create('/apis/storage.k8s.io/v1/storageclasses', { metadata: { name: 'constructor' }, provisioner: 'example.com/x', parameters: { markup: TRAP } });
  const event = (name, words) => client.create('/api/v1/namespaces/default/events', {
    metadata: { name, namespace: 'default' }, type: 'Warning', reason: words.slice(0, 100), message: words,
    involvedObject: { kind: 'PersistentVolumeClaim', apiVersion: 'v1', namespace: 'default', name: 'trap' },
  });
  await event('markup', TRAP);
  await event('turned', TURNED);
  await client.ask('PATCH', `${VOLUMES}/trap/status`, { status: { phase: 'Failed', message: TRAP, reason: SVG } }, 'application/merge-patch+json');

  await page.goto(`${url}/ui/#/list/events`);
  await connection(page, 'live');
  const clean = async (where) => {
    const found = await page.evaluate(() => ({
      markup: document.querySelectorAll('#app img, #app script, #app a[href^="javascript" i], #app svg[onload]').length,
      handlers: [...document.querySelectorAll('#app *')].filter((element) => [...element.attributes].some(({ name }) => name.startsWith('on'))).length,
      caught: globalThis.caught !== undefined,
    }));
    same(found, { markup: 0, handlers: 0, caught: false }, `elements created from text at ${where}`);
  };
  await row(page, TRAP.slice(0, 100)).getByText(TRAP.slice(0, 40)).first().waitFor();
  await clean('events');

  for (const [address, there] of [
    ['#/object/persistentvolumeclaims/default/trap', page.getByText(TRAP).first()],
    ['#/object/persistentvolumeclaims/default/trap?tab=yaml', page.locator('pre.sheet', { hasText: 'markup' })],
    ['#/object/persistentvolumeclaims/default/trap?tab=why', page.locator('.why .lead')],
    ['#/object/persistentvolumeclaims/default/trap?tab=history', page.getByRole('heading', { name: 'All changes' })],
    ['#/object/persistentvolumes/-/trap?tab=yaml', page.locator('pre.sheet', { hasText: 'onerror' })],
    ['#/object/persistentvolumes/-/trap?tab=history', page.getByRole('heading', { name: 'All changes' })],
    ['#/object/storageclasses/-/constructor', page.getByRole('heading', { name: 'constructor', level: 1 })],
    ['#/remove/persistentvolumeclaims/default/trap', page.getByRole('heading', { name: /^Delete/ })],
    ['#/overview', page.getByRole('listitem').filter({ hasText: 'trap' }).first()],
    ['#/graph?as=table', page.getByRole('rowheader', { name: 'trap', exact: true })],
    ['#/graph', page.getByRole('application')],
    ['#/machines', page.getByRole('group', { name: /^Volumes:/ })],
    ['#/time', page.getByRole('table')],
    // Large values: YAML, history and details.
    ['#/object/persistentvolumes/-/large?tab=yaml', page.locator('pre.sheet', { hasText: 'yxxxx' })],
    ['#/object/persistentvolumes/-/large?tab=history', page.getByRole('heading', { name: 'All changes' })],
    ['#/object/persistentvolumes/-/large', page.getByRole('heading', { name: 'Related' })],
    // Forged URLs.
    [`#/list/${encodeURIComponent(TRAP)}`, page.getByRole('heading', { name: 'Kind not found' })],
    ['#/list/__proto__', page.getByRole('heading', { name: 'Kind not found' })],
    ['#/list/constructor', page.getByRole('heading', { name: 'Kind not found' })],
    [`#/object/persistentvolumes/-/${encodeURIComponent(TRAP)}`, page.getByRole('heading', { level: 1, name: TRAP.slice(0, 20) })],
    ['#/object/persistentvolumes/-/..%2f..%2fx?tab=why', page.getByRole('heading', { level: 1 })],
    ['#/constructor', page.getByRole('heading', { name: 'Page not found' })],
    ['#/__proto__', page.getByRole('heading', { name: 'Page not found' })],
    ['#/%E0%A4%A', page.getByRole('heading', { name: 'Page not found' })],
    [`#/list/persistentvolumeclaims?q=${encodeURIComponent(TRAP)}&phase=${encodeURIComponent(SVG)}`, page.getByText('No objects match the filters.')],
  ]) {
    await go(page, address);
    await there.waitFor().catch((error) => {
      throw new Error(`${address.slice(0, 80)}: ${error.message}`);
    });
    await clean(address);
  }

  // Bidirectional control characters are displayed as escapes where there is space, and never affect text outside their cell.
  await go(page, '#/list/events');
  const turned = row(page, TURNED).first();
  await turned.waitFor();
  const cell = turned.getByRole('cell').filter({ hasText: 'harmless' }).first();
  const message = await cell.textContent();
  ensure(/^harmless.*202e.*gpj\.exe/i.test(message) && !message.includes('\u202e'), `the message is displayed as ${JSON.stringify(message)}`);
  same(await turned.evaluate((element) => getComputedStyle(element).display), 'grid', 'the display of the row');

  // Check a change of the large object in the editor.
  await go(page, '#/object/persistentvolumes/-/large?tab=edit');
  await page.getByRole('button', { name: 'Allow changes in this tab' }).click();
  const text = page.getByRole('textbox', { name: 'YAML' });
  await text.fill((await text.inputValue()).replace('large: y', 'large: z'));
  await page.getByRole('button', { name: 'Check (writes nothing)' }).click();
  await page.getByText('Preview of changes').waitFor();
  await clean('the editor');

  // A forged recording with names that no server would accept.
  const line = (value) => `${JSON.stringify(value)}\n`;
  const forged = (resource, name, more) => ({
    type: 'ADDED', resource, revision: '2', time: '2026-01-01T00:00:00Z',
    object: { apiVersion: 'v1', kind: TRAP, metadata: { name, namespace: SVG, uid: name, resourceVersion: '2', creationTimestamp: TRAP, labels: { [TRAP]: SVG } }, ...more },
  });
  const file = [
    { type: 'HEADER', format: 'orlop.dev/stream.1', revision: '1', oldest: '1', until: '4', time: '2026-01-01T00:00:00Z', server: TRAP },
    forged('persistentvolumeclaims', TRAP, { spec: { volumeName: TRAP, storageClassName: SVG, accessModes: TRAP }, status: { phase: TRAP } }),
    forged('__proto__', '__proto__', {}), forged('constructor', 'toString', { spec: { caught: 1 } }),
    { type: 'SYNCED', revision: '2' },
    { ...forged('events', 'e', { message: TRAP, reason: SVG, type: TRAP, involvedObject: { kind: '__proto__', name: TRAP } }), revision: '3', time: '2026-01-01T00:00:01Z' },
    { ...forged('pods', 'p', { spec: { volumes: [null, { persistentVolumeClaim: { claimName: TRAP } }], containers: 'none' }, status: { phase: { not: 'a text' }, conditions: 'none' } }), revision: '4', time: '2026-01-01T00:00:02Z' },
    { type: 'PROGRESS', revision: '4', time: '2026-01-01T00:00:02Z' },
  ].map(line).join('');
  await page.getByRole('button', { name: 'Rewind' }).click();
  await page.getByLabel('Recording file', { exact: true }).setInputFiles({ name: `${SVG.slice(0, 20).replaceAll('/', '')}.capture`, mimeType: 'text/plain', buffer: Buffer.from(file) });
  await connection(page, 'past');
  for (const view of ['list/persistentvolumeclaims', 'list/events', 'list/pods', 'overview', 'graph?as=table', 'graph', 'machines', 'time', `object/persistentvolumeclaims/${encodeURIComponent(SVG)}/${encodeURIComponent(TRAP)}`]) {
    await go(page, `#/${view}`);
    await page.locator(`main[data-view="${view.split(/[/?]/)[0]}"]`).waitFor();
    await until(`the view ${view}`, async () => !(await page.getByText('Loading …').count()));
    await clean(`${view} of the recording`);
  }
  await page.getByRole('button', { name: 'Back to live' }).click();
  await connection(page, 'live');
});
