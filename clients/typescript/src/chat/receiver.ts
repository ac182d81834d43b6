// What the node sends by itself: conversations, messages, events, notes.

import type { ConversationJson, NoteJson } from "../gen/kith/message/v1/message_pb.js";
import { quietly } from "./error.js";
import type { NodeFrame } from "./frames.js";
import type { Leader } from "./leader.js";
import { type ChatMessage, type Patch, blankOf, counts, entriesOf, floorOf, messageOf, received, staleOf } from "./records.js";

const SOON = 500;
const RECOUNT = 3000;
const RECOUNT_ALL = 5 * 60_000;

/** Takes frames. */
export class Receiver {
  /** Conversations that are to be read again, once there is a connection. */
  #stale = new Set<string>();
  #listed = new Set<string>();

  constructor(readonly leader: Leader) {}

  /** Everything from before has been sent. */
  kick(): void {
    for (const id of this.#stale) this.#refresh(id);
    void quietly(this.#recount());
  }

  /** Takes a frame. Its cursor is kept last: a frame that is not taken to its end is sent again. */
  async take(frame: NodeFrame): Promise<void> {
    const { connection, people, tab: { state, store } } = this.leader;
    const message = frame.message && messageOf(frame.message);
    const changed = message?.event ? await this.#changed(message) : [];
    // The connection ended meanwhile. The next one, maybe that of another tab, brings the frame again.
    if (!connection.welcome) return;
    if (frame.conversations) this.#list(frame.conversations, frame.more ?? false);
    if (frame.noticeTotals) this.leader.set({ notices: new Map(state.volatile.notices).set(frame.noticeTotals.audienceId ?? 0, frame.noticeTotals) });
    if (frame.signal) people.signal(frame.signal);
    if (frame.note) this.#note(frame.note);
    const patch: Patch = message ? this.#message(message, changed) : new Map();
    const missed = state.conversations.get(frame.missed?.conversationId ?? "");
    if (missed) patch.set(`c:${missed.id}`, { ...missed, maxSeq: Math.max(missed.maxSeq, Number(frame.missed?.toSeq)) });
    // In the same transaction as what it covers.
    if (frame.cursor) patch.set("x:cursor", frame.cursor);
    store.commit(patch);
    if (frame.missed?.conversationId) this.#refresh(frame.missed.conversationId);
    if (missed && state.messages.has(missed.id)) void quietly(this.leader.older(missed.id));
    if (message && changed.some(({ isOld }) => isOld)) void quietly(this.leader.reread(message.conversationId));
  }

  #list(page: readonly ConversationJson[], more: boolean): void {
    const { state, store, env } = this.leader.tab;
    for (const { conversationId = "" } of page) this.#listed.add(conversationId);
    this.leader.list(page);
    if (more) return;
    // Left, hidden, or beyond what is listed.
    const gone = [...state.conversations.keys()].filter((id) => !this.#listed.has(id) && !state.messages.has(id));
    this.#listed.clear();
    store.commit([["x:listed", env.now()], ...gone.map((id) => [`c:${id}`, undefined] as const)]);
  }

  #message(message: ChatMessage, changed: readonly ChatMessage[]): Patch {
    const { people, tab: { state } } = this.leader;
    const { conversationId: id, seq, senderId = "0", clientMessageId, event } = message;
    const known = state.conversations.get(id);
    let record = received(state.conversation(id), message);
    if (seq > (known?.maxSeq ?? 0) && counts(message, state.me)) {
      const mentions = message.mentionAll || message.mentionIds?.includes(state.me);
      record = { ...record, unread: record.unread + 1, mentionSeq: record.mentionSeq || (mentions ? seq : 0) };
      // The count is right while everything that is unread is here.
      if (floorOf(record) > record.readSeq + 1 || record.unreadMore) this.#refresh(id, RECOUNT);
    }
    if (!known || changed.some((one) => one.seq > record.readSeq || one.seq === record.last?.seq)) this.#refresh(id);
    people.types(id, senderId, false);
    people.wantOf([message]);
    if (event?.group) people.want([id], true);
    if (event && state.messages.has(id) && (event.joined ?? event.left ?? event.removed ?? event.owner)) void quietly(people.learnGroup(id));
    const last = changed.find((one) => one.seq === record.last?.seq) ?? record.last;
    const patch: Patch = new Map<string, unknown>([[`c:${id}`, { ...record, last }], ...entriesOf([message, ...changed])]);
    if (senderId === state.me && clientMessageId && state.outbox.has(clientMessageId)) patch.set(`o:${clientMessageId}`, undefined);
    return patch;
  }

  // What was recalled, erased or edited is changed in the transaction of its event: it is not here after that.
  async #changed({ conversationId: id, seq, event }: ChatMessage): Promise<ChatMessage[]> {
    const { recalled, erased, edited } = event ?? {};
    const one = Number((recalled ?? edited)?.seq ?? 0);
    if (!one && !erased) return [];
    const all = await this.leader.tab.store.messages(id);
    const named = all.filter((message) => message.seq === one || (message.senderId === erased?.userId && message.seq < seq));
    return named.map((message) => (edited ? staleOf(message) : blankOf(message, recalled?.userId)));
  }

  #note({ dialog, groupJoined, groupLeft, groupChanged, followerAdded, followerRemoved }: NoteJson): void {
    const { people, tab } = this.leader;
    if (dialog?.conversationId) this.#refresh(dialog.conversationId);
    const group = groupJoined ?? groupChanged;
    if (group) this.#refresh(`g${group.groupId}`);
    if (groupChanged) people.want([`g${groupChanged.groupId}`], true);
    if (groupLeft) tab.store.commit([[`c:g${groupLeft.groupId}`, undefined]]);
    if (followerAdded ?? followerRemoved) void quietly(people.learnFriends());
  }

  #refresh(id: string, ms = SOON): void {
    const { connection, timers } = this.leader;
    // A read that the end of the connection cuts off is made on the next one.
    const answered = (): unknown => connection.isLive && this.#stale.delete(id);
    this.#stale.add(id);
    timers.soon(`refresh ${id}`, ms, () => void quietly(this.leader.refresh(id).finally(answered)));
  }

  /** Compares the counts of the node, now and every five minutes. */
  async #recount(): Promise<void> {
    const { connection, timers, tab: { state } } = this.leader;
    timers.set("recount", RECOUNT_ALL, () => void quietly(this.#recount()));
    const { counts: counted = [] } = await connection.repeat("CountUnread", { conversationIds: [] });
    const known = new Map(counted.map((count) => [count.conversationId, count]));
    for (const { id, unread, unreadMore } of state.conversations.values()) {
      const { unread: there = 0, more = false } = known.get(id) ?? {};
      if (unread !== Number(there) || unreadMore !== more) this.#refresh(id, 0);
    }
  }
}
