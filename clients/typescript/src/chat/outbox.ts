// Sends what the user has written: one message in flight a conversation, the next after a definite answer.

import { ChatError } from "./error.js";
import type { Leader } from "./leader.js";
import { type ChatMessage, type OutboxEntry, entriesOf, newer, received } from "./records.js";

/** Errors that are about one message. Every other lasting error is about the conversation, and so about all that wait for it. */
const OF_CONTENT = new Set(["INVALID_FIELD", "MESSAGE_TOO_LARGE", "MALFORMED_MESSAGE", "REQUEST_ID_REUSED", "INTERNAL"]);
/** What a frame has around the body of a message. */
const FRAME = 8 << 10;

/** Sends the outbox of all tabs. */
export class Outbox {
  #sending = new Set<string>();
  /** Whether the node takes `keepUnread` of users. */
  #keepsUnread = true;

  constructor(readonly leader: Leader) {}

  /** Sends what waits. */
  kick(): void {
    if (!this.leader.connection.isLive) return;
    for (const { conversationId: id, failed } of this.leader.tab.state.outbox.values()) if (!failed && !this.#sending.has(id)) void this.#send(id);
  }

  async #send(id: string): Promise<void> {
    this.#sending.add(id);
    for (let entry = this.#waiting(id)[0]; this.leader.connection.isLive && entry; entry = this.#waiting(id)[0]) {
      try {
        await this.#deliver(entry);
      } catch (error) {
        const problem = ChatError.from(error);
        // Without an answer it goes out again after the reconnect, under the same id.
        if (problem.reason === "CLOSED") break;
        if (this.#keepsUnread && problem.reason === "NOT_ALLOWED") this.#keepsUnread = false;
        else this.#refused(entry, problem);
      }
    }
    this.#sending.delete(id);
  }

  #waiting(id: string): OutboxEntry[] {
    return this.leader.tab.state.pendingOf(id).filter(({ failed }) => !failed);
  }

  async #deliver(entry: OutboxEntry): Promise<void> {
    const { connection, tab: { state, store } } = this.leader;
    const { order: _order, time: _time, failed: _failed, ...content } = entry;
    const { conversationId: id, clientMessageId, body } = entry;
    const { frameBytes = 256 << 10, contract } = connection.welcome ?? {};
    if (body.length > frameBytes - FRAME) throw new ChatError("the message is too large", "resource_exhausted", "MESSAGE_TOO_LARGE");
    await this.leader.write();
    // Without it, a send marks what the user has not seen. Some nodes take it from services alone.
    const keepUnread = contract !== undefined && this.#keepsUnread && { keepUnread: true };
    const { seq, sendTime, replayed } = await connection.repeat("SendMessage", { ...content, ...keepUnread }, Infinity);
    const sent: [string, unknown] = [`o:${clientMessageId}`, undefined];
    // It was stored before, and may have been changed since. The stream has it, or the history.
    if (replayed) return store.commit([sent]);
    const message: ChatMessage = { ...content, seq: Number(seq), senderId: state.me, kind: "MESSAGE_KIND_MESSAGE", ...(sendTime && { sendTime }) };
    const known = state.conversation(id);
    // Between the end of the conversation and this message may be others, which are on their way.
    const record = message.seq === known.maxSeq + 1 ? received(known, message) : { ...known, last: newer(known.last, message) };
    store.commit([sent, [`c:${id}`, record], ...entriesOf([message])]);
  }

  #refused(entry: OutboxEntry, { reason, message }: ChatError): void {
    const queue = OF_CONTENT.has(reason) ? [entry] : this.#waiting(entry.conversationId);
    this.leader.tab.store.commit(queue.map((one) => [`o:${one.clientMessageId}`, { ...one, failed: { reason, message } }]));
  }
}
