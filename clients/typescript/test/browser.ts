// A browser with tabs, a clock that the test moves, and a node that keeps messages in memory.
import "fake-indexeddb/auto";
import { IDBFactory } from "fake-indexeddb";
import { type ChatOptions, type ChatSession, type Conversation, type Environment, openChat } from "../src/chat/index.js";

type Json = Record<string, any>;

/** Time that passes only when the test says so. */
export class Clock {
  time = 1_700_000_000_000;
  #timers = new Set<{ at: number; run: () => void }>();

  after = (ms: number, run: () => void): (() => void) => {
    const timer = { at: this.time + ms, run };
    this.#timers.add(timer);
    return () => this.#timers.delete(timer);
  };

  async pass(ms: number): Promise<void> {
    for (const end = this.time + ms; ; ) {
      await settle();
      const next = [...this.#timers].filter(({ at }) => at <= end).sort((one, other) => one.at - other.at)[0];
      this.time = next ? Math.max(this.time, next.at) : end;
      if (!next) return;
      this.#timers.delete(next);
      next.run();
    }
  }
}

export const settle = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 2));

/** Waits for a condition, at most 5 s. The clock moves on in small steps. */
export async function until(clock: Clock, what: string, holds: () => unknown): Promise<void> {
  for (const end = performance.now() + 5000; !holds(); ) {
    if (performance.now() > end) throw new Error(`never: ${what}`);
    await clock.pass(20);
  }
}

interface Held {
  run(lock: Lock): Promise<void>;
  reject(error: Error): void;
  resolve(value: unknown): void;
}

/** Web Locks of one browser. */
export class Locks {
  #held: Held | undefined;
  #waiting: Held[] = [];

  request(_name: string, options: LockOptions, run: Held["run"]): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const request = { run, reject, resolve };
      options.signal?.addEventListener("abort", () => {
        this.#waiting = this.#waiting.filter((one) => one !== request);
        reject(new Error("AbortError"));
      });
      if (options.steal) {
        this.#held?.reject(new Error("AbortError"));
        this.#grant(request);
      } else if (this.#held) this.#waiting.push(request);
      else this.#grant(request);
    });
  }

  #grant(request: Held): void {
    this.#held = request;
    void request.run({} as Lock).then(() => {
      request.resolve(undefined);
      if (this.#held !== request) return;
      this.#held = undefined;
      const next = this.#waiting.shift();
      if (next) this.#grant(next);
    });
  }
}

/** One socket of the node, as a tab sees it. */
class Socket {
  readyState = 0;
  onopen?: () => void;
  onmessage?: (event: { data: string }) => void;
  onclose?: (event: { code: number }) => void;

  constructor(readonly node: Node, readonly tab: { isFrozen: boolean }) {
    node.sockets.add(this);
    setImmediate(() => {
      if (!node.isUp) return this.gone(1006);
      this.readyState = 1;
      this.onopen?.();
    });
  }

  send(data: string): void {
    if (this.readyState === 1) this.node.take(this, JSON.parse(data));
  }

  out(frame: object): void {
    if (this.readyState === 1 && !this.tab.isFrozen) setImmediate(() => this.onmessage?.({ data: JSON.stringify(frame) }));
  }

  close(): void {
    this.gone(1000);
  }

  gone(code: number): void {
    if (this.readyState === 3) return;
    this.readyState = 3;
    this.node.sockets.delete(this);
    setImmediate(() => this.onclose?.({ code }));
  }
}

/** A node that keeps the messages of conversations in memory. Everything it gets is in `frames`. */
export class Node {
  isUp = true;
  sockets = new Set<Socket>();
  frames: Json[] = [];
  messages = new Map<string, Json[]>();
  read = new Map<string, number>();
  /** By conversation and number. */
  reactions = new Map<string, Json>();
  welcome: Json = { userId: "7", calls: 8, frameBytes: 262144 };
  cursor = 0;
  /** What calls of this name do in place of their answer, in order: an error, or `lost`. */
  faults = new Map<string, (Json | "lost")[]>();
  onHello: ((socket: Socket, hello: Json) => boolean) | undefined;

  say(id: string, senderId: string, text: string, more: Json = {}): Json {
    const all = this.messages.get(id) ?? [];
    this.messages.set(id, all);
    const message = { conversationId: id, seq: String(all.length + 1), senderId, sendTime: new Date(1e12 + all.length * 1000).toISOString(), kind: "MESSAGE_KIND_MESSAGE", contentType: "text/plain", body: btoa(text), ...more };
    all.push(message);
    this.push({ message, cursor: `c${++this.cursor}` });
    return message;
  }

  event(id: string, event: Json): void {
    this.say(id, "0", "", { kind: "MESSAGE_KIND_EVENT", silent: true, event });
  }

  push(frame: object): void {
    for (const socket of this.sockets) socket.out(frame);
  }

  close(code: number): void {
    for (const socket of [...this.sockets]) socket.gone(code);
  }

  calls(name: string): Json[] {
    return this.frames.filter(({ call }) => call === name).map(({ body }) => body);
  }

  hellos(): Json[] {
    return this.frames.flatMap(({ hello }) => (hello ? [hello] : []));
  }

