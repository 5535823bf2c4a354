// The focus is never lost: when what has it goes away, or can no longer be used, what is around it has it; and when it can
// be used again (a button that was busy), it has it again. Without this a browser puts the keyboard back to the top of the page.

const PLACES = '[role=tabpanel], dialog, main';

/** Watches over the focus inside of an element. Gives what ends it. */
export function keepFocus(root) {
  let last = null;
  let around = [];
  // Who has the focus in place of whom.
  let lent = null;
  const usable = (element) => element.isConnected && !element.disabled && element.getClientRects().length > 0;
  const note = ({ target }) => {
    if (lent?.to !== target) lent = null;
    last = target;
    around = [];
    for (let at = target.parentElement?.closest(PLACES); at; at = at.parentElement?.closest(PLACES)) around.push(at);
  };
  const leave = () => setTimeout(() => {
    // Somebody has clicked beside it, or pressed Escape: that is no loss.
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
