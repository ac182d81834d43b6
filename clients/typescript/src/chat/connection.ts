// One socket to the node: hello, calls, renewals, and coming back after each end.

import { pause } from "./environment.js";
import { ChatError, quietly } from "./error.js";
import type { CallName, Calls, NodeFrame, Welcome } from "./frames.js";
import type { Leader } from "./leader.js";

const PAUSE_FIRST = 400;
const PAUSE_MAX = 30_000;
/** How long the node may take from the opening to `welcome`, and to answer a call. */
const ANSWER = 15_000;
/** A socket that is silent for this long is asked whether it still works. */
const SILENCE = 30_000;
const RENEW_AT = 0.8;
const POSITIONS_MAX = 2000;
const DAY = 86_400_000;
/** The code of a socket that is given up without waiting for its close. */
const LOST = 1006;
/** The node does not understand this client. */
const PROTOCOL = new Set([1002, 1003, 1007, 1009]);

/** What became of the connection. */
export type Status = "connecting" | "live" | "offline" | "signedOut" | "suspended" | "failed" | "closed";

/** Keeps one socket open. Timers of the leader end with each socket. */
export class Connection {
  /** What the node said first on this socket. */
  welcome: Welcome | undefined;
  /** Whether everything from before this socket has come. */
  isLive = false;
  #socket: WebSocket | undefined;
  /** What takes the answers to calls, by the id of the call. */
  #calls = new Map<number, (answer: unknown, error?: ChatError) => void>();
  #nextId = 1;
  #watch = 0;
  #tries = 0;
  #refused = false;
  #problem: ChatError | undefined;
  /** The last session of the node. Undefined: the node is older than sessions, and refuses them. */
  #session: string | undefined = "";
  #token: string | undefined;
  #renewAt = 0;
  #asking: Promise<string | null | undefined> | undefined;
  /** Ends when everything that has come is taken. It never fails. */
  #work: Promise<unknown> = Promise.resolve();
  readonly #over = new AbortController();

  constructor(readonly leader: Leader) {
    leader.tab.env.onWake(() => (this.#socket ? this.#probe() : this.connect()), this.#over.signal);
  }

  /** Ends it for good. `status`: what is shown then; without one, another tab goes on. */
  end(status?: Status, problem?: ChatError): void {
    this.#over.abort();
    this.#drop();
    if (status) this.leader.status(status, problem);
  }

  /** Makes a call once. Fails with `CLOSED` if no answer comes: then it may have been applied. */
  call<Name extends CallName>(name: Name, body: Calls[Name][0]): Promise<Calls[Name][1]> {
    return new Promise((resolve, reject) => {
      if (!this.welcome) return reject(ChatError.closed());
      const id = this.#ask(name, body, (answer, error) => {
        this.#calls.delete(id);
        this.leader.timers.cancel(`call ${id}`);
        if (error) reject(error);
        else resolve(answer as Calls[Name][1]);
      });
      this.leader.timers.set(`call ${id}`, ANSWER, () => this.#closed(LOST));
    });
  }

  /** Makes a call that may be repeated, and repeats it as the node asks: it is tried so many times at most. */
  async repeat<Name extends CallName>(name: Name, body: Calls[Name][0], most = 4): Promise<Calls[Name][1]> {
    for (let tries = 1; ; tries++) {
      try {
        return await this.call(name, body);
      } catch (error) {
        if (!(error instanceof ChatError && error.passes && error.reason !== "CLOSED" && tries < most)) throw error;
        // Up to half as long again, so that many clients do not come back at once.
        await pause(this.leader.tab.env, Math.max(error.retryAfter ?? 0, backoff(tries)) * (1 + this.leader.tab.env.random() / 2));
      }
    }
  }

  /** Makes the call that goes on, in place of the one before; `take` gets each answer. */
  watch<Name extends CallName>(name: Name, body: Calls[Name][0], take: (answer: Calls[Name][1]) => void): void {
    this.#calls.delete(this.#watch);
    this.#watch = this.#ask(name, body, (answer, error) => error ?? take(answer as Calls[Name][1]));
  }

  /** Opens a socket, in place of the wait for one. */
  connect(): void {
    this.#open().catch((error: unknown) => this.end("failed", ChatError.from(error)));
  }

  #ask(call: CallName, body: object, taken: (answer: unknown, error?: ChatError) => void): number {
    const id = this.#nextId++;
    this.#calls.set(id, taken);
    this.#send({ id, call, body });
    return id;
  }

