// Names and pictures, who is online, who types, who has read, who reacts.

import type { MessageReactionsJson, ReceiptCountJson, SignalJson } from "../gen/kith/message/v1/message_pb.js";
import type { PresenceJson } from "../gen/kith/presence/v1/presence_pb.js";
import { quietly } from "./error.js";
import type { Leader } from "./leader.js";
import { type ChatMessage, type Reaction, peerOf } from "./records.js";

const BATCH = 100;
const SOON = 50;
const A_WHILE = 1000;
const DAY = 86_400_000;
const TYPING = 5000;
const WATCHED_MAX = 1000;
const PAGE = 200;
const NAMED = 4;

/** What the session knows of people and groups. */
export class People {
  #wanted = new Set<string>();
  #watched = "";
  /** By conversation: messages whose reactions are to be read. */
  #reactedTo = new Map<string, Set<number>>();
  #reading: Promise<unknown> = Promise.resolve();
  #presence = new Map<string, PresenceJson>();

  constructor(readonly leader: Leader) {}

  /** Makes sure that names are here: `u7` or `g9`. `again`: they have changed. */
  want(ids: Iterable<string>, again = false): void {
    const { timers, tab: { state, env } } = this.leader;
    const isOld = (id: string): boolean => Math.abs(env.now() - (state.faces.get(id)?.time ?? 0)) > DAY;
    for (const id of ids) if ((again || isOld(id)) && id !== "u0") this.#wanted.add(id);
    if (this.#wanted.size) timers.soon("names", SOON, () => void quietly(this.#learn()));
  }

  /** Makes sure that the names are here of senders, and of those whom an event names first. */
  wantOf(messages: readonly ChatMessage[]): void {
    const userIds = messages.flatMap(({ senderId = "0", event: { joined, left, removed, owner } = {} }) => {
      const many = [joined, left, removed].flatMap((one) => one?.userIds?.slice(0, NAMED) ?? []);
      return [senderId, owner?.userId ?? "0", ...many];
    });
    this.want(userIds.map((id) => `u${id}`));
  }

  /** A new socket knows nothing of presence. */
  kick(): void {
    this.#watched = "";
    this.#presence.clear();
    this.want([`u${this.leader.tab.options.user}`]);
    void quietly(this.learnFriends());
    this.watch();
  }

  async learnFriends(): Promise<void> {
    const { userIds = [] } = await this.leader.connection.repeat("ListFriends", { userId: this.leader.tab.options.user, pageSize: PAGE });
    this.want(userIds.map((id) => `u${id}`));
    this.leader.set({ friends: userIds });
    this.watch();
  }

  /** Watches friends and the other users of conversations. */
  watch(): void {
    this.leader.timers.soon("watch", A_WHILE, () => {
      const { connection, tab: { state } } = this.leader;
      const peers = [...state.conversations.keys()].flatMap((id) => peerOf(id, state.me) ?? []);
      const userIds = [...new Set([...state.volatile.friends, ...peers])].filter((id) => id !== state.me).slice(0, WATCHED_MAX);
      if (!userIds.length || userIds.join() === this.#watched || !connection.isLive) return;
      this.#watched = userIds.join();
      connection.watch("WatchPresence", { userIds }, ({ presence }) => presence && this.#present(presence));
    });
  }

  /** Reads the members of a group, and how many have read the own messages: signals may be lost. */
  async learnGroup(id: string): Promise<void> {
    const { connection, tab: { state } } = this.leader;
    const { members = [] } = await connection.repeat("ListMembers", { groupId: id.slice(1), pageSize: PAGE });
    const userIds = members.map(({ userId = "" }) => userId);
    this.want(userIds.map((user) => `u${user}`));
    this.leader.set({ members: new Map(state.volatile.members).set(id, userIds) });
    const mine = [...(state.messages.get(id)?.values() ?? [])].filter(({ senderId, kind }) => senderId === state.me && kind === "MESSAGE_KIND_MESSAGE");
    const seqs = mine.map(({ seq }) => seq).sort((one, other) => one - other).slice(-BATCH).map(String);
    if (!seqs.length) return;
    const { results = [] } = await connection.repeat("BatchGetReceipts", { conversationId: id, seqs });
    this.#counted(id, results.flatMap(({ receipt }) => receipt ?? []));
  }

  signal({ conversationId: id = "", userId = "", activity, readSeq, receipts, reactions, profile }: SignalJson): void {
    const { state, store } = this.leader.tab;
    if (profile) this.want([`u${userId}`], true);
    if (activity) this.types(id, userId, activity === "SIGNAL_KIND_TYPING");
    if (receipts?.counts) this.#counted(id, receipts.counts);
    if (reactions && state.messages.has(id)) this.wantReactions(id, [{ seq: Number(reactions.seq) }]);
    const known = state.conversations.get(id);
    if (known && Number(readSeq ?? 0) > known.peerReadSeq) store.commit([[`c:${id}`, { ...known, peerReadSeq: Number(readSeq) }]]);
  }

  /** A user types, or has stopped: a user whose message has come types no longer. */
  types(id: string, userId: string, isTyping: boolean): void {
    const { timers, tab: { state } } = this.leader;
    const known = state.volatile.typing.get(id) ?? [];
    const others = known.filter((user) => user !== userId);
    if (isTyping) timers.set(`typing ${id} ${userId}`, TYPING, () => this.types(id, userId, false));
    if (isTyping === known.length > others.length) return;
    this.leader.set({ typing: new Map(state.volatile.typing).set(id, isTyping ? [...others, userId] : others) });
  }

  /** Adds or removes a reaction of this user. Large groups get no signal of it. */
  async react(id: string, seq: number, kind: string, isThere: boolean): Promise<void> {
    await this.leader.connection.call(isThere ? "React" : "Unreact", { conversationId: id, seq: String(seq), kind });
    this.wantReactions(id, [{ seq }]);
  }

  /** Reads the reactions to messages again, soon: signals come for one message each. */
  wantReactions(id: string, messages: Iterable<{ seq: number }>): void {
    const wanted = this.#reactedTo.get(id) ?? new Set();
    for (const { seq } of messages) wanted.add(seq);
    this.#reactedTo.set(id, wanted);
    // One read after the other: an answer is never older than the one before.
    const read = (): Promise<unknown> => (this.#reading = this.#reading.then(() => quietly(this.#learnReactions(id))));
    if (wanted.size) this.leader.timers.soon(`reactions ${id}`, SOON, () => void read());
  }

  async #learnReactions(id: string): Promise<void> {
    const wanted = this.#reactedTo.get(id) ?? new Set();
    while (wanted.size) {
      const seqs = [...wanted].sort((one, other) => other - one).slice(0, BATCH);
      for (const seq of seqs) wanted.delete(seq);
      const { messages = [] } = await this.leader.connection.repeat("BatchGetReactions", { conversationId: id, seqs: seqs.map(String) });
      const { reactions } = this.leader.tab.state.volatile;
      const known = new Map(reactions.get(id));
      for (const seq of seqs) known.delete(seq);
      for (const message of messages) known.set(Number(message.seq), reactionsOf(message));
      this.leader.set({ reactions: new Map(reactions).set(id, known) });
    }
  }

  #counted(id: string, counts: readonly ReceiptCountJson[]): void {
    const { receipts } = this.leader.tab.state.volatile;
    const known = new Map([...(receipts.get(id) ?? []), ...counts.map((count) => [Number(count.seq), count] as const)]);
    this.leader.set({ receipts: new Map(receipts).set(id, known) });
  }

  #present(presence: PresenceJson): void {
    const { userId = "", sessionVersion = Infinity } = presence;
    if (Number(sessionVersion) < Number(this.#presence.get(userId)?.sessionVersion ?? 0)) return;
    this.#presence.set(userId, presence);
    const online = (): string[] => [...this.#presence.values()].flatMap(({ userId: id = "", state }) => (state === "PRESENCE_STATE_ONLINE" ? id : []));
    // A watch begins with the states of all users.
    this.leader.timers.soon("presence", SOON, () => this.leader.set({ online: new Set(online()) }));
  }

  // What fails now is asked for after the next reconnect.
  async #learn(): Promise<void> {
    const { connection, tab: { store, env } } = this.leader;
    while (connection.isLive && this.#wanted.size) {
      const ids = [...this.#wanted].slice(0, BATCH);
      const of = (kind: string): string[] => ids.filter((id) => id.startsWith(kind)).map((id) => id.slice(1));
      const [userIds, groupIds, time] = [of("u"), of("g"), env.now()];
      const { results: users = [] } = userIds.length ? await connection.repeat("BatchGetUsers", { userIds }) : {};
      const { results: groups = [] } = groupIds.length ? await connection.repeat("BatchGetGroups", { groupIds }) : {};
      for (const id of ids) this.#wanted.delete(id);
      store.commit([
        ...users.flatMap(({ user }) => (user ? [[`f:u${user.userId}`, { name: user.nickName || user.userName, icon: user.icon ?? "", time }] as const] : [])),
        ...groups.flatMap(({ group }) => (group ? [[`f:g${group.groupId}`, { name: group.name, icon: group.icon ?? "", time }] as const] : [])),
      ]);
    }
  }
}

function reactionsOf({ reactions = [], ownKinds = [] }: MessageReactionsJson): Reaction[] {
  return reactions.map(({ kind = "", count = 0 }) => ({ kind, count: Number(count), isMine: ownKinds.includes(kind) }));
}
