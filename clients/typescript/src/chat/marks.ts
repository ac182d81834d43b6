// Marks on the node what the user has seen, at most once a second.

import { ChatError } from "./error.js";
import type { Leader } from "./leader.js";
import { type ConversationRecord, type Range, keyOf, withRange, without } from "./records.js";

const EVERY = 1000;
const SOON = 50;
const RANGES_MAX = 100;

/** The marks of all tabs. */
export class Marks {
  #seen = new Map<string, Range[]>();

  constructor(readonly leader: Leader) {}

  /** Sends what was seen, once there is a connection. */
  kick(): void {
    if (this.#seen.size && this.leader.connection.isLive) this.leader.timers.soon("marks", SOON, () => void this.#markAll());
  }

  /** The user has seen these messages. */
  seen(id: string, ranges: readonly Range[]): void {
    if (ranges.length) this.#seen.set(id, ranges.reduce<Range[]>(withRange, this.#seen.get(id) ?? []));
    this.kick();
  }

  async #markAll(): Promise<void> {
    const all = [...this.#seen];
    this.#seen.clear();
    // In place of the next marks: they wait for it.
    this.leader.timers.set("marks", EVERY, () => this.kick());
    for (const [id, seen] of all) {
      // What was seen before the answer to a mark that is refused for good is not marked.
      await this.#mark(id, seen).catch((error: unknown) => ChatError.from(error).passes && this.seen(id, seen));
    }
  }

  async #mark(id: string, seen: readonly Range[]): Promise<void> {
    const ranges = this.#widened(id, seen);
    const upTo = seenUpTo(this.leader.tab.state.conversation(id), ranges);
    if (upTo) return await this.call(id, { upTo: String(upTo) }, [[1, upTo]]);
    const marked = ranges.slice(-RANGES_MAX);
    await this.call(id, { ranges: marked.map(([first, last]) => ({ first: String(first), last: String(last) })) }, marked);
  }

  /** Marks what is named, and keeps what the node has then. `marked`: what was seen of it. */
  async call(id: string, what: object, marked: readonly Range[]): Promise<void> {
    const { connection, tab: { state, store } } = this.leader;
    await this.leader.write();
    const { readSeq, unread = 0, unreadMore = false } = await connection.repeat("MarkRead", { conversationId: id, ...what });
    const record = state.conversations.get(id);
    if (!record) return;
    const read = Math.max(record.readSeq, Number(readSeq ?? 0));
    const skipped = marked.reduce(without, withRange(record.skipped, [record.readSeq + 1, read]));
    const mentionSeq = record.mentionSeq > read ? record.mentionSeq : 0;
    store.commit([[`c:${id}`, { ...record, readSeq: read, skipped, mentionSeq, unread: Number(unread), unreadMore, markedUnread: false }]]);
  }

  // What was seen, with what beside it needs no look: own messages, events, and what was recalled.
  #widened(id: string, seen: readonly Range[]): Range[] {
    const here = this.leader.tab.state.messages.get(id);
    const isNothing = (seq: number): boolean => {
      const message = here?.get(keyOf(id, seq));
      return message !== undefined && (message.senderId === this.leader.tab.options.user || message.kind === "MESSAGE_KIND_EVENT" || message.recall !== undefined);
    };
    return seen.reduce<Range[]>((all, [first, last]) => {
      let [from, to] = [first, last];
      while (isNothing(from - 1)) from--;
      while (isNothing(to + 1)) to++;
      return withRange(all, [from, to]);
    }, []);
  }
}

/** Up to where nothing is unseen, if that is all that was seen; else 0. */
function seenUpTo({ readSeq, minSeq, skipped }: ConversationRecord, ranges: readonly Range[]): number {
  const last = ranges.at(-1)?.[1] ?? 0;
  const unseen = withRange(skipped.filter(([first]) => first <= last), [Math.max(readSeq + 1, minSeq), last]);
  return ranges.reduce<Range[]>(without, unseen).length ? 0 : last;
}
