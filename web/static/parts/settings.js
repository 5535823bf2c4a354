// User settings: the theme, which is stored permanently, and whether changes are allowed, which is stored per tab.

const readers = new Set();
const THEMES = ['auto', 'dark', 'light'];
const stored = (of, name) => {
  try {
    return globalThis[of]?.getItem(name);
  } catch {
    return null;
  }
};
const store = (of, name, value) => {
  try {
    globalThis[of].setItem(name, value);
  } catch {
    // Without storage, the setting lasts until the page is closed.
  }
};

export const settings = {
  theme: THEMES.includes(stored('localStorage', 'theme')) ? stored('localStorage', 'theme') : 'auto',
  /** Read-only until the user allows changes. */
  readOnly: stored('sessionStorage', 'changes') !== 'allowed',
  subscribe(fn) {
    readers.add(fn);
    return () => readers.delete(fn);
  },
  nextTheme() {
    settings.theme = THEMES[(THEMES.indexOf(settings.theme) + 1) % THEMES.length];
    store('localStorage', 'theme', settings.theme);
    paint();
    for (const fn of [...readers]) fn();
  },
  setReadOnly(value) {
    settings.readOnly = value;
    store('sessionStorage', 'changes', value ? '' : 'allowed');
    for (const fn of [...readers]) fn();
  },
};

function paint() {
  document.documentElement.dataset.theme = settings.theme;
}
if (globalThis.document) paint();
