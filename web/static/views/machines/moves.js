// The two state machines as data, and the detection of transitions between two states of the list. Pure.

import { phase } from '../../state/kinds.js';

const NEW = '(new)';
const GONE = '(gone)';
export { NEW, GONE };

/** States with their positions, and the transitions of upstream's binder. `bend` separates two transitions between the same states. */
export const MACHINES = [
  {
    resource: 'persistentvolumes', title: 'Volumes', width: 960, height: 300,
    states: {
      Pending: { x: 190, y: 90, text: 'waits for the binder' },
      Available: { x: 420, y: 90, text: 'available to claims' },
      Bound: { x: 680, y: 90, text: 'bound to its claim' },
      Released: { x: 680, y: 240, text: 'claim deleted' },
      Failed: { x: 420, y: 240, text: 'reclaiming failed' },
    },
    ways: [
      { from: NEW, to: 'Pending', text: 'created', shift: [-22, -16] },
      { from: 'Pending', to: 'Available', text: 'available' },
      { from: 'Pending', to: 'Bound', bend: -44, text: 'provisioned' },
      { from: 'Available', to: 'Bound', text: 'bound' },
      { from: 'Bound', to: 'Released', text: 'claim deleted', shift: [-106, 0] },
      { from: 'Released', to: 'Available', text: 'made available', shift: [-46, 16] },
      { from: 'Released', to: 'Bound', bend: 66, text: 'claim restored' },
      { from: 'Released', to: 'Failed', text: 'deletion failed', shift: [0, 16] },
      { from: 'Failed', to: 'Available', text: 'recovered', shift: [-82, -14] },
      { from: 'Released', to: GONE, text: 'policy Delete', shift: [0, 18] },
    ],
    ends: { [NEW]: { x: 40, y: 90 }, [GONE]: { x: 900, y: 240 } },
  },
  {
    resource: 'persistentvolumeclaims', title: 'Claims', width: 960, height: 290,
    states: {
      Pending: { x: 230, y: 92, text: 'waits for a volume' },
      Bound: { x: 540, y: 92, text: 'bound to its volume' },
      Lost: { x: 540, y: 236, text: 'volume lost' },
    },
    ways: [
      { from: NEW, to: 'Pending', text: 'created', shift: [-22, -16] },
      { from: 'Pending', to: 'Bound', text: 'bound' },
      { from: 'Bound', to: 'Lost', bend: 20, text: 'volume deleted', shift: [-112, 0] },
      { from: 'Pending', to: 'Lost', text: 'volume missing', shift: [-76, 20] },
      { from: 'Lost', to: 'Bound', bend: 20, text: 'recovered' },
      { from: 'Pending', to: GONE, bend: -78, text: 'deleted' },
      { from: 'Bound', to: GONE, text: 'deleted' },
      { from: 'Lost', to: GONE, text: 'deleted', shift: [28, 22] },
    ],
    ends: { [NEW]: { x: 50, y: 92 }, [GONE]: { x: 840, y: 92 } },
  },
];

const own = (object) => object.status?.phase || 'Pending';

/** Counts the objects in each state, and those that are being deleted. */
export function tally(list) {
  const counts = {};
  let leaving = 0;
  for (const object of list) {
    counts[own(object)] = (counts[own(object)] || 0) + 1;
    if (phase(object) === 'Terminating') leaving += 1;
  }
  return { counts, leaving };
}

/** Remembers the state of each object and reports transitions. */
export class Moves {
  #known = null;

  /** Returns `{from, to, object}` for each transition since the last call. The first call returns none. */
  look(list) {
    const now = new Map();
    const moves = [];
    for (const object of list) {
      const { uid } = object.metadata;
      const to = own(object);
      now.set(uid, { to, object });
      if (!this.#known) continue;
      const before = this.#known.get(uid);
      if (before && before.to === to) continue;
      // An object that was created and changed between two calls passed through the first state.
      if (before) moves.push({ from: before.to, to, object });
      else moves.push({ from: NEW, to: 'Pending', object }, ...(to === 'Pending' ? [] : [{ from: 'Pending', to, object }]));
    }
    for (const [uid, { to, object }] of this.#known || []) if (!now.has(uid)) moves.push({ from: to, to: GONE, object });
    this.#known = now;
    return moves;
  }

  /** Forgets all states, because the page has moved to another revision. */
  forget() {
    this.#known = null;
  }
}
