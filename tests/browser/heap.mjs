// Memory stays flat over thousands of changes: in a list, in the graph and in the state machine diagrams. Objects that are created and deleted
// leak no memory.

import { VOLUMES, connection, ensure, go, row, story, volume } from './page.mjs';

const OBJECTS = 40;
const ROUND = 400;
const AT_ONCE = 8;
// The engine's own memory varies by some hundred kilobytes.
const SLACK = 0.6 * 2 ** 20;

story(async ({ page, client, url }) => {
  const cdp = await page.context().newCDPSession(page);
  await cdp.send('Performance.enable');
  const measure = async () => {
    // One collection is not enough: objects referenced only by garbage are freed by the next one.
    for (let times = 0; times < 3; times += 1) await cdp.send('HeapProfiler.collectGarbage');
    const { metrics } = await cdp.send('Performance.getMetrics');
    const of = (name) => metrics.find((one) => one.name === name).value;
    return { heap: of('JSHeapUsedSize'), nodes: of('Nodes'), listeners: of('JSEventListeners') };
  };
  let number = 0;
  /** Performs `many` writes; every tenth creates and deletes an object. Then writes a last capacity and returns it. */
  const writes = async (many) => {
    const end = number + many;
    const work = async () => {
      while (number < end) {
        const mine = (number += 1);
        const name = `disk-${mine % OBJECTS}`;
        if (mine % 10) await client.patch(`${VOLUMES}/${name}`, { spec: { capacity: { storage: `${mine}Mi` } } }).catch((error) => ensure(/ 404 | 409 /.test(error.message), error.message));
        else {
          await client.create(VOLUMES, volume(`passing-${mine}`, { capacity: { storage: '1Mi' } }));
          await client.remove(`${VOLUMES}/passing-${mine}`);
        }
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
    // An odd number of Mi is never displayed in a larger unit.
    const last = `${2 * end + 1}Mi`;
    await client.patch(`${VOLUMES}/disk-0`, { spec: { capacity: { storage: last } } });
    return last;
  };
  await Promise.all(Array.from({ length: OBJECTS }, (_, index) => client.create(VOLUMES, volume(`disk-${index}`, { capacity: { storage: '1Mi' } }))));
  await page.goto(`${url}/ui/#/list/persistentvolumes`);
  await connection(page, 'live');
  const results = [];
  for (const view of ['list/persistentvolumes', 'graph', 'machines']) {
    await go(page, `#/${view}`);
    await page.locator(`main[data-view="${view.split('/')[0]}"]`).waitFor();
    const round = async () => {
      const last = await writes(ROUND);
      // The last capacity in the list shows that all changes have arrived; the view under test has been closed by then.
      await go(page, '#/list/persistentvolumes');
      await row(page, 'disk-0').getByText(last, { exact: true }).waitFor();
      const found = await measure();
      await go(page, `#/${view}`);
      await page.locator(`main[data-view="${view.split('/')[0]}"]`).waitFor();
      return found;
    };
    await round();
    const before = await round();
    const after = await round();
    const grown = after.heap - before.heap;
    results.push(`${view}: ${(before.heap / 2 ** 20).toFixed(1)} MiB, ${(grown / 1024).toFixed(0)} KiB more after ${ROUND} changes, ${after.nodes - before.nodes} nodes, ${after.listeners - before.listeners} listeners`);
    ensure(grown < SLACK && after.nodes - before.nodes < 300 && after.listeners - before.listeners < 50, results.join('\n'));
  }
  process.stdout.write(`${results.join('\n')}\n`);
});
