// What a tab knows, and the snapshot that pages show.

import type { NoticeTotalsJson, ReceiptCountJson } from "../gen/kith/message/v1/message_pb.js";
import type { Status } from "./connection.js";
import { type ChatMessage, type ConversationRecord, type Face, type OutboxEntry, type Patch, type Problem, type Reaction, floorOf, peerOf, unknownConversation } from "./records.js";

/** What is not kept: it is the same in all tabs, and begins again with each socket. */
export interface Volatile {
  readonly status: Status;
  readonly problem: Problem | undefined;
  readonly online: ReadonlySet<string>;
  readonly friends: readonly string[];
  /** By conversation: who is typing. */
  readonly typing: ReadonlyMap<string, readonly string[]>;
  /** By group and number: how many have read a message of the user. */
  readonly receipts: ReadonlyMap<string, ReadonlyMap<number, ReceiptCountJson>>;
  /** By conversation and number: the reactions to messages of conversations that were opened. */
  readonly reactions: ReadonlyMap<string, ReadonlyMap<number, readonly Reaction[]>>;
  /** Totals by audience. */
  readonly notices: ReadonlyMap<number, NoticeTotalsJson>;
  /** By group, once it is opened. */
  readonly members: ReadonlyMap<string, readonly string[]>;
}

/** A conversation as a page shows it. */
export interface Conversation extends ConversationRecord {
  /** The other user's name, that of the group, or the id while it is not known. */
  readonly name: string;
  readonly icon: string;
  /** The other user of a direct conversation. */
  readonly peer: string | undefined;
  /** Whether the other user is online; never set while this session is not live. */
  readonly isOnline: boolean;
  readonly typing: readonly string[];
  /** By number. Empty until the conversation is opened. */
  readonly messages: readonly ChatMessage[];
  /** Messages of this user that the node has not acknowledged, in the order of sending. */
  readonly pending: readonly OutboxEntry[];
  /** Whether there are older messages than the first one here. */
  readonly hasOlder: boolean;
  /** The members of a group; empty until it is opened. */
  readonly members: readonly string[];
  /** Of messages of this user in a group, by number. */
  readonly receipts: ReadonlyMap<number, ReceiptCountJson>;
  /** Of messages with reactions, by number; empty until the conversation is opened. */
  readonly reactions: ReadonlyMap<number, readonly Reaction[]>;
}

/** Everything that a page shows. A new object after each change; conversations that did not change are the same objects. */
export interface ChatSnapshot extends Pick<Volatile, "status" | "problem" | "friends" | "online" | "notices"> {
  readonly me: string;
  /** `kept` on the device; `full`: new messages may not be kept; `memory`: nothing survives a reload. */
  readonly storage: "kept" | "full" | "memory";
  /** Pinned ones first, then by the last message. */
  readonly conversations: readonly Conversation[];
  /** Unread messages of conversations without do-not-disturb. */
  readonly unread: number;
  /** The name of a user; `#7` while it is not known. */
  nameOf(userId: string): string;
  /** The address of a user's picture; empty: none. */
  iconOf(userId: string): string;
}

const NO_USERS: readonly string[] = [];
const NONE = new Map<number, never>();

/** What is not kept, before anything is known. */
export function unknownVolatile(status: Status): Volatile {
  return { status, problem: undefined, online: new Set(), friends: NO_USERS, typing: new Map(), receipts: new Map(), reactions: new Map(), notices: new Map(), members: new Map() };
}

/** The state of one tab. Only `apply` and `set` change it. */
export class State {
  readonly conversations = new Map<string, ConversationRecord>();
  readonly outbox = new Map<string, OutboxEntry>();
  readonly faces = new Map<string, Face>();
  readonly meta = new Map<string, string | number>();
  /** Messages of the conversations that were opened last, by `keyOf`. */
  readonly messages = new Map<string, Map<string, ChatMessage>>();
  storage: ChatSnapshot["storage"] = "kept";
  volatile: Volatile = unknownVolatile("connecting");
  #snapshot: ChatSnapshot | undefined;
  #views = new Map<string, Conversation>();
  #listeners = new Set<() => void>();
  #isDue = false;

  constructor(readonly me: string) {}