  #send(frame: object): void {
    this.#socket?.send(JSON.stringify(frame));
  }

  async #open(): Promise<void> {
    const { env, options, url } = this.leader.tab;
    this.leader.timers.cancel("again");
    this.leader.status("connecting");
    // A token that has time left is sent again.
    const isFresh = !options.token || (this.#token && env.now() < this.#renewAt && !this.#refused);
    const token = isFresh ? "" : await this.#newToken();
    // Another wait for the same token has ended, or all is over.
    if (this.#socket || this.#over.signal.aborted) return;
    if (token === null) return this.end("signedOut", this.#problem);
    if (token === undefined) return this.#later();
    const socket = new env.webSocket(url);
    this.#socket = socket;
    this.#problem = undefined;
    this.leader.timers.set("silence", ANSWER, () => this.#closed(LOST));
    socket.onopen = () => this.#next(socket, () => this.#hello(false));
    // A close follows. Sockets of Node throw errors without a listener.
    socket.onerror = () => {};
    socket.onmessage = ({ data }) => this.#next(socket, () => this.#take(JSON.parse(String(data)) as NodeFrame));
    socket.onclose = ({ code }) => this.#next(socket, () => this.#closed(code));
  }

  // Takes what a socket brings, one after the other. A frame that cannot be taken ends the socket. The next one begins at the
  // last cursor, and brings it again.
  #next(socket: WebSocket, take: () => unknown): void {
    const failed = (error: unknown): void => {
      if (socket !== this.#socket) return;
      this.#problem = ChatError.from(error);
      this.#closed(LOST);
    };
    this.#work = this.#work.then(() => socket === this.#socket && take()).catch(failed);
  }

  /** Asks for a token, one question at a time. Null: the user is signed out; undefined: there is no answer now. */
  async #newToken(): Promise<string | null | undefined> {
    const ask = async (): Promise<string | null | undefined> => this.leader.tab.options.token?.();
    this.#asking ??= ask().catch(() => undefined).finally(() => (this.#asking = undefined));
    const token = await this.#asking;
    if (token !== undefined) this.#token = token?.trim();
    return token === undefined ? undefined : this.#token || null;
  }

  // A socket begins after everything that is here.
  #hello(reset: boolean): void {
    const { env, options, state } = this.leader.tab;
    const { user, device = "web", noticeAudiences, token } = options;
    const who = token ? { credential: this.#token } : { user };
    const known = [...state.conversations.values()].filter(({ maxSeq }) => maxSeq).slice(0, POSITIONS_MAX);
    const positions = known.length && { positions: Object.fromEntries(known.map(({ id, maxSeq }) => [id, maxSeq])) };
    const cursor = String(state.meta.get("cursor") ?? "");
    const isListed = Math.abs(env.now() - Number(state.meta.get("listed") ?? 0)) < DAY;
    const resume = cursor && !reset && { cursor, ...(isListed && { list: false }) };
    this.#send({ hello: { ...who, device, noticeAudiences, ...positions, ...resume, session: this.#session } });
  }

  async #take(frame: NodeFrame): Promise<void> {
    this.leader.timers.set("silence", SILENCE, () => this.#probe());
    const error = frame.error && ChatError.of(frame.error);
    if (frame.session) this.#session = frame.session;
    if (frame.id !== undefined) return this.#calls.get(frame.id)?.(frame.answer ?? {}, error);
    if (error) this.#problem = error;
    if (frame.welcome) this.#welcomed(frame.welcome);
    if (frame.renewed) this.#renewIn(frame.renewed.expiresIn);
    if (frame.reset) this.#hello(true);
    // What the page throws is its own, and does not end the socket.
    queueMicrotask(() => this.leader.tab.options.onFrame?.(frame));
    await this.leader.receiver.take(frame);
    if (!frame.live || !this.welcome) return;
    this.#tries = 0;
    this.#refused = false;
    this.isLive = true;
    this.leader.status("live");
  }

  #welcomed(welcome: Welcome): void {
    if (welcome.userId !== this.leader.tab.options.user) return this.end("failed", new ChatError("the token is that of another user", "permission_denied", "OTHER_USER"));
    this.welcome = welcome;
    this.#renewIn(welcome.expiresIn);
  }

  #renewIn(expiresIn: string | undefined): void {
    const { options, env } = this.leader.tab;
    if (!expiresIn || !options.token) return;
    const left = Number.parseFloat(expiresIn) * 1000;
    this.#renewAt = env.now() + left * RENEW_AT;
    this.leader.timers.set("renew", left * RENEW_AT, () => void this.#renew(left * (1 - RENEW_AT)));
  }

  // Without a token in time, the node ends the socket, and the next one begins with a new token.
  async #renew(left: number): Promise<void> {
    const socket = this.#socket;
    const token = await this.#newToken();
    if (socket !== this.#socket || !this.welcome) return;
    if (token === null) this.end("signedOut");
    else if (token) this.#send({ renew: { credential: token } });
    else if (left > 1000) this.leader.timers.set("renew", left / 2, () => void this.#renew(left / 2));
  }

  /** Asks whether the socket still works. Any answer shows that it does. */
  #probe(): void {
    if (this.welcome) void quietly(this.call("GetMaxSeqs", {}));
  }

  #closed(code: number): void {
    const problem = this.#problem;
    this.#drop();
    if (PROTOCOL.has(code)) return this.end("failed", problem ?? new ChatError(`the socket was closed with ${code}`, "internal", "PROTOCOL"));
    if (code !== 1008) return this.#later();
    if (problem?.reason === "USER_SUSPENDED") return this.end("suspended", problem);
    // A hello without the session of another database, or of an older form, or one new token, is tried once.
    if (problem?.field === "hello.session" && this.#session) this.#session = "";
    else if (problem?.field === "hello" && this.#session !== undefined) this.#session = undefined;
    else if (!this.leader.tab.options.token || (problem && problem.code !== "unauthenticated")) return this.end("failed", problem);
    else if (this.#refused) return this.end("signedOut", problem);
    else this.#refused = true;
    this.connect();
  }

  #later(): void {
    this.leader.status("offline", this.#problem);
    this.leader.timers.set("again", backoff(++this.#tries) * (0.5 + this.leader.tab.env.random() / 2), () => this.connect());
  }

  #drop(): void {
    this.isLive = false;
    this.leader.timers.end();
    this.#socket?.close(1000);
    this.#socket = this.welcome = undefined;
    for (const taken of this.#calls.values()) taken(undefined, ChatError.closed("the connection ended"));
    this.#calls.clear();
  }
}

const backoff = (tries: number): number => Math.min(PAUSE_MAX, PAUSE_FIRST * 2 ** (tries - 1));
