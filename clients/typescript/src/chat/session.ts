// The chat session: what a page calls and shows.

import type { Environment } from "./environment.js";
import { quietly } from "./error.js";
import type { CallName, Calls, NodeFrame } from "./frames.js";
import { type OutboxEntry, bodyOf, directId } from "./records.js";
import type { ChatSnapshot } from "./state.js";
import { Tab } from "./tab.js";

/** How a session begins. */
export interface ChatOptions {
  /** The node: `wss://kith.example` or `https://kith.example`. Default: the origin of the page. */
  url?: string;
  /** The id of the signed-in user. What is kept on the device is kept for this user. */
  user: string;
  /** Asks your sign-in for a token of the user; null: the user is signed out. Leave it out for a node with `ws.trusted` alone. */
  token?: () => Promise<string | null>;
  /** The name of this device for presence. Default `web`. */
  device?: string;
  /** Audiences of notices whose totals are shown. */
  noticeAudiences?: readonly number[];
  /** Is called with every frame that is no answer, in the tab that has the socket: for what the session does not keep. */
  onFrame?: (frame: NodeFrame) => void;
  /** Replaces parts of the browser, for tests. */
  environment?: Partial<Environment>;
}

/** What may be set of a message besides its text. */
export interface SendOptions {
  /** Default `text/plain`. */
  contentType?: string;
  mentionIds?: readonly string[];
  replyToSeq?: number;
}

/** Opens the session of a user. It connects by itself, and comes back after each loss of the connection. */
export function openChat(options: ChatOptions): ChatSession {
  return new ChatSession(options);
}

/** A store of everything that a chat shows, for `useSyncExternalStore`, a Vue `shallowRef` or a plain page. */
export class ChatSession {
  readonly #tab: Tab;
  #order = 0;

  constructor(options: ChatOptions) {
    this.#tab = new Tab(options);
  }

  /** Calls `listener` after each change. Returns what ends this. */
  readonly subscribe = (listener: () => void): (() => void) => this.#tab.state.subscribe(listener);

  /** Everything that is to be shown: the same object until something changes. */
  readonly getSnapshot = (): ChatSnapshot => this.#tab.state.snapshot();

  /** Shows the messages of a conversation: `d7-8` or `g9`. They are kept up to date from then on. */
  async open(conversationId: string): Promise<void> {
    await this.#tab.begun;
    await this.#tab.store.show(conversationId);
    await quietly(this.#tab.ask("open", conversationId));
  }

  /** The conversation with another user, whether or not it has messages. */
  readonly directWith = (userId: string): string => directId(this.#tab.options.user, userId);

  /** Reads older messages of an open conversation. */
  readonly loadOlder = (conversationId: string): Promise<void> => quietly(this.#tab.ask("older", conversationId));

  /** Sends a text. It is kept before it is shown, and sent until the node has answered: once, in order, after a reload too. */
  async send(conversationId: string, text: string, options: SendOptions = {}): Promise<void> {
    const { contentType = "text/plain", mentionIds = [], replyToSeq = 0 } = options;
    await this.#tab.begun;
    const now = this.#tab.env.now();
    // Entries of one moment, and of several tabs, have an order.
    this.#order = Math.max(this.#order + 1, now, ...[...this.#tab.state.outbox.values()].map(({ order }) => order + 1));
    const content = { contentType, body: bodyOf(text), mentionIds: [...mentionIds], replyToSeq: String(replyToSeq) };
    const entry = { clientMessageId: crypto.randomUUID(), conversationId, ...content, order: this.#order, time: new Date(now).toISOString() };
    await this.#enqueue([entry]);
  }

  /** Sends messages again that were refused. */
  async retry(...clientMessageIds: string[]): Promise<void> {
    await this.#tab.begun;
    const entries = clientMessageIds.map((id) => this.#tab.state.outbox.get(id)).filter((entry) => entry !== undefined);
    await this.#enqueue(entries.map(({ failed: _failed, ...entry }) => entry));
  }

  /** Removes a message that was refused. */
  async discard(clientMessageId: string): Promise<void> {
    await this.#tab.begun;
    if (this.#tab.state.outbox.get(clientMessageId)?.failed) await this.#tab.store.keep([[`o:${clientMessageId}`, undefined]]);
  }

  /** The user has seen a message. `observeSeen` calls this for what is on the screen. */
  readonly seen = (conversationId: string, seq: number): void => {
    const { readSeq = 0, skipped = [] } = this.#tab.state.conversations.get(conversationId) ?? {};
    const isUnseen = seq > readSeq || skipped.some(([first, last]) => first <= seq && seq <= last);
    if (isUnseen) void quietly(this.#tab.ask("seen", conversationId, seq));
  };

  /** Clears the own unread count up to a message. What was jumped over stays unread for others. */
  readonly skip = (conversationId: string, upTo: number): Promise<unknown> => this.#tab.ask("skip", conversationId, upTo);

  /** The user is typing. May be called for each key. */
  readonly typing = (conversationId: string): void => void quietly(this.#tab.ask("typing", conversationId));

  /** Reacts to a message: with an emoji, or a name of your product. */
  readonly react = (conversationId: string, seq: number, kind: string): Promise<unknown> => this.#tab.ask("react", conversationId, seq, kind, true);

  /** Takes a reaction back. */
  readonly unreact = (conversationId: string, seq: number, kind: string): Promise<unknown> => this.#tab.ask("react", conversationId, seq, kind, false);

  /** Removes the content of an own message for all. */
  readonly recall = (conversationId: string, seq: number): Promise<unknown> => this.call("RecallMessage", { conversationId, seq: String(seq) });

  /** Replaces the text of an own message. */
  readonly edit = (conversationId: string, seq: number, text: string, contentType = "text/plain"): Promise<unknown> =>
    this.call("EditMessage", { conversationId, seq: String(seq), contentType, body: bodyOf(text) });

  /** Makes any call of the socket, once. Fails with a `ChatError`. */
  readonly call = <Name extends CallName>(name: Name, body: Calls[Name][0]): Promise<Calls[Name][1]> =>
    this.#tab.ask("call", name, body) as Promise<Calls[Name][1]>;

  /** Ends the session of this tab, and keeps everything on the device. */
  readonly close = (): Promise<void> => this.#tab.end();

  /** Ends the sessions of all tabs, and removes everything of this user from the device. */
  async signOut(): Promise<void> {
    await this.#tab.begun;
    this.#tab.say({ isSignedOut: true });
    await this.#tab.end("signedOut");
    await this.#tab.store.clear();
  }

  async #enqueue(entries: readonly OutboxEntry[]): Promise<void> {
    await this.#tab.store.keep(entries.map((entry) => [`o:${entry.clientMessageId}`, entry]));
    this.#tab.leader?.outbox.kick();
  }
}
