// Disconnection. After the server is killed, the page shows that it is disconnected and since when, turns grey, and stops its clocks. When the
// server is back, the page shows the changes made meanwhile. When the server has compacted the page's revision, the page lists everything again
// and shows no wrong state in between.
//
// `tests/browser/mod.rs` kills and starts the server and cuts the connection when a line of output requests it: `"kill"`, `"start"`,
// `"cut and forget"`, `"mend"`.

import { CLAIMS, claim, connection, ensure, row, same, say, story, until } from './page.mjs';

story(async ({ page, complaints, client, url }) => {
  const [direct] = process.argv.slice(3);
  // The browser logs a network error for each request to a stopped server.
  complaints.allow(/net::ERR_/);
  client.url = direct;
  await client.create(CLAIMS, claim('before', { storageClassName: 'none' }));
  await page.goto(`${url}/ui/#/list/persistentvolumeclaims`);
  await connection(page, 'live');
  await row(page, 'before').waitFor();
  const stale = page.getByRole('status').filter({ hasText: /^Not live: this is the state as of / });
  const columns = page.locator('.columns');
  const colour = () => page.locator('main h1').evaluate((element) => {
    let found = '';
    for (let at = element; at; at = at.parentElement) found += `${getComputedStyle(at).filter} ${getComputedStyle(at).opacity} `;
    return found;
  });
  const whole = await colour();
  const isCut = async () => {
    await stale.waitFor();
    await until('the badge', async () => /^(reconnecting|offline), as of /.test(await page.locator('#connection').innerText()));
    same(await columns.getAttribute('data-stale'), 'true', 'data-stale');
    await until('the page turns grey', async () => (await colour()) !== whole);
    // The last known state stays readable.
    same(await row(page, 'before').count(), 1, 'rows while disconnected');
  };
  const isWhole = async () => {
    await connection(page, 'live');
    await stale.waitFor({ state: 'detached' });
    same(await colour(), whole, 'colours after reconnecting');
  };

  say('kill');
  await isCut();
  // Ages do not advance while the page is disconnected.
  const age = row(page, 'before').locator('time');
  const seen = await age.innerText();
  await page.evaluate(() => new Promise((resolve) => setTimeout(resolve, 2500)));
  same(await age.innerText(), seen, 'the age while disconnected');

  say('start');
  await isWhole();
  await client.create(CLAIMS, claim('after', { storageClassName: 'none' }));
  await row(page, 'after').waitFor();

  // The connection is cut; the server continues and compacts its history.
  await page.evaluate(() => {
    // Record the visible rows once per frame. Only the old and the new state are correct.
    globalThis.seen = new Set();
    const look = () => {
      const live = document.getElementById('connection').dataset.state;
      const rows = [...document.querySelectorAll('.scroller .body [role=rowheader]')].map((cell) => cell.innerText).sort().join(' ');
      globalThis.seen.add(`${live === 'live' ? 'live' : 'cut'}: ${rows}`);
      requestAnimationFrame(look);
    };
    look();
  });
  say('cut and forget');
  await isCut();
  await until('the writes made meanwhile', async () => (await client.get(`${CLAIMS}?limit=100`)).items.some((one) => one.metadata.name === 'meanwhile'));
  say('mend');
  await row(page, 'meanwhile').waitFor();
  await isWhole();
  await row(page, 'after').waitFor({ state: 'detached' });
  const wrong = await page.evaluate(() => [...globalThis.seen]);
  for (const one of wrong) ensure(['live: after before', 'cut: after before', 'live: before meanwhile', 'cut: before meanwhile'].includes(one), `the page showed: ${one}`);
});
