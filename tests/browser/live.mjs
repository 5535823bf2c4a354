// Changes by other clients appear without a reload: in the list, on the object, in the counts and in the state machine diagrams.

import { CLAIMS, VOLUMES, claim, connection, go, row, same, story, volume } from './page.mjs';

story(async ({ page, client, url }) => {
  // The server's root URL leads to the page.
  await page.goto(`${url}/`);
  await connection(page, 'live');
  await page.evaluate(() => {
    globalThis.loadedOnce = true;
  });
  await page.getByRole('navigation', { name: 'Views' }).getByRole('link', { name: /^Claims/ }).click();
  await page.getByText('There are no claims.').waitFor();

  await client.create(CLAIMS, claim('data', { storageClassName: 'manual' }));
  await row(page, 'data').getByText('Pending').waitFor();
  await client.create(VOLUMES, volume('disk', { storageClassName: 'manual' }));
  await row(page, 'data').getByText('Bound').waitFor();
  const cells = await row(page, 'data').locator(':scope > *').allInnerTexts();
  same(cells.slice(0, -1), ['data', 'default', 'Bound', 'disk', '1Gi', 'RWO', 'manual'], 'the row');

  // Filters in the URL apply.
  await go(page, '#/list/persistentvolumeclaims?phase=Pending');
  await page.getByText('No objects match the filters.').waitFor();
  await page.getByRole('button', { name: 'Clear' }).click();
  await row(page, 'data').waitFor();

  // To the bound volume, through the links.
  await row(page, 'data').getByRole('link').click();
  await page.getByRole('heading', { name: 'data', level: 1 }).waitFor();
  await page.getByRole('link', { name: 'PersistentVolume disk' }).click();
  await page.getByRole('heading', { name: 'disk', level: 1 }).waitFor();
  const title = page.locator('main .title');
  await title.getByText('Bound').waitFor();
  await page.getByRole('tab', { name: 'YAML' }).click();
  await page.locator('pre.sheet', { hasText: 'path: /tmp/orlop-of-tests/disk' }).waitFor();
  same(await page.getByText('managedFields').count(), 0, 'managedFields in the YAML');

  await go(page, '#/machines');
  const volumes = page.getByRole('group', { name: /^Volumes:/ });
  await volumes.getByRole('link', { name: /^1 Bound/ }).waitFor();
  await client.remove(`${CLAIMS}/data`);
  await volumes.getByRole('link', { name: /^1 Released/ }).waitFor();
  // The transition is listed as text, too.
  await page.getByRole('listitem').filter({ hasText: 'disk Bound → Released' }).waitFor();

  await go(page, '#/overview');
  const needs = page.getByRole('listitem').filter({ hasText: 'disk' }).first();
  await needs.getByText('Released').first().waitFor();
  await go(page, '#/list/persistentvolumeclaims');
  await page.getByText('There are no claims.').waitFor();
  same(await page.evaluate(() => globalThis.loadedOnce), true, 'the page has not been reloaded');
});
