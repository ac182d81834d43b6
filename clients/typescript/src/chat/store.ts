// What is kept: in memory at once, then on the device, a database a user and a record a message. The other tabs hear what was written.

import { type ChatMessage, type Patch, entriesOf, keyOf, without } from "./records.js";
import type { Tab } from "./tab.js";

const STORE = "records";
/** Conversations whose messages are shown: those that were opened last. */
const SHOWN_MAX = 20;
/** Messages of a conversation that stay when the device is full. */
const KEPT = 50;
/** A database that is lost more often is not used. */
const OPENS_MAX = 20;

/** One user's records. */
export class Store {
  #opens = 0;
  #db: IDBDatabase | undefined;
  /** Of the last time that this tab began to lead. Undefined: no other tab may. */
  #term: string | undefined;
  /** What is not written. Without a database that is everything. */
  #waiting: Patch = new Map();
  #writing: Promise<void> | undefined;

  constructor(readonly tab: Tab) {}

  /** Opens the database. Without one, everything stays in the memory of this tab. */
  async open(): Promise<void> {
    this.#waiting = new Map();
    this.close();
    this.#db = await this.#opened().catch(() => undefined);
    this.tab.state.storage = this.#db ? "kept" : "memory";
  }

  /** From now on this tab is the one that writes: earlier ones are refused. */
  async begin(): Promise<void> {
    this.#term = crypto.randomUUID();
    await this.#put(new Map([["x:term", this.#term]]));
  }

  /** Reads everything but the messages of conversations that are not shown. Leaves what is not written. */
  async load(): Promise<void> {
    if (!this.#db) return;
    this.#waiting = new Map();
    const { state } = this.tab;
    const kept = await this.#read(IDBKeyRange.upperBound("z:"));
    // Without what was removed meanwhile.
    const gone = [...state.outbox.keys()].map((id) => [`o:${id}`, undefined] as const);
    state.apply(new Map([...gone, ...kept]));
    for (const id of [...state.messages.keys()]) await this.show(id, true);
  }

  /** Shows the messages of a conversation from now on. What comes while they are read is newer; `again`: what is read is. */
  async show(id: string, again = false): Promise<void> {
    const { state } = this.tab;
    const known = state.messages.get(id);
    const shown = known ?? new Map<string, ChatMessage>();
    state.messages.delete(id);
    state.messages.set(id, shown);
    if (known && !again) return;
    const [first = ""] = state.messages.keys();
    if (state.messages.size > SHOWN_MAX) state.messages.delete(first);
    const messages = entriesOf(await this.messages(id));
    state.apply(new Map(messages.filter(([key]) => again || !shown.has(key))));
  }

  /** The messages of a conversation. None if they cannot be read: then they are read again later. */
  async messages(id: string): Promise<ChatMessage[]> {
    await this.flush();
    const from = `z:${id}:`;
    const kept = await this.#read(IDBKeyRange.bound(from, `${from}\uffff`)).catch(() => this.tab.lost());
    const waiting = [...this.#waiting].filter(([key]) => key.startsWith(from));
    return [...(kept ?? []), ...waiting].map(([, message]) => message as ChatMessage);
  }

  /** Takes a change. A cursor is in the same patch as what was received before it, or in a later one. */
  commit(entries: Iterable<readonly [string, unknown]>): void {
    const patch: Patch = new Map(entries);
    this.tab.state.apply(patch);
    for (const [key, value] of patch) this.#waiting.set(key, value);
    this.#writing ??= this.#write();
  }

  /** Keeps a change before it is shown. It is of no term: every tab may do this. */
  async keep(entries: Iterable<readonly [string, unknown]>): Promise<void> {
    const patch: Patch = new Map(entries);
    if (!(await this.#store(patch))) this.tab.say({ patch });
    this.tab.state.apply(patch);
  }

  /** Waits until everything that was committed is kept. */
  async flush(): Promise<void> {
    while (this.#writing) await this.#writing;
  }

  close(): void {
    this.#db?.close();
  }

  /** Removes everything, once it is closed. */
  async clear(): Promise<void> {
    const { env, name } = this.tab;
    if (this.#db && env.indexedDB) await result(env.indexedDB.deleteDatabase(name));
  }

  async #opened(): Promise<IDBDatabase | undefined> {
    const { env, name } = this.tab;
    const request = this.#opens++ < OPENS_MAX ? env.indexedDB?.open(name, 1) : undefined;
    if (!request) return undefined;
    request.onupgradeneeded = () => request.result.createObjectStore(STORE);
    const db = await result(request);
    db.onversionchange = () => db.close();
    db.onclose = () => void this.tab.lost();
    return db;
  }

  /** The records whose keys are in a range. */
  async #read(range: IDBKeyRange): Promise<[string, unknown][]> {
    const store = this.#db?.transaction(STORE).objectStore(STORE);
    if (!store) return [];
    const [keys, values] = await Promise.all([result(store.getAllKeys(range)), result(store.getAll(range))]);
    return keys.map((key, at) => [String(key), values[at]]);
  }

  // It never fails: what is committed later is written, too.
  async #write(): Promise<void> {
    // What is committed meanwhile goes into the next transaction.
    await Promise.resolve();
    for (let isWritten = true; this.#db && isWritten && this.#waiting.size; ) {
      const patch = this.#waiting;
      this.#waiting = new Map();
      isWritten = await this.#store(patch, this.#term);
      // Tried again with the next change.
      if (!isWritten && this.tab.state.storage === "full") this.#waiting = new Map([...patch, ...this.#waiting]);
    }
    this.#writing = undefined;
  }

  /** Writes a patch, makes room for it, and shows it to the other tabs. Returns whether it is written. */
  async #store(patch: Patch, term?: string): Promise<boolean> {
    try {
      await this.#put(patch, term).catch(async (error: unknown) => {
        if (!isFull(error)) throw error;
        await this.#makeRoom();
        await this.#put(patch, term);
      });
      this.tab.state.turn("full", "kept");
      this.tab.say({ patch });
      return true;
    } catch (error) {
      // The transaction was given up: another tab has become the one that writes.
      if (error === null) this.tab.stepDown();
      else if (isFull(error)) this.tab.state.turn("kept", "full");
      else void this.tab.lost();
      return false;
    }
  }