  take(socket: Socket, frame: Json): void {
    this.frames.push(frame);
    if (frame["hello"]) return this.#hello(socket, frame["hello"]);
    if (frame["renew"]) return socket.out({ renewed: { expiresIn: this.welcome["expiresIn"] } });
    const fault = this.faults.get(frame["call"])?.shift();
    if (fault && fault !== "lost") return socket.out({ id: frame["id"], error: fault });
    const answer = this.#answer(frame["call"], frame["body"]);
    if (fault !== "lost") return socket.out({ id: frame["id"], answer });
    socket.gone(1006);
  }

  conversation(id: string): Json {
    const all = this.messages.get(id) ?? [];
    const readSeq = this.read.get(id) ?? 0;
    return { conversationId: id, maxSeq: String(all.length), minSeq: "1", readSeq: String(readSeq), unread: String(this.unread(id)), lastMessage: all.at(-1) };
  }

  unread(id: string): number {
    return (this.messages.get(id) ?? []).filter(({ seq, senderId, silent, recall }) => Number(seq) > (this.read.get(id) ?? 0) && senderId !== "7" && !silent && !recall).length;
  }

  #hello(socket: Socket, hello: Json): void {
    if (this.onHello?.(socket, hello)) return;
    socket.out({ welcome: this.welcome });
    if (hello["list"] !== false) socket.out({ conversations: [...this.messages.keys()].map((id) => this.conversation(id)), more: false });
    for (const [id, all] of hello["positions"] || hello["cursor"] ? this.messages : []) for (const message of all) if (Number(message["seq"]) > (hello["positions"]?.[id] ?? 0)) socket.out({ message });
    socket.out({ live: true, cursor: `c${this.cursor}` });
  }

  #answer(name: string, body: Json): Json {
    const id = body["conversationId"];
    const all = this.messages.get(id) ?? [];
    if (name === "SendMessage") {
      const before = all.find(({ clientMessageId }) => clientMessageId === body["clientMessageId"]);
      const { seq, sendTime } = before ?? this.say(id, "7", atob(body["body"]), { clientMessageId: body["clientMessageId"] });
      return { conversationId: id, seq, sendTime, ...(before && { replayed: true }) };
    }
    if (name === "MarkRead") {
      this.read.set(id, Math.max(this.read.get(id) ?? 0, Number(body["upTo"] ?? body["ranges"].at(-1).last)));
      return { readSeq: String(this.read.get(id)), unread: String(this.unread(id)) };
    }
    if (name === "CountUnread") return { counts: [...this.messages.keys()].map((conversationId) => ({ conversationId, unread: String(this.unread(conversationId)) })).filter(({ unread }) => unread !== "0") };
    if (name === "GetConversation") return { conversation: this.conversation(id) };
    if (name === "GetReadSeqs") return { results: [{ conversationId: body["conversationIds"][0], read: { readSeq: String(this.read.get(body["conversationIds"][0]) ?? 0) } }] };
    if (name === "PullBySeqs") return { messages: all.filter(({ seq }) => body["seqs"].includes(seq)) };
    if (name === "History") {
      const page = all.filter(({ seq }) => Number(seq) < Number(body["beforeSeq"] ?? Infinity)).toReversed();
      return { messages: page.slice(0, body["limit"]), minSeq: "1", maxSeq: String(all.length), more: page.length > body["limit"] };
    }
    if (name === "React" || name === "Unreact") {
      const reacted = { reactions: [{ kind: body["kind"], count: 1 }], ownKinds: [body["kind"]] };
      this.reactions.set(`${id}/${body["seq"]}`, name === "React" ? reacted : {});
      return {};
    }
    if (name === "BatchGetReactions") {
      const found = body["seqs"].map((seq: string) => ({ seq, ...this.reactions.get(`${id}/${seq}`) }));
      return { messages: found.filter((message: Json) => message["reactions"]) };
    }
    if (name === "BatchGetUsers") return { results: body["userIds"].map((userId: string) => ({ userId, user: { userId, userName: `name-${userId}` } })) };
    return {};
  }
}

/** One browser: what is kept is the same for its tabs. */
export class Browser {
  clock = new Clock();
  locks: Locks | undefined = new Locks();
  indexedDB: IDBFactory | undefined = new IDBFactory();
  #sessions: ChatSession[] = [];

  constructor(readonly node = new Node()) {}

  /** Opens a tab. A frozen one hears nothing. */
  tab(options: Partial<ChatOptions> = {}, tab: { isFrozen: boolean; wake?: () => void } = { isFrozen: false }): ChatSession {
    const { node, clock } = this;
    const environment: Partial<Environment> = {
      webSocket: class extends Socket {
        constructor() {
          super(node, tab);
        }
      } as never,
      indexedDB: this.indexedDB,
      locks: this.locks as never,
      broadcastChannel: class extends BroadcastChannel {
        override set onmessage(heard: ((event: any) => void) | null) {
          super.onmessage = (event: any) => tab.isFrozen || heard?.(event);
        }
      } as never,
      after: (ms, run) => clock.after(ms, () => tab.isFrozen || run()),
      now: () => clock.time,
      random: () => 0,
      isVisible: () => !tab.isFrozen,
      onWake: (run) => {
        tab.wake = run;
        return () => {};
      },
    };
    const session = openChat({ url: "http://node.example", user: "7", ...options, environment: { ...environment, ...options.environment } });
    this.#sessions.push(session);
    return session;
  }

  async close(): Promise<void> {
    for (const session of this.#sessions) await session.close();
  }
}

export function conversationOf(session: ChatSession, id: string): Conversation {
  const found = session.getSnapshot().conversations.find((one) => one.id === id);
  if (!found) throw new Error(`no conversation ${id}`);
  return found;
}
