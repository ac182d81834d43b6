// One tab of a user: what it keeps, and the socket if it leads. A Web Lock says which tab leads. The others hear it by a
// channel, and send it commands.

import { type Environment, environmentOf } from "./environment.js";
import { ChatError, quietly } from "./error.js";
import { Leader } from "./leader.js";
import type { Patch } from "./records.js";
import type { ChatOptions } from "./session.js";
import { State, type Volatile, unknownVolatile } from "./state.js";
import { Store } from "./store.js";

const PING_EVERY = 1000;
/** Pings without an answer, after which a visible tab takes the lock from a tab that is frozen. */
const PINGS = 3;

/** What a tab says to all others. */
interface Said {
  patch?: Patch;
  volatile?: Partial<Volatile>;
  isNewLeader?: true;
  isSignedOut?: true;
  command?: { id: string; name: string; args: unknown[] };
  /** What became of the command with this id. */
  result?: { id: string } & Result;
}

type Result = { value?: unknown; error?: Omit<ChatError, "passes"> };

/** Everything that is behind a session. */
export class Tab {
  readonly env: Environment;
  readonly url: string;
  /** The name of the database, the lock and the channel. */
  readonly name: string;
  readonly state: State;
  readonly store = new Store(this);
  /** The socket of all tabs, if it is that of this one. */
  leader: Leader | undefined;
  /** Whether this tab has the lock. */
  isLeader = false;
  /** Ends when what is kept has been read. It never fails. */
  begun: Promise<void>;
  #isOver = false;
  /** Rises with each beginning, so that the last one alone opens a socket. */
  #turn = 0;
  #channel: BroadcastChannel | undefined;
  /** What takes the results of the commands of this tab, by id. */
  #asked = new Map<string, (result: Result) => void>();
  /** Ends the wait for the lock, or gives it back. */
  #lock = new AbortController();
  #silent = 0;

  constructor(readonly options: ChatOptions) {
    this.env = environmentOf(options.environment);
    this.url = socketUrl(options.url ?? globalThis.location?.origin);
    this.state = new State(options.user);
    this.name = `kith-chat:${this.url}:${options.user}`;
    this.begun = this.store.open().then(() => this.#start());
  }

  /** What was kept is gone, or cannot be read. What this tab has of the outbox is kept again; the rest is read again. */
  async lost(error?: unknown): Promise<void> {
    if (this.#isOver) return;
    // Nothing is kept, so another beginning would fail, too.
    if (this.state.storage === "memory") return this.state.set({ status: "failed", problem: ChatError.from(error) });
    const turn = this.#unlead();
    await this.store.open();
    if (turn !== this.#turn) return;
    const [shown, outbox] = [[...this.state.messages.keys()], [...this.state.outbox]];
    this.state.clear();
    for (const id of shown) this.state.messages.set(id, new Map());
    await this.store.keep(outbox.map(([id, entry]) => [`o:${id}`, entry]));
    await this.#begin();
  }

  /** Says this to the other tabs. */
  say(said: Said): void {
    this.#channel?.postMessage(said);
  }

  /** Runs a command where the socket is. */
  ask(name: string, ...args: unknown[]): Promise<unknown> {
    if (this.isLeader) return this.#run(name, args);
    return new Promise((resolve, reject) => {
      const id = crypto.randomUUID();
      this.#asked.set(id, ({ value, error }) => {
        this.#asked.delete(id);
        // A class does not cross the channel; its fields do.
        if (error) reject(Object.assign(ChatError.closed(), error));
        else resolve(value);
      });
      this.say({ command: { id, name, args } });
    });
  }

  /** This tab no longer leads: another one writes. */
  stepDown(): void {
    if (!this.isLeader || this.#isOver) return;
    this.isLeader = false;
    void this.#begin();
    this.#request(false);
  }

  /** Ends this tab, and leaves what is kept. */
  async end(status: "closed" | "signedOut" = "closed"): Promise<void> {
    await this.begun;
    this.#isOver = true;
    await this.store.flush();
    this.#unlead();
    this.#lock.abort();
    this.#fail();
    this.#channel?.close();
    this.#channel = undefined;
    this.store.close();
    if (status === "signedOut") this.state.clear();
    this.state.set(unknownVolatile(status));
  }

  // Patches that come while what is kept is read are applied after it.
  #start(): Promise<void> {
    const { broadcastChannel, locks } = this.env;
    // Each tab has its own socket.
    if (!broadcastChannel || !locks || this.state.storage === "memory") return this.#lead();
    this.#channel = new broadcastChannel(this.name);
    this.#channel.onmessage = ({ data }: MessageEvent<Said>) => this.#heard(data);
    this.#request(false);
    this.#tick();
    return this.#begin();
  }

  /** Reads what is kept, and opens the socket if this tab leads. A later beginning takes its place. */
  #begin(): Promise<void> {
    const begin = async (): Promise<void> => {
      const turn = this.#unlead();
      if (this.isLeader && this.#channel) await this.store.begin();
      await this.store.load();
      if (this.#isOver || turn !== this.#turn) return;
      if (!this.isLeader) return void quietly(this.ask("volatile").then((fields) => this.state.set(fields as Volatile)));
      this.leader = new Leader(this);
      this.leader.connection.connect();
    };
    return (this.begun = begin().catch((error: unknown) => this.lost(error)));
  }

  #lead(): Promise<void> {
    this.isLeader = true;
    this.#fail();
    this.say({ isNewLeader: true });
    return this.#begin();
  }

  #unlead(): number {
    this.leader?.connection.end();
    this.leader = undefined;
    return ++this.#turn;
  }

