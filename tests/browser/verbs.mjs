// Actions with a plan: make a released volume available to a claim with its data, restore a deleted claim from its history, and delete a claim.
// Each action shows its plan before it writes anything, and then makes exactly the planned changes.

import { CLAIMS, VOLUMES, claim, connection, ensure, go, same, story, until, volume } from './page.mjs';

story(async ({ page, complaints, client, url }) => {
  complaints.allow(/Failed to load resource: the server responded with a status of (404|409)/);
  const given = { storageClassName: 'manual' };
  await client.create(VOLUMES, volume('disk', given));
  await client.create(CLAIMS, claim('first', given));
  await client.until(`${CLAIMS}/first`, 'is bound', (object) => object.status?.phase === 'Bound');
  await client.remove(`${CLAIMS}/first`);
  await client.until(`${VOLUMES}/disk`, 'is released', (object) => object.status?.phase === 'Released');
  await client.create(CLAIMS, claim('waits', given));

  await page.goto(`${url}/ui/#/object/persistentvolumes/-/disk`);
  await connection(page, 'live');
  const can = page.getByRole('group', { name: 'Actions' });
  await can.getByRole('button', { name: /^Make it available, with its data/ }).click();
  const verb = can.getByRole('region', { name: 'Make it available, with its data' });
  await verb.getByLabel(/^Reserve for the claim/).fill('default/waits');
  await verb.getByRole('button', { name: /^Show the plan/ }).click();
  await verb.getByRole('listitem').filter({ hasText: 'PersistentVolume disk is changed' }).first().waitFor();
  same((await client.get(`${VOLUMES}/disk`)).status.phase, 'Released', 'the volume while its plan is shown');
  await verb.getByRole('button', { name: 'Allow changes in this tab' }).click();

  // Another client writes in between: the server rejects the outdated plan, and the user makes a new one.
  await client.patch(`${VOLUMES}/disk`, { metadata: { labels: { theirs: 'yes' } } });
  await verb.getByRole('button', { name: 'Apply' }).click();
  await verb.getByRole('alert').waitFor();
  same((await client.get(`${VOLUMES}/disk`)).status.phase, 'Released', 'the volume after an outdated plan');
  await verb.getByRole('button', { name: 'Plan again' }).click();
  await verb.getByRole('button', { name: 'Apply' }).click();
  await verb.getByText(/Done/).first().waitFor();
  await client.until(`${CLAIMS}/waits`, 'is bound', (object) => object.status?.phase === 'Bound' && object.spec.volumeName === 'disk');
  await page.locator('main .title').getByText('Bound').waitFor();
  same((await client.get(`${VOLUMES}/disk`)).metadata.labels, { theirs: 'yes' }, 'the labels that another client wrote');

  // Restore a deleted claim from its history.
  await go(page, '#/object/persistentvolumeclaims/default/first?tab=history');
  await page.getByText(/PersistentVolumeClaim default\/first (does not exist|no longer exists)/).waitFor();
  // Restore its first version: the volume that it had later is bound to another claim.
  await page.getByRole('button', { name: /^created/ }).click();
  await page.getByRole('button', { name: /^Restore this version/ }).click();
  await page.getByText('PersistentVolumeClaim default/first is created').first().waitFor();
  await page.getByRole('button', { name: 'Apply' }).click();
  const back = await until('the claim exists again', () => client.get(`${CLAIMS}/first`));
  same(back.spec.storageClassName, 'manual', 'the storage class of the restored claim');

  // Delete: the page shows the consequences and requires the name.
  await go(page, '#/remove/persistentvolumeclaims/default/waits');
  await page.locator('main .plan, main .notice').first().waitFor();
  const really = page.getByRole('button', { name: 'Delete', exact: true });
  await really.waitFor();
  ensure(await really.isDisabled(), 'the claim can be deleted without typing its name');
  await page.getByLabel(/^Type the name/).fill('waits');
  await really.click();
  await until('the claim is deleted', async () => !(await client.get(CLAIMS)).items.some((one) => one.metadata.name === 'waits'));
});
