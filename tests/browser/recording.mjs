// A recording saved by the page opens after the server has stopped, in all views and at each revision. A file that is not a recording is
// rejected with a message. The story requests the kill of the server with the line `"kill"`.

import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CLAIMS, VOLUMES, claim, connection, ensure, go, row, same, say, story, until, volume } from './page.mjs';

story(async ({ page, complaints, client, url }) => {
  complaints.allow(/net::ERR_/);
  await client.create(VOLUMES, volume('disk', { storageClassName: 'manual' }));
  await client.create(CLAIMS, claim('early', { storageClassName: 'manual' }));
  await client.until(`${CLAIMS}/early`, 'is bound', (object) => object.status?.phase === 'Bound');
  const written = await Promise.all([`${VOLUMES}/disk`, `${CLAIMS}/early`].map((path) => client.get(path)));
  const bound = Math.max(...written.map((object) => Number(object.metadata.resourceVersion)));
  await client.create('/api/v1/namespaces/default/secrets', { metadata: { name: 'key' }, stringData: { word: 'nobody-may-read-this' } });
  await client.remove(`${CLAIMS}/early`);
  await client.until(`${VOLUMES}/disk`, 'is released', (object) => object.status?.phase === 'Released');

  await page.goto(`${url}/ui/#/list/persistentvolumes`);
  await connection(page, 'live');
  await page.getByRole('button', { name: 'Rewind' }).click();
  const bar = page.getByRole('region', { name: 'Time' });
  const [download] = await Promise.all([page.waitForEvent('download'), bar.getByRole('link', { name: 'Save a recording' }).click()]);
  const kept = join(mkdtempSync(join(tmpdir(), 'orlop-recording-')), 'kept.capture');
  await download.saveAs(kept);
  const text = readFileSync(kept, 'utf8');
  ensure(JSON.parse(text.split('\n', 1)[0]).format === 'orlop.dev/stream.1', `the file is not a recording; it begins with: ${text.slice(0, 200)}`);
  ensure(!text.includes('nobody-may-read-this') && !text.includes(Buffer.from('nobody-may-read-this').toString('base64')), 'the recording contains a secret');
  // The recording does not contain later changes.
  await client.create(VOLUMES, volume('later', { storageClassName: 'manual' }));
  await row(page, 'later').waitFor();

  say('kill');
  await page.getByRole('status').filter({ hasText: /^Not live/ }).waitFor();
  const broken = join(kept, '..', 'broken.capture');
  writeFileSync(broken, 'certainly no recording\n');
  const open = (file) => page.getByLabel('Recording file', { exact: true }).setInputFiles(file);
  await open(broken);
  await bar.getByRole('alert').waitFor();
  same(await row(page, 'later').count(), 1, 'rows after a rejected file');

  await open(kept);
  await connection(page, 'past');
  await row(page, 'disk').getByText('Released').waitFor();
  await row(page, 'later').waitFor({ state: 'detached' });
  await bar.getByText('kept.capture').waitFor();
  same(await page.getByRole('status').filter({ hasText: /^Not live/ }).count(), 0, 'connection warnings while a recording is open');

  // All views open without a server.
  for (const view of ['overview', 'machines', 'graph', 'time']) {
    await go(page, `#/${view}`);
    await page.locator(`main[data-view=${view}]`).waitFor();
    await until(`the view ${view}`, async () => !(await page.getByText('Loading …').count()) && !(await page.getByText('This view did not load').count()));
  }
  await go(page, '#/machines');
  const volumes = page.getByRole('group', { name: /^Volumes:/ });
  await volumes.getByRole('link', { name: /^1 Released/ }).waitFor();
  // Back to the revision at which the claim was bound.
  const handle = bar.getByRole('slider', { name: 'Revision shown' });
  const moment = async () => Number(/revision (\d+)/.exec(await handle.getAttribute('aria-valuetext'))?.[1] ?? Infinity);
  for (let now = await moment(); now > bound;) {
    await handle.press('ArrowLeft');
    now = await until('a step back', async () => ((await moment()) < now ? moment() : false));
  }
  await volumes.getByRole('link', { name: /^1 Bound/ }).waitFor();
  await go(page, '#/object/persistentvolumes/-/disk?tab=yaml');
  await page.locator('pre.sheet', { hasText: 'name: early' }).waitFor();

  // Back in live mode, the page shows the last known state, in grey.
  await bar.getByRole('button', { name: 'Back to live' }).click();
  await page.getByRole('status').filter({ hasText: /^Not live/ }).waitFor();
  await go(page, '#/list/persistentvolumes');
  await row(page, 'later').waitFor();
});