  /** Takes records, and shows them. */
  apply(patch: Patch): void {
    const kinds: Record<string, Map<string, never>> = { c: this.conversations, o: this.outbox, f: this.faces, x: this.meta } as never;
    for (const [key, value] of patch) {
      const [kind = "", id = ""] = key.split(":");
      const [into, at] = kind === "z" ? [this.messages.get(id) as Patch | undefined, key] : [kinds[kind], id];
      // Names are in many views, and an entry that is gone does not say where it was.
      if (kind === "f" || kind === "o") this.#views.clear();
      else this.#views.delete(id);
      if (value === undefined) into?.delete(at);
      else into?.set(at, value as never);
    }
    this.changed();
  }

  /** Takes what is not kept. */
  set(fields: Partial<Volatile>): void {
    this.volatile = { ...this.volatile, ...fields };
    this.#views.clear();
    this.changed();
  }

  /** Shows how this tab keeps its records. */
  turn(from: ChatSnapshot["storage"], to: ChatSnapshot["storage"]): void {
    if (this.storage !== from) return;
    this.storage = to;
    this.changed();
  }

  /** Forgets all records. */
  clear(): void {
    for (const records of [this.conversations, this.outbox, this.faces, this.meta, this.messages, this.#views]) records.clear();
    this.changed();
  }

  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** Calls the listeners, once for all changes of one moment. */
  changed(): void {
    this.#snapshot = undefined;
    if (this.#isDue) return;
    this.#isDue = true;
    queueMicrotask(() => {
      this.#isDue = false;
      for (const listener of this.#listeners) listener();
    });
  }

  /** What is known of a conversation. */
  conversation(id: string): ConversationRecord {
    return this.conversations.get(id) ?? unknownConversation(id);
  }

  /** The entries of a conversation, in the order of sending. */
  pendingOf(id: string): OutboxEntry[] {
    const entries = [...this.outbox.values()].filter(({ conversationId }) => conversationId === id);
    return entries.sort((one, other) => one.order - other.order);
  }

  snapshot(): ChatSnapshot {
    if (this.#snapshot) return this.#snapshot;
    const ids = [...this.conversations.keys(), ...this.messages.keys(), ...[...this.outbox.values()].map(({ conversationId }) => conversationId)];
    const views = [...new Set(ids)].map((id) => this.#view(this.conversation(id)));
    const { typing: _typing, receipts: _receipts, reactions: _reactions, members: _members, ...shown } = this.volatile;
    this.#snapshot = {
      ...shown,
      me: this.me,
      storage: this.storage,
      conversations: views.sort((one, other) => Number(other.pinned) - Number(one.pinned) || timeOf(other) - timeOf(one)),
      unread: views.reduce((sum, view) => sum + (view.doNotDisturb ? 0 : view.unread), 0),
      nameOf: (userId) => this.faces.get(`u${userId}`)?.name ?? `#${userId}`,
      iconOf: (userId) => this.faces.get(`u${userId}`)?.icon ?? "",
    };
    return this.#snapshot;
  }

  #view(record: ConversationRecord): Conversation {
    const { id, minSeq, maxSeq } = record;
    const built = this.#views.get(id);
    if (built) return built;
    const { online, typing, receipts, reactions, members, status } = this.volatile;
    const peer = peerOf(id, this.me);
    const face = this.faces.get(peer ? `u${peer}` : id);
    const floor = floorOf(record);
    const messages = [...(this.messages.get(id)?.values() ?? [])].filter(({ seq }) => seq >= Math.max(floor, minSeq));
    const view = {
      ...record,
      name: face?.name ?? (peer ? `#${peer}` : id),
      icon: face?.icon ?? "",
      peer,
      isOnline: status === "live" && peer !== undefined && online.has(peer),
      typing: typing.get(id) ?? NO_USERS,
      messages: messages.sort((one, other) => one.seq - other.seq),
      pending: this.pendingOf(id),
      hasOlder: floor > minSeq && maxSeq >= minSeq,
      members: members.get(id) ?? NO_USERS,
      receipts: receipts.get(id) ?? NONE,
      reactions: reactions.get(id) ?? NONE,
    };
    this.#views.set(id, view);
    return view;
  }
}

// The time of the node for what it has. What it has not is newer.
function timeOf({ last, pending }: Conversation): number {
  return pending.some(({ failed }) => !failed) ? Number.MAX_SAFE_INTEGER : Date.parse(last?.sendTime ?? "") || 0;
}
