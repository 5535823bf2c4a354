// Accessibility: axe checks every view in light and dark, on a wide screen and on a phone; no view is wider than its window.

import { readFileSync } from 'node:fs';
import { CLAIMS, PHONE, PODS, VOLUMES, WIDE, axe, claim, connection, go, pod, same, story, until, volume } from './page.mjs';

// Contrast is checked in both themes, all other rules once per size.
const CONTRAST = { runOnly: ['color-contrast'] };
const ALL = {};
const LOOKS = [['light', WIDE, ALL], ['dark', WIDE, CONTRAST], ['light', PHONE, ALL], ['dark', PHONE, CONTRAST]];

story(async ({ page, client, url }) => {
  await page.addInitScript({ content: readFileSync(axe(), 'utf8') });
  await client.create(CLAIMS, claim('data'));
  await client.create(CLAIMS, claim('hopeless', { storageClassName: 'none' }));
  await client.create(PODS, pod('web', 'data'));
  await client.create(VOLUMES, volume('free', { storageClassName: 'manual', persistentVolumeReclaimPolicy: 'Recycle' }));
  await client.create(VOLUMES, volume('left', { storageClassName: 'manual', claimRef: { namespace: 'default', name: 'gone', uid: 'gone' } }));
  await client.until(`${PODS}/web`, 'runs', (object) => object.status.phase === 'Running');
  const { spec: { volumeName } } = await client.get(`${CLAIMS}/data`);

  const data = '#/object/persistentvolumeclaims/default/data';
  const views = [
    ['#/overview', page.getByRole('heading', { name: /^Problems/ })],
    ['#/machines', page.getByRole('group', { name: /^Volumes:/ })],
    ['#/graph', page.getByRole('application')],
    ['#/graph?as=table&follow=persistentvolumeclaims%2Fdefault%2Fdata', page.getByRole('complementary', { name: 'Related objects' })],
    ['#/time', page.getByRole('cell', { name: /default\/data/ }).first()],
    ['#/list/persistentvolumeclaims', page.getByRole('rowheader', { name: 'data' })],
    ['#/list/persistentvolumes?phase=Bound', page.getByRole('rowheader', { name: volumeName })],
    ['#/list/events', page.getByRole('row').nth(2)],
    ['#/list/nodes', page.getByRole('rowheader', { name: 'virtual-1' })],
    [data, page.getByRole('heading', { name: 'Related' })],
    ['#/object/persistentvolumeclaims/default/hopeless?tab=why', page.locator('.why .lead')],
    [`${data}?tab=yaml`, page.locator('pre.sheet')],
    [`${data}?tab=edit`, page.getByRole('textbox', { name: 'YAML' })],
    [`${data}?tab=history`, page.getByRole('heading', { name: 'All changes' })],
    ['#/object/persistentvolumes/-/left', page.getByRole('group', { name: 'Actions' })],
    ['#/object/nodes/-/virtual-1', page.getByRole('heading', { name: 'Conditions' })],
    ['#/remove/persistentvolumeclaims/default/data', page.getByRole('button', { name: 'Delete', exact: true })],
    ['#/create/persistentvolumeclaims', page.getByRole('button', { name: 'Create' })],
    ['#/list/nothing', page.getByRole('heading', { name: 'Kind not found' })],
  ];
  const found = [];
  let looks = 0;
  const look = async (name, options) => {
    looks += 1;
    const violations = await page.evaluate(async (asked) => {
      const { violations: all } = await globalThis.axe.run(document, { resultTypes: ['violations'], ...asked });
      return all.map(({ id, help, nodes }) => ({ id, help, at: nodes.slice(0, 4).map((node) => `${node.target.join(' ')}: ${node.any[0]?.message ?? node.all[0]?.message ?? node.none[0]?.message ?? ''}`) }));
    }, options);
    for (const { id, help, at } of violations) found.push(`${name}: ${id}, ${help}\n    ${at.join('\n    ')}`);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    if (wide > 0) found.push(`${name}: ${wide} pixels wider than the window`);
  };

  await page.goto(`${url}/ui/#/object/persistentvolumeclaims/default/data?tab=edit`);
  await connection(page, 'live');
  await page.getByRole('button', { name: 'Allow changes in this tab' }).click();
  for (const [address, there] of views) {
    await go(page, address);
    await there.waitFor();
    for (const [colorScheme, size, options] of LOOKS) {
      await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
      await page.setViewportSize(size);
      await there.waitFor();
      await look(`${address} (${colorScheme}, ${size.width})`, options);
    }
    await page.setViewportSize(WIDE);
  }

  // The help dialog, the menu, and the view of a past revision.
  await go(page, '#/overview');
  for (const [colorScheme, size, options] of LOOKS) {
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    await page.setViewportSize(size);
    await page.getByRole('button', { name: 'Keyboard shortcuts and help' }).click();
    await look(`help (${colorScheme}, ${size.width})`, options);
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'hidden' });
  }
  await page.getByRole('button', { name: 'Menu', exact: true }).click();
  await page.getByRole('navigation', { name: 'Views' }).getByRole('link', { name: /^Volumes/ }).waitFor();
  await look('the menu on a phone', ALL);
  await page.getByRole('button', { name: 'Menu', exact: true }).click();
  await page.setViewportSize(WIDE);
  await page.getByRole('button', { name: 'Rewind' }).click();
  const handle = page.getByRole('slider', { name: 'Revision shown' });
  await until('the time slider has revisions', async () => Number(await handle.getAttribute('aria-valuemax')) > 5);
  await handle.press('ArrowLeft');
  await connection(page, 'past');
  for (const [colorScheme, size, options] of LOOKS) {
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    await page.setViewportSize(size);
    await look(`the past (${colorScheme}, ${size.width})`, options);
  }
  // The API documentation.
  await page.goto(`${url}/docs`);
  await page.getByText(/kinds/).first().waitFor();
  for (const [colorScheme, size, options] of LOOKS) {
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    await page.setViewportSize(size);
    await look(`the API documentation (${colorScheme}, ${size.width})`, options);
  }
  process.stdout.write(`${looks} checks\n`);
  same(found.length, 0, `\n${found.join('\n')}\nviolations`);
});
