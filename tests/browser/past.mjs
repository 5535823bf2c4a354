// Rewinding: the whole page shows what was at a moment, in every view; it plays from there; an address leads to a moment; and live again it
// knows what came meanwhile.

import { CLAIMS, VOLUMES, claim, connection, ensure, go, row, same, story, until, volume } from './page.mjs';

story(async ({ page, somebody, url }) => {
  await somebody.create(VOLUMES, volume('disk', { storageClassName: 'manual' }));
  await somebody.until(`${VOLUMES}/disk`, 'is available', (object) => object.status?.phase === 'Available');
  await somebody.create(CLAIMS, claim('early', { storageClassName: 'manual' }));
  await somebody.until(`${CLAIMS}/early`, 'is bound', (object) => object.status?.phase === 'Bound');
  // The later of both writes.
  const versions = [await somebody.get(`${VOLUMES}/disk`), await somebody.get(`${CLAIMS}/early`)].map((object) => Number(object.metadata.resourceVersion));
  const bound = Math.max(...versions);
  await somebody.remove(`${CLAIMS}/early`);
  await somebody.until(`${VOLUMES}/disk`, 'is released', (object) => object.status?.phase === 'Released');
  await somebody.create(CLAIMS, claim('late', { storageClassName: 'manual' }));

  await page.goto(`${url}/ui/#/list/persistentvolumeclaims`);
  await connection(page, 'live');
  await row(page, 'late').waitFor();
  same(await row(page, 'early').count(), 0, 'rows of what is gone');

  // By the bar, step by step with the keyboard, to where the first claim was bound.
  await page.getByRole('button', { name: 'Rewind' }).click();
  const bar = page.getByRole('region', { name: 'Time' });
  const handle = bar.getByRole('slider', { name: 'Revision shown' });
  const moment = async () => Number(/revision (\d+)/.exec(await handle.getAttribute('aria-valuetext'))?.[1] ?? Infinity);
  await until('a line', async () => Number(await handle.getAttribute('aria-valuemax')) > 5);
  await handle.focus();
  for (let now = Infinity; now > bound;) {
    await page.keyboard.press('ArrowLeft');
    now = await until('a step back', async () => ((await moment()) < now ? moment() : false));
  }
  await connection(page, 'past');
  await row(page, 'early').getByText('Bound').waitFor();
  same(await row(page, 'late').count(), 0, 'rows of what was not there yet');
  await until('the address tells the moment', () => /at=\d+/.test(page.url()));

  // Every view is of that moment.
  await go(page, '#/object/persistentvolumes/-/disk');
  await page.locator('main .title').getByText('Bound').waitFor();
  await page.getByRole('link', { name: 'PersistentVolumeClaim default/early' }).waitFor();
  await go(page, '#/machines');
  await page.getByRole('group', { name: /^Volumes:/ }).getByRole('link', { name: /^1 Bound/ }).waitFor();
  await go(page, '#/graph?as=table');
  await page.getByRole('rowheader', { name: 'default/early' }).waitFor();
  await go(page, '#/object/persistentvolumes/-/disk?tab=edit');
  await page.getByText('You are viewing the past.').waitFor();
  same(await page.getByRole('textbox', { name: 'YAML' }).count(), 0, 'editors of the past');

  // It plays: the claim goes and the other one comes, without anybody doing anything.
  await go(page, '#/list/persistentvolumeclaims');
  await row(page, 'early').waitFor();
  await bar.getByLabel('Speed').selectOption('60');
  await bar.getByRole('button', { name: 'Play', exact: true }).click();
  await row(page, 'late').waitFor();
  await row(page, 'early').waitFor({ state: 'detached' });
  await connection(page, 'past');

  // What happens now is not the past's business, and is there when one is back.
  await somebody.create(CLAIMS, claim('meanwhile', { storageClassName: 'manual' }));
  await handle.focus();
  await page.keyboard.press('Home');
  await row(page, 'late').waitFor({ state: 'detached' });
  same(await row(page, 'meanwhile').count(), 0, 'rows of what comes later');
  await bar.getByRole('button', { name: 'Back to live' }).click();
  await connection(page, 'live');
  await row(page, 'meanwhile').waitFor();
  await row(page, 'late').waitFor();
  ensure(!/[?&]at=/.test(page.url()), `the address is live: ${page.url()}`);

  // An address with a moment, opened anew.
  await page.goto('about:blank');
  await page.goto(`${url}/ui/#/list/persistentvolumeclaims?at=${bound}`);
  await row(page, 'early').getByText('Bound').waitFor();
  await connection(page, 'past');
  same(await row(page, 'meanwhile').count(), 0, 'rows of what comes later');
});
