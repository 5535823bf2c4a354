// Focus management. When the focused element is removed or disabled, the focus moves to its container; when the element can be used again
// (a button that was busy), the focus returns to it. Without this, a browser moves the keyboard focus to the top of the page.

const PLACES = '[role=tabpanel], dialog, main';

/** Manages the focus inside an element. Returns a function that stops it. */
export function keepFocus(root) {
  let last = null;
  let around = [];
  // The element that lost the focus, and the element that has it meanwhile.
  let lent = null;
  const usable = (element) => element.isConnected && !element.disabled && element.getClientRects().length > 0;
  const note = ({ target }) => {
    if (lent?.to !== target) lent = null;
    last = target;
    around = [];
    for (let at = target.parentElement?.closest(PLACES); at; at = at.parentElement?.closest(PLACES)) around.push(at);
  };
  const leave = () => setTimeout(() => {
    // The user clicked elsewhere or pressed Escape: do not restore the focus.
    if (last && usable(last) && document.activeElement === document.body) last = null;
  });
  const look = () => {
    const at = document.activeElement;
    if (lent && at === lent.to && usable(lent.from)) return lent.from.focus({ preventScroll: true });
    if (!last || (at && at !== document.body && at !== last) || usable(last)) return;
    const place = around.find((one) => one.isConnected && one.getClientRects().length);
    const to = place?.matches('[tabindex]') ? place : (place?.localName === 'dialog' ? place.querySelector('button') : document.querySelector('main h1'));
    if (!to || to === last) return;
    const from = last;
    to.focus({ preventScroll: true });
    lent = { from, to };
  };
  const watch = new MutationObserver(look);
  watch.observe(root, { subtree: true, childList: true, attributes: true, attributeFilter: ['disabled', 'hidden'] });
  root.addEventListener('focusin', note);
  root.addEventListener('focusout', leave);
  return () => {
    watch.disconnect();
    root.removeEventListener('focusin', note);
    root.removeEventListener('focusout', leave);
  };
}