  /** Writes all of a patch or nothing. `term`: refuses if another tab has begun since. */
  async #put(patch: Patch, term?: string): Promise<void> {
    // What the user wrote is on the disk before it is sent. What was received can be read again, with the cursor before it.
    const isOwn = [...patch.keys()].some((key) => key.startsWith("o:"));
    await this.#change(isOwn ? "strict" : "relaxed", (store) => {
      const put = (): void => {
        for (const [key, value] of patch) value === undefined ? store.delete(key) : store.put(value, key);
      };
      if (term === undefined) return put();
      const current = store.get("x:term");
      current.onsuccess = () => (current.result === term ? put() : store.transaction.abort());
    });
  }

  // Old messages can be read again; what the user wrote cannot.
  async #makeRoom(): Promise<void> {
    const old = [...this.tab.state.conversations.values()].filter(({ maxSeq }) => maxSeq > KEPT);
    await this.#change("relaxed", (store) => {
      for (const { id, maxSeq } of old) store.delete(IDBKeyRange.bound(keyOf(id, 0), keyOf(id, maxSeq - KEPT)));
    });
    const pruned: Patch = new Map(old.map((record) => [`c:${record.id}`, { ...record, here: without(record.here, [0, record.maxSeq - KEPT]) }]));
    this.tab.state.apply(pruned);
    this.tab.say({ patch: pruned });
    this.#waiting = new Map([...this.#waiting, ...pruned]);
  }

  async #change(durability: IDBTransactionDurability, run: (store: IDBObjectStore) => void): Promise<void> {
    const transaction = this.#db?.transaction(STORE, "readwrite", { durability });
    if (!transaction) return;
    await new Promise<void>((resolve, reject) => {
      transaction.oncomplete = () => resolve();
      transaction.onabort = () => reject(transaction.error);
      run(transaction.objectStore(STORE));
    });
  }
}

const isFull = (error: unknown): boolean => error instanceof Error && error.name === "QuotaExceededError";

function result<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}
