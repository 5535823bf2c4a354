// The editor: allow changes, check (a dry run), review the diff, save. When another client writes in between, the page reports it, overwrites
// none of its changes without showing them, and keeps the edited text.

import { VOLUMES, connection, ensure, same, story, until, volume } from './page.mjs';

const AT = `${VOLUMES}/disk`;

story(async ({ page, complaints, client, url }) => {
  // The browser logs each rejected request.
  complaints.allow(/Failed to load resource: the server responded with a status of (400|409|422)/);
  await client.create(VOLUMES, volume('disk', {}, { annotations: { note: 'first' } }));
  await client.until(AT, 'is available', (object) => object.status?.phase === 'Available');
  await page.goto(`${url}/ui/#/object/persistentvolumes/-/disk?tab=edit`);
  await connection(page, 'live');
  const text = page.getByRole('textbox', { name: 'YAML' });
  const check = page.getByRole('button', { name: 'Check (writes nothing)' });
  const save = page.getByRole('button', { name: 'Save', exact: true });
  const waitForText = (words) => page.getByRole('tabpanel').getByText(words).first().waitFor();
  const change = (path) => page.getByRole('listitem').filter({ has: page.getByText(path, { exact: true }) });

  // The page is read-only until the user allows changes.
  await page.getByRole('button', { name: 'Allow changes in this tab' }).waitFor();
  same(await text.count(), 0, 'editors on a read-only page');
  await page.getByRole('button', { name: 'Allow changes in this tab' }).click();

  const edit = async (from, to) => {
    await text.waitFor();
    const value = await text.inputValue();
    ensure(value.includes(from), `${from} is not in:\n${value}`);
    await text.fill(value.replace(from, to));
  };
  // A check shows the dry-run result as a diff and writes nothing.
  await edit('note: first', 'note: mine');
  ensure(await save.isDisabled(), 'an unchecked change can be saved');
  await check.click();
  await waitForText('Preview of changes');
  await change('metadata.annotations.note').getByText('first').waitFor();
  await change('metadata.annotations.note').getByText('mine').waitFor();
  same((await client.get(AT)).metadata.annotations.note, 'first', 'the note after the check');
  await save.click();
  await waitForText('Saved.');
  same((await client.get(AT)).metadata.annotations.note, 'mine', 'the note after saving');

  // A rejection is displayed with the server's message.
  await until('the editor contains the saved object', async () => (await text.inputValue()).includes('note: mine'));
  await edit('storage: 1Gi', 'storage: much');
  await check.click();
  await page.getByRole('alert').filter({ hasText: 'quantities must match' }).waitFor();
  await edit('storage: much', 'storage: 1Gi');

  // Another client writes before the check.
  await edit('note: mine', 'note: again mine');
  await client.patch(AT, { metadata: { labels: { theirs: 'yes' } } });
  await waitForText(/^The object has changed since the editor loaded it/);
  await check.click();
  await page.getByRole('alert').filter({ hasText: 'Conflict with another client' }).waitFor();
  await waitForText('Changes by other clients');
  await change('metadata.labels').or(change('metadata.labels.theirs')).first().waitFor();
  ensure((await text.inputValue()).includes('note: again mine'), 'the text is still there');
  same((await client.get(AT)).metadata.annotations.note, 'mine', 'the note after the conflict');
  // The comparison with the current object shows which of the other client's changes a save would remove.
  await page.getByRole('button', { name: 'Compare my text with the current object' }).click();
  await waitForText('Preview of changes');
  await change('metadata.annotations.note').getByText('again mine').waitFor();
  await change('metadata.labels').or(change('metadata.labels.theirs')).first().getByText('removed').waitFor();
  // Adding the label to the text preserves it.
  await edit('  name: disk\n', '  name: disk\n  labels:\n    theirs: "yes"\n');
  await check.click();
  await waitForText('Preview of changes');
  await change('metadata.annotations.note').waitFor();
  same(await change('metadata.labels').or(change('metadata.labels.theirs')).count(), 0, 'label changes in the preview');

  // Another client writes between the check and the save: the checked preview is out of date.
  await client.patch(AT, { metadata: { labels: { theirs: 'twice' } } });
  await save.click();
  await page.getByRole('alert').filter({ hasText: 'Conflict with another client' }).waitFor();
  ensure((await text.inputValue()).includes('note: again mine'), 'the text is still there');
  const kept = await client.get(AT);
  same([kept.metadata.annotations.note, kept.metadata.labels.theirs], ['mine', 'twice'], 'the note and label after the second conflict');

  // Server-side apply sets only the fields in the text; the fields of other managers stay.
  await page.getByRole('radio', { name: /^apply/ }).check();
  await text.fill('apiVersion: v1\nkind: PersistentVolume\nmetadata:\n  name: disk\n  annotations:\n    applied: here\n');
  await check.click();
  await change('metadata.annotations.applied').getByText('here').waitFor();
  await save.click();
  await waitForText('Saved.');
  const after = await client.get(AT);
  same([after.metadata.annotations.applied, after.metadata.annotations.note, after.metadata.labels.theirs], ['here', 'mine', 'twice'], 'annotations and label after the apply');

  // The page reports that the object was deleted while it was being edited.
  await client.remove(AT);
  await page.getByText(/PersistentVolume disk no longer exists/).waitFor();
});
