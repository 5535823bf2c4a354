// What a person has set: the theme for good, the right to change things for this tab.

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
    // A browser that keeps nothing forgets it with the tab.
  }
};

export const settings = {
  theme: THEMES.includes(stored('localStorage', 'theme')) ? stored('localStorage', 'theme') : 'auto',
  /** Nothing is written before a person has said so. */
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
