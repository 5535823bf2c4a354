// Changing an object: allowed first, tried, shown as a difference, written. When somebody else writes in between, that is told, nothing of theirs
// goes unseen and nothing of the text is lost.

import { VOLUMES, connection, ensure, same, story, until, volume } from './page.mjs';

const AT = `${VOLUMES}/disk`;

story(async ({ page, complaints, somebody, url }) => {
  // The browser itself notes each refusal of a request.
  complaints.allow(/Failed to load resource: the server responded with a status of (400|409|422)/);
  await somebody.create(VOLUMES, volume('disk', {}, { annotations: { note: 'first' } }));
  await somebody.until(AT, 'is available', (object) => object.status?.phase === 'Available');
  await page.goto(`${url}/ui/#/object/persistentvolumes/-/disk?tab=edit`);
  await connection(page, 'live');
  const text = page.getByRole('textbox', { name: 'YAML' });
  const check = page.getByRole('button', { name: 'Check (writes nothing)' });
  const save = page.getByRole('button', { name: 'Save', exact: true });
  const told = (words) => page.getByRole('tabpanel').getByText(words).first().waitFor();
  const change = (path) => page.getByRole('listitem').filter({ has: page.getByText(path, { exact: true }) });

  // Nothing can be written before somebody has said so.
  await page.getByRole('button', { name: 'Allow changes in this tab' }).waitFor();
  same(await text.count(), 0, 'editors on a page that is read only');
  await page.getByRole('button', { name: 'Allow changes in this tab' }).click();

  const edit = async (from, to) => {
    await text.waitFor();
    const value = await text.inputValue();
    ensure(value.includes(from), `${from} is not in:\n${value}`);
    await text.fill(value.replace(from, to));
  };
  // Tried: the server's answer as a difference, and nothing is written.
  await edit('note: first', 'note: mine');
  ensure(await save.isDisabled(), 'what was not tried can be saved');
  await check.click();
  await told('Preview of changes');
  await change('metadata.annotations.note').getByText('first').waitFor();
  await change('metadata.annotations.note').getByText('mine').waitFor();
  same((await somebody.get(AT)).metadata.annotations.note, 'first', 'the object after it was tried');
  await save.click();
  await told('Saved.');
  same((await somebody.get(AT)).metadata.annotations.note, 'mine', 'the object after it was saved');

  // What the server refuses is told in its words.
  await until('the text is that of what was saved', async () => (await text.inputValue()).includes('note: mine'));
  await edit('storage: 1Gi', 'storage: much');
  await check.click();
  await page.getByRole('alert').filter({ hasText: 'quantities must match' }).waitFor();
  await edit('storage: much', 'storage: 1Gi');

  // Somebody writes before it is tried.
  await edit('note: mine', 'note: again mine');
  await somebody.patch(AT, { metadata: { labels: { theirs: 'yes' } } });
  await told(/^It has been written since this text was made/);
  await check.click();
  await page.getByRole('alert').filter({ hasText: 'Somebody else has a say in this' }).waitFor();
  await told('Changes by others');
  await change('metadata.labels').or(change('metadata.labels.theirs')).first().waitFor();
  ensure((await text.inputValue()).includes('note: again mine'), 'the text is still there');
  same((await somebody.get(AT)).metadata.annotations.note, 'mine', 'the object after the conflict');
  // Against how it is now: what of theirs would go is told before it goes.
  await page.getByRole('button', { name: 'Compare my text with the current object' }).click();
  await told('Preview of changes');
  await change('metadata.annotations.note').getByText('again mine').waitFor();
  await change('metadata.labels').or(change('metadata.labels.theirs')).first().getByText('removed').waitFor();
  // It is kept by taking it into the text.
  await edit('  name: disk\n', '  name: disk\n  labels:\n    theirs: "yes"\n');
  await check.click();
  await told('Preview of changes');
  await change('metadata.annotations.note').waitFor();
  same(await change('metadata.labels').or(change('metadata.labels.theirs')).count(), 0, 'what would go of theirs');

  // Somebody writes between the check and the saving: it was not this that was looked at.
  await somebody.patch(AT, { metadata: { labels: { theirs: 'twice' } } });
  await save.click();
  await page.getByRole('alert').filter({ hasText: 'Somebody else has a say in this' }).waitFor();
  ensure((await text.inputValue()).includes('note: again mine'), 'the text is still there');
  const kept = await somebody.get(AT);
  same([kept.metadata.annotations.note, kept.metadata.labels.theirs], ['mine', 'twice'], 'the object after the second conflict');

  // Server-side apply takes only what is in the text: what others have stays.
  await page.getByRole('radio', { name: /^apply/ }).check();
  await text.fill('apiVersion: v1\nkind: PersistentVolume\nmetadata:\n  name: disk\n  annotations:\n    applied: here\n');
  await check.click();
  await change('metadata.annotations.applied').getByText('here').waitFor();
  await save.click();
  await told('Saved.');
  const after = await somebody.get(AT);
  same([after.metadata.annotations.applied, after.metadata.annotations.note, after.metadata.labels.theirs], ['here', 'mine', 'twice'], 'what was applied');

  // It is deleted under the editor: that is told.
  await somebody.remove(AT);
  await page.getByText(/PersistentVolume disk is not there any more/).waitFor();
});
