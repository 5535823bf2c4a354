// Keyboard only: from the URL to the reason why a claim is pending, to an edit of it, to the help for the keys, and back. Some element always
// has the focus, and the focus is visible.

import { CLAIMS, claim, connection, ensure, same, story, until } from './page.mjs';

/** Returns the focused element: its role, its name, and whether its focus ring is visible. */
const focused = (page) => page.evaluate(() => {
  const at = document.activeElement;
  if (!at || at === document.body || at === document.documentElement) return null;
  const style = getComputedStyle(at);
  const { left, top, right, bottom, width, height } = at.getBoundingClientRect();
  const name = at.getAttribute('aria-label') || at.labels?.[0]?.innerText || at.innerText || at.value || '';
  return {
    role: at.getAttribute('role') || at.localName, name: name.trim().slice(0, 60), level: at.localName,
    ring: style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0,
    inSight: width > 0 && height > 0 && right > 0 && bottom > 0 && left < innerWidth && top < innerHeight,
  };
});

story(async ({ page, client, url }) => {
  await client.create(CLAIMS, claim('waits', { storageClassName: 'nothing' }));
  await client.create(CLAIMS, claim('waits-too', { storageClassName: 'nothing' }));
  await page.goto(`${url}/`);
  await connection(page, 'live');
  const { keyboard } = page;

  /** Presses a key and waits for a visible focus. A title that receives the focus after navigation needs no ring: it is not interactive. */
  const press = async (key, patience) => {
    await keyboard.press(key);
    let at = null;
    const isSeen = async () => {
      at = await focused(page);
      return at && (at.level === 'h1' || (at.ring && at.inSight)) ? at : false;
    };
    return until(`a visible focus after ${key}`, isSeen, patience).catch((error) => {
      error.message += `; it is on ${JSON.stringify(at)}`;
      throw error;
    });
  };
  /** Presses Tab until an element with this role and name has the focus. */
  const tab = async (role, name, key = 'Tab') => {
    const way = [];
    for (let steps = 0; steps < 60; steps += 1) {
      const at = await press(key);
      way.push(`${at.role} ${at.name}`);
      if (at.role === role && name.test(at.name)) return at;
    }
    throw new Error(`Tab did not reach ${role} ${name}; it visited: ${way.join(', ')}`);
  };

  // The first stop is a link that skips the navigation.
  const skip = await press('Tab');
  same(skip.name, 'Skip to content', 'the first stop');
  await keyboard.press('Enter');
  same((await until('the title', () => focused(page))).level, 'h1', 'the target of the skip link');

  // The help.
  await keyboard.press('?');
  const help = page.getByRole('dialog', { name: 'Keyboard shortcuts' });
  await help.getByText('next and previous row').waitFor();
  ensure(await help.evaluate((dialog) => dialog.contains(document.activeElement)), 'the focus is not in the dialog');
  await keyboard.press('Escape');
  await help.waitFor({ state: 'hidden' });
  ensure(await until('the focus after the help', () => focused(page)), 'no element has the focus after the help');

  // To the claims, to the second row and back, to the reason why the first claim is pending.
  await keyboard.press('g');
  await keyboard.press('c');
  await page.getByRole('heading', { name: 'Claims', level: 1 }).waitFor();
  await until('the title has the focus', async () => (await focused(page))?.level === 'h1');
  await page.getByRole('rowheader', { name: 'waits', exact: true }).waitFor();
  same((await press('j')).name, 'waits', 'the first row');
  await keyboard.press('j');
  await until('the second row', async () => (await focused(page))?.name === 'waits-too');
  await keyboard.press('k');
  await until('the first row', async () => (await focused(page))?.name === 'waits');
  await press('Enter');
  await page.getByRole('heading', { name: 'waits', level: 1, exact: true }).waitFor();
  await press('w');
  await page.getByRole('tab', { name: 'Why', selected: true }).waitFor();
  await page.getByRole('tabpanel').getByText(/nothing/).first().waitFor();
  const lead = await page.locator('.why .lead').innerText();
  ensure(lead.length > 20, `the reason is too short: ${lead}`);

  // Edit: arrow keys on the tabs, the button that allows changes, the text, the check, the save.
  await tab('tab', /^Why/);
  await press('ArrowRight');
  await until('the tab YAML', async () => (await focused(page))?.name === 'YAML');
  await press('ArrowRight');
  await until('the tab Edit', async () => (await focused(page))?.name === 'Edit');
  await tab('button', /^Allow changes/);
  await press('Enter');
  await tab('textarea', /^YAML/);
  // In a text field the shortcut keys type letters.
  await keyboard.press('Control+Home');
  await keyboard.press('ArrowDown');
  await keyboard.press('ArrowDown');
  await keyboard.press('End');
  await keyboard.type('\n  labels:\n    typed: "gjw"');
  await tab('button', /^Check/);
  await press('Enter');
  await page.getByText('Preview of changes').waitFor();
  await until('a focus after the check', async () => (await focused(page))?.ring);
  await tab('button', /^Save/);
  await keyboard.press('Enter');
  await page.getByText('Saved.').waitFor();
  same((await client.get(`${CLAIMS}/waits`)).metadata.labels, { typed: 'gjw' }, 'the typed labels');
  ensure(await until('a focus after saving', () => focused(page)), 'no element has the focus after saving');

  // Open an object from the search, then go back to the list.
  await keyboard.press('/');
  const search = page.getByRole('combobox', { name: 'Search all objects' });
  await until('the search has the focus', async () => search.evaluate((field) => field === document.activeElement));
  await keyboard.type('waits-t');
  await page.getByRole('option', { name: /waits-too/ }).waitFor();
  await keyboard.press('Enter');
  await page.getByRole('heading', { name: 'waits-too', level: 1 }).waitFor();
  await until('the title has the focus', async () => (await focused(page))?.level === 'h1');
  await keyboard.press('Escape');
  await page.getByRole('heading', { name: 'Claims', level: 1 }).waitFor();
  await until('the title has the focus', async () => (await focused(page))?.level === 'h1');
  // Through the whole tab order: the focus is visible at each stop.
  for (let steps = 0; steps < 45; steps += 1) await press('Tab', 5000).catch((error) => ensure(steps > 10 && /it is on (null|undefined)/.test(error.message), error.message));
});
