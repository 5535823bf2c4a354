// The graph of a lab with a pod that uses a volume, and pending claims: connections between objects, following one claim, keyboard
// navigation, and states that are distinguishable without colours.

import { CLAIMS, PODS, claim, connection, ensure, go, pod, same, story, until } from './page.mjs';

/** Returns the filled part of the square around a node's mark, in any colour: 0.78 for a disc, about a half for a diamond. */
const filled = (page, label) => page.getByRole('application').evaluate((canvas, name) => {
  const { stage } = canvas;
  const node = [...stage.model.nodes.values()].find((one) => one.label === name);
  if (!node || node.shown !== stage.plan) return null;
  const { camera, ratio } = stage;
  const r = 9;
  const [x, y] = [(node.x - camera.x) * camera.wide, (node.y - camera.y) * camera.scale].map((at) => Math.round((at - r) * ratio));
  const size = Math.round(2 * r * ratio);
  const { data } = stage.context.getImageData(x, y, size, size);
  const light = (at) => data[at] + data[at + 1] + data[at + 2];
  let [count, left, right, top, low] = [0, size, 0, size, 0];
  for (let at = 0; at < data.length; at += 4) {
    if (Math.abs(light(at) - light(0)) < 90) continue;
    const [column, line] = [(at / 4) % size, Math.floor(at / 4 / size)];
    [count, left, right, top, low] = [count + 1, Math.min(left, column), Math.max(right, column), Math.min(top, line), Math.max(low, line)];
  }
  return count / ((right - left + 1) * (low - top + 1));
}, label);
const isDisc = (part) => part > 0.66 && part < 0.9;
const isDiamond = (part) => part > 0.4 && part < 0.65;

story(async ({ page, complaints, client, url }) => {
  // Chromium recommends this option for frequent pixel reads; only this test reads pixels.
  complaints.allow(/willReadFrequently/);
  await client.create(CLAIMS, claim('data'));
  await client.create(CLAIMS, claim('waits', { storageClassName: 'lab-first-consumer' }));
  await client.create(CLAIMS, claim('waits-too', { storageClassName: 'lab-first-consumer' }));
  await client.create(PODS, pod('web', 'data'));
  const { spec: { nodeName } } = await client.until(`${PODS}/web`, 'runs', (object) => object.status.phase === 'Running');
  const { spec: { volumeName } } = await client.get(`${CLAIMS}/data`);
  const driver = 'hostpath.csi.orlop.dev';

  await page.goto(`${url}/ui/#/graph?as=table`);
  await connection(page, 'live');
  const table = page.getByRole('table');
  const line = (kind, name) => table.getByRole('row').filter({ has: page.getByRole('cell', { name: kind, exact: true }) }).filter({ has: page.getByRole('rowheader', { name, exact: true }) });
  // Each row lists its neighbours, from the pod to the driver.
  const [attachment] = (await client.get('/apis/storage.k8s.io/v1/volumeattachments')).items;
  for (const [kind, name, ...near] of [
    ['Pod', 'default/web', 'claim default/data', `node ${nodeName}`],
    ['Claim', 'default/data', 'pod default/web', `volume ${volumeName}`, 'class lab'],
    ['Volume', volumeName, 'claim default/data', `attachment ${attachment.metadata.name}`, `driver ${driver}`],
    ['Attachment', attachment.metadata.name, `volume ${volumeName}`, `node ${nodeName}`],
    ['Node', nodeName, `attachment ${attachment.metadata.name}`],
    ['Driver', driver, `volume ${volumeName}`],
  ]) {
    for (const other of near) await line(kind, name).getByRole('button', { name: other, exact: true }).waitFor();
  }
  // A state is a symbol and a word.
  await line('Claim', 'default/data').getByText('● Bound').waitFor();
  await line('Claim', 'default/waits').getByText('◆ Pending').waitFor();

  // Following one claim shows only its chain.
  await line('Pod', 'default/web').getByRole('button', { name: 'claim default/data' }).click();
  const chain = page.getByRole('complementary', { name: 'Related objects' });
  await chain.getByRole('heading', { name: 'Claim default/data' }).waitFor();
  const followed = await until('the chain', async () => {
    const found = (await chain.getByRole('listitem').locator('.kind').allInnerTexts()).join(' ');
    return found.includes('Driver') && found;
  });
  for (const kind of ['Pod', 'Claim', 'Volume', 'Attachment', 'Node', 'Driver', 'Class']) ensure(followed.split(' ').filter((one) => one === kind).length === 1, `not exactly one ${kind} in: ${followed}`);
  same(await line('Claim', 'default/waits').count(), 0, 'rows of unrelated claims');

  // Keyboard navigation in the drawn graph.
  await go(page, '#/graph');
  const canvas = page.getByRole('application', { name: /^Graph of pods/ });
  await canvas.waitFor();
  const said = page.locator('.graph-said');
  await canvas.focus();
  // The keyboard starts at the followed claim; the pod is on its left.
  await until('the pod', async () => {
    await page.keyboard.press('ArrowLeft');
    return (await said.innerText()).startsWith('Pod default/web, Running; connected to ');
  });
  await page.keyboard.press('ArrowRight');
  await said.getByText(/^Claim default\/data, Bound; connected to /).waitFor();
  await page.keyboard.press('ArrowRight');
  await said.getByText(`Volume ${volumeName}, Bound;`).waitFor();
  await page.keyboard.press('ArrowLeft');
  await page.keyboard.press('f');
  await chain.getByRole('heading', { name: 'Claim default/data' }).waitFor();
  ensure(/follow=persistentvolumeclaims%2Fdefault%2Fdata/.test(page.url()), `the URL does not contain the followed claim: ${page.url()}`);
  await page.keyboard.press('Escape');
  await chain.waitFor({ state: 'detached' });

  // Pending objects have a different shape from healthy ones.
  await canvas.focus();
  await page.keyboard.press('Escape');
  await until('the shapes', async () => {
    const [good, one, other] = [await filled(page, 'default/data'), await filled(page, 'default/waits'), await filled(page, 'default/waits-too')];
    ensure(isDisc(good) && isDiamond(one) && isDiamond(other), `filled parts of data, waits, waits-too: ${good}, ${one}, ${other}`);
    return true;
  });
  // The graph draws a change as it happens.
  await client.create(PODS, pod('second', 'waits'));
  await client.until(`${CLAIMS}/waits`, 'is bound', (object) => object.status.phase === 'Bound');
  await until('the bound claim is a disc', async () => {
    const part = await filled(page, 'default/waits');
    ensure(isDisc(part), `filled part of waits: ${part}`);
    return true;
  });

  // Enter opens the object.
  await canvas.focus();
  await page.keyboard.press('Home');
  await until('the first node again', async () => (await said.innerText()).startsWith('Pod default/'));
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { level: 1, name: /^(web|second)$/ }).waitFor();
});
