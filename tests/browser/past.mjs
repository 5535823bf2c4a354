// Rewinding: every view shows the state at a past revision; the page plays from there; a URL opens a revision; and back in live mode the page
// shows the changes that arrived meanwhile.

import { CLAIMS, VOLUMES, claim, connection, ensure, go, row, same, story, until, volume } from './page.mjs';

story(async ({ page, client, url }) => {
  await client.create(VOLUMES, volume('disk', { storageClassName: 'manual' }));
  await client.until(`${VOLUMES}/disk`, 'is available', (object) => object.status?.phase === 'Available');
  await client.create(CLAIMS, claim('early', { storageClassName: 'manual' }));
  await client.until(`${CLAIMS}/early`, 'is bound', (object) => object.status?.phase === 'Bound');
  // The later of both writes.
  const versions = [await client.get(`${VOLUMES}/disk`), await client.get(`${CLAIMS}/early`)].map((object) => Number(object.metadata.resourceVersion));
  const bound = Math.max(...versions);
  await client.remove(`${CLAIMS}/early`);
  await client.until(`${VOLUMES}/disk`, 'is released', (object) => object.status?.phase === 'Released');
  await client.create(CLAIMS, claim('late', { storageClassName: 'manual' }));

  await page.goto(`${url}/ui/#/list/persistentvolumeclaims`);
  await connection(page, 'live');
  await row(page, 'late').waitFor();
  same(await row(page, 'early').count(), 0, 'rows of the deleted claim');

  // With the time slider, step by step with the keyboard, back to the revision at which the first claim was bound.
  await page.getByRole('button', { name: 'Rewind' }).click();
  const bar = page.getByRole('region', { name: 'Time' });
  const handle = bar.getByRole('slider', { name: 'Revision shown' });
  const moment = async () => Number(/revision (\d+)/.exec(await handle.getAttribute('aria-valuetext'))?.[1] ?? Infinity);
  await until('the time slider has revisions', async () => Number(await handle.getAttribute('aria-valuemax')) > 5);
  await handle.focus();
  for (let now = Infinity; now > bound;) {
    await page.keyboard.press('ArrowLeft');
    now = await until('a step back', async () => ((await moment()) < now ? moment() : false));
  }
  await connection(page, 'past');
  await row(page, 'early').getByText('Bound').waitFor();
  same(await row(page, 'late').count(), 0, 'rows of a claim that did not exist yet');
  await until('the URL contains the revision', () => /at=\d+/.test(page.url()));

  // Every view shows that revision.
  await go(page, '#/object/persistentvolumes/-/disk');
  await page.locator('main .title').getByText('Bound').waitFor();
  await page.getByRole('link', { name: 'PersistentVolumeClaim default/early' }).waitFor();
  await go(page, '#/machines');
  await page.getByRole('group', { name: /^Volumes:/ }).getByRole('link', { name: /^1 Bound/ }).waitFor();
  await go(page, '#/graph?as=table');
  await page.getByRole('rowheader', { name: 'default/early' }).waitFor();
  await go(page, '#/object/persistentvolumes/-/disk?tab=edit');
  await page.getByText('You are viewing the past.').waitFor();
  same(await page.getByRole('textbox', { name: 'YAML' }).count(), 0, 'editors at a past revision');

  // Playing from there shows one claim deleted and the other one created.
  await go(page, '#/list/persistentvolumeclaims');
  await row(page, 'early').waitFor();
  await bar.getByLabel('Speed').selectOption('60');
  await bar.getByRole('button', { name: 'Play', exact: true }).click();
  await row(page, 'late').waitFor();
  await row(page, 'early').waitFor({ state: 'detached' });
  await connection(page, 'past');

  // A change made now does not appear in the past, but does after the return to live mode.
  await client.create(CLAIMS, claim('meanwhile', { storageClassName: 'manual' }));
  await handle.focus();
  await page.keyboard.press('Home');
  await row(page, 'late').waitFor({ state: 'detached' });
  same(await row(page, 'meanwhile').count(), 0, 'rows of a claim created later');
  await bar.getByRole('button', { name: 'Back to live' }).click();
  await connection(page, 'live');
  await row(page, 'meanwhile').waitFor();
  await row(page, 'late').waitFor();
  ensure(!/[?&]at=/.test(page.url()), `the URL still contains a revision: ${page.url()}`);

  // Open a URL with a revision from a blank page.
  await page.goto('about:blank');
  await page.goto(`${url}/ui/#/list/persistentvolumeclaims?at=${bound}`);
  await row(page, 'early').getByText('Bound').waitFor();
  await connection(page, 'past');
  same(await row(page, 'meanwhile').count(), 0, 'rows of a claim created later');
});
