// The tab that holds the socket: what frames and commands do.

import type { ConversationJson } from "../gen/kith/message/v1/message_pb.js";
import { Connection, type Status } from "./connection.js";
import { Timers, pause } from "./environment.js";
import { type ChatError, quietly } from "./error.js";
import type { CallName } from "./frames.js";
import { Marks } from "./marks.js";
import { Outbox } from "./outbox.js";
import { People } from "./people.js";
import { Receiver } from "./receiver.js";
import { entriesOf, floorOf, listed, messageOf, peerOf, withRange } from "./records.js";
import { type Volatile, unknownVolatile } from "./state.js";
import type { Tab } from "./tab.js";

/** Marks and sends share ten writes a second. */
const WRITE_EVERY = 100;
const PAGE = 40;
const REREAD_MAX = 100;
const TYPING_EVERY = 3000;

/** Holds the socket for all tabs. */
export class Leader {
  readonly timers: Timers;
  readonly connection: Connection;
  readonly people = new People(this);
  readonly outbox = new Outbox(this);
  readonly marks = new Marks(this);
  readonly receiver = new Receiver(this);
  #write: Promise<unknown> = Promise.resolve();

  /** What tabs may ask for. */
  readonly commands: Record<string, (...args: never[]) => unknown> = {
    call: (name: CallName, body: never) => this.connection.call(name, body),
    open: (id: string) => this.open(id),
    older: (id: string) => this.older(id),
    seen: (id: string, seq: number) => this.marks.seen(id, [[seq, seq]]),
    // For others these messages stay unread.
    skip: (id: string, upTo: number) => this.marks.call(id, { upTo: String(upTo), hidden: true }, []),
    react: (id: string, seq: number, kind: string, isThere: boolean) => this.people.react(id, seq, kind, isThere),
    typing: (id: string) => this.timers.soon(`typed ${id}`, TYPING_EVERY, () => {}) && this.connection.call("SendSignal", { conversationId: id, kind: "SIGNAL_KIND_TYPING" }),
    volatile: () => this.tab.state.volatile,
  };

  constructor(readonly tab: Tab) {
    this.timers = new Timers(tab.env);
    this.connection = new Connection(this);
    // What belonged to the socket of another tab.
    this.set(unknownVolatile("connecting"));
  }

  /** Shows what is not kept, in all tabs. */
  set(fields: Partial<Volatile>): void {
    this.tab.state.set(fields);
    this.tab.say({ volatile: fields });
  }

  /** Waits for the turn of one write. */
  write(): Promise<unknown> {
    const turn = this.#write;
    this.#write = turn.then(() => pause(this.tab.env, WRITE_EVERY));
    return turn;
  }

  /** What became of the connection. While there is none, nothing is known of other users. */
  status(status: Status, problem?: ChatError): void {
    const unknown = status !== "live" && { online: new Set<string>(), typing: new Map<string, string[]>() };
    this.set({ status, problem: problem && { reason: problem.reason, message: problem.message }, ...unknown });
    if (unknown) return;
    for (const part of [this.outbox, this.marks, this.receiver, this.people]) part.kick();
    for (const id of this.tab.state.messages.keys()) void quietly(this.#learn(id));
  }

  /** A tab shows a conversation: its newest messages, members, receipts and marks are read. */
  async open(id: string): Promise<void> {
    await this.tab.store.show(id);
    if (this.connection.isLive) await this.#learn(id);
  }

  /** Reads a page of older messages. */
  async older(id: string): Promise<void> {
    const { state, store } = this.tab;
    const before = state.conversation(id);
    const floor = floorOf(before);
    const page = await this.connection.repeat("History", { conversationId: id, limit: PAGE, ...(floor <= before.maxSeq && { beforeSeq: String(floor) }) });
    const messages = (page.messages ?? []).map(messageOf);
    // The stream counts messages that have come meanwhile.
    const record = state.conversation(id);
    const minSeq = Number(page.minSeq ?? record.minSeq);
    const lowest = page.more ? (messages.at(-1)?.seq ?? floor) : minSeq;
    store.commit([...entriesOf(messages), [`c:${id}`, { ...record, minSeq, here: withRange(record.here, [lowest, floor - 1]) }]]);
    this.people.wantOf(messages);
    this.people.wantReactions(id, messages);
  }

  /** Reads shown messages again that were edited. Those that fail now are read after the next reconnect. */
  async reread(id: string): Promise<void> {
    const old = [...(this.tab.state.messages.get(id)?.values() ?? [])].filter(({ isOld }) => isOld);
    const seqs = old.slice(0, REREAD_MAX).map(({ seq }) => String(seq));
    if (!seqs.length) return;
    const { messages = [] } = await this.connection.repeat("PullBySeqs", { conversationId: id, seqs });
    this.tab.store.commit(entriesOf(messages.map(messageOf)));
  }

  /** Reads a conversation again, as the node lists it. */
  async refresh(id: string): Promise<void> {
    const { conversation } = await this.connection.repeat("GetConversation", { conversationId: id });
    if (conversation) this.list([conversation]);
  }

  /** Keeps conversations as the node lists them. */
  list(page: readonly ConversationJson[]): void {
    const { state, store } = this.tab;
    const records = page.map((json) => listed(state.conversation(json.conversationId ?? ""), json));
    const last = records.flatMap((record) => record.last ?? []);
    store.commit([...records.map((record) => [`c:${record.id}`, record] as const), ...entriesOf(last)]);
    this.people.wantOf(last);
    this.people.want(records.map(({ id }) => (id.startsWith("g") ? id : `u${peerOf(id, state.me)}`)));
    this.people.watch();
  }

  async #learn(id: string): Promise<void> {
    const { state, store } = this.tab;
    if (!state.conversations.has(id)) await this.refresh(id);
    const record = state.conversation(id);
    const loaded = state.messages.get(id)?.size ?? 0;
    // Those of an older page are read with it.
    this.people.wantReactions(id, state.messages.get(id)?.values() ?? []);
    if (record.maxSeq && (floorOf(record) > record.maxSeq || loaded < PAGE / 2)) await this.older(id);
    await this.reread(id);
    if (id.startsWith("g")) await this.people.learnGroup(id);
    const { results = [] } = await this.connection.repeat("GetReadSeqs", { conversationIds: [id] });
    const [known, read] = [state.conversations.get(id), results[0]?.read];
    if (!known || !read) return;
    const skipped = (read.unreadRanges ?? []).map(({ first, last }) => [Number(first), Number(last)] as const);
    const [readSeq, peerReadSeq] = [Math.max(known.readSeq, Number(read.readSeq ?? 0)), Math.max(known.peerReadSeq, Number(read.peerReadSeq ?? 0))];
    store.commit([[`c:${id}`, { ...known, skipped, readSeq, peerReadSeq }]]);
  }
}
