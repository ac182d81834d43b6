// Which messages a person has seen: half visible for half a second, in a visible tab with focus.

import type { ChatSession } from "./session.js";

const DWELL = 500;
const LOOK_EVERY = 250;

/** Looks at the children of `list` that have a `data-seq`, and says which messages of the conversation were seen. Returns what ends this. */
export function observeSeen(session: Pick<ChatSession, "seen">, conversationId: string, list: Element): () => void {
  /** Since when rows are visible. */
  let before = new Map<Element, number>();
  let isDue = false;
  // A row that begins to be observed is reported at once, and all rows together.
  const visible = new IntersectionObserver((entries) => {
    visible.disconnect();
    isDue = false;
    const now = performance.now();
    const shown = new Map(entries.filter(isSeen).map(({ target }) => [target, before.get(target) ?? now]));
    for (const [row, since] of shown) {
      const seq = Number((row as HTMLElement).dataset["seq"] ?? 0);
      if (seq && now - since >= DWELL) session.seen(conversationId, seq);
    }
    before = shown;
  });
  const look = (): void => {
    if (document.visibilityState !== "visible" || !document.hasFocus()) return before.clear();
    // On a busy device the report of the look before is still to come.
    if (isDue) return;
    for (const row of list.children) visible.observe(row);
    isDue = list.childElementCount > 0;
  };
  const timer = setInterval(look, LOOK_EVERY);
  return () => {
    clearInterval(timer);
    visible.disconnect();
  };
}

// A message that is higher than the screen is seen when it fills half of it.
function isSeen({ intersectionRatio, intersectionRect, rootBounds }: IntersectionObserverEntry): boolean {
  return intersectionRatio >= 0.5 || intersectionRect.height >= (rootBounds?.height ?? Infinity) / 2;
}