  #request(steal: boolean): void {
    this.#lock.abort();
    this.#lock = new AbortController();
    const { signal } = this.#lock;
    const hold = (): Promise<void> => {
      if (!signal.aborted) void this.#lead();
      return new Promise((resolve) => (signal.aborted ? resolve() : signal.addEventListener("abort", () => resolve())));
    };
    // It is rejected when the lock is stolen, and when the request is given up.
    this.env.locks?.request(this.name, steal ? { steal } : { signal }, hold).catch(() => signal.aborted || this.stepDown());
  }

  #tick(): void {
    if (this.#isOver) return;
    if (this.isLeader || !this.env.isVisible()) this.#silent = 0;
    else if (this.#silent++ < PINGS) void quietly(this.ask("ping"));
    else {
      this.#silent = 0;
      this.#request(true);
    }
    this.env.after(PING_EVERY, () => this.#tick());
  }

  #heard({ isNewLeader, isSignedOut, patch, volatile, command, result }: Said): void {
    // Any answer shows that the leader runs, a refusal too.
    if (result) this.#silent = 0;
    if (isNewLeader) this.#fail();
    if (isNewLeader) for (const id of this.state.messages.keys()) void quietly(this.ask("open", id));
    if (isSignedOut) void this.end("signedOut");
    if (patch) void this.begun.then(() => this.state.apply(patch)).then(() => this.leader?.outbox.kick());
    if (volatile && !this.isLeader) this.state.set(volatile);
    if (command && this.isLeader) void this.#obey(command);
    if (result) this.#asked.get(result.id)?.(result);
  }

  async #obey({ id, name, args }: NonNullable<Said["command"]>): Promise<void> {
    const result = await this.#run(name, args).then((value) => ({ value }), (error: unknown) => ({ error: { ...ChatError.from(error) } }));
    this.say({ result: { id, ...result } });
  }

  async #run(name: string, args: unknown[]): Promise<unknown> {
    const command = this.leader?.commands[name];
    if (!command) throw ChatError.closed();
    return command(...(args as never[]));
  }

  // The leader that was asked is gone.
  #fail(): void {
    for (const taken of this.#asked.values()) taken({ error: ChatError.closed() });
  }
}

function socketUrl(url: string | undefined): string {
  const parsed = new URL(url ?? "");
  parsed.protocol = parsed.protocol.replace("http", "ws");
  if (!parsed.pathname.endsWith("/ws")) parsed.pathname = `${parsed.pathname.replace(/\/$/, "")}/ws`;
  return parsed.href;
}
