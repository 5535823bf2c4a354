// The server is killed: the page says that it is cut off, since when, is grey, and its clocks stand still. When the server is back, what happened
// meanwhile is there. When the server has forgotten where the page was, the page reads everything anew and says nothing wrong in between.
//
// Whoever has started this kills, starts and cuts when a line asks for it: `"kill"`, `"start"`, `"cut and forget"`, `"mend"`.

import { CLAIMS, claim, connection, ensure, row, same, say, story, until } from './page.mjs';

story(async ({ page, complaints, somebody, url }) => {
  const [direct] = process.argv.slice(3);
  // What the browser itself says of a server that is not there.
  complaints.allow(/net::ERR_/);
  somebody.url = direct;
  await somebody.create(CLAIMS, claim('before', { storageClassName: 'none' }));
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
    same(await columns.getAttribute('data-stale'), 'true', 'the mark of what is old');
    await until('it is grey', async () => (await colour()) !== whole);
    // What was known last is still there to read.
    same(await row(page, 'before').count(), 1, 'rows while it is cut off');
  };
  const isWhole = async () => {
    await connection(page, 'live');
    await stale.waitFor({ state: 'detached' });
    same(await colour(), whole, 'the colours when it is live again');
  };

  say('kill');
  await isCut();
  // No clock goes on while nothing is known.
  const age = row(page, 'before').locator('time');
  const seen = await age.innerText();
  await page.evaluate(() => new Promise((resolve) => setTimeout(resolve, 2500)));
  same(await age.innerText(), seen, 'the age while it is cut off');

  say('start');
  await isWhole();
  await somebody.create(CLAIMS, claim('after', { storageClassName: 'none' }));
  await row(page, 'after').waitFor();

  // Now the line is cut, and the server goes on and forgets.
  await page.evaluate(() => {
    // What is seen of the list from now on, once per frame: it may be old, and it may be new, and nothing else.
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
  await until('the writes of meanwhile', async () => (await somebody.get(`${CLAIMS}?limit=100`)).items.some((one) => one.metadata.name === 'meanwhile'));
  say('mend');
  await row(page, 'meanwhile').waitFor();
  await isWhole();
  await row(page, 'after').waitFor({ state: 'detached' });
  const wrong = await page.evaluate(() => [...globalThis.seen]);
  for (const one of wrong) ensure(['live: after before', 'cut: after before', 'live: before meanwhile', 'cut: before meanwhile'].includes(one), `was seen: ${one}`);
});
