import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { type ChatSession, textOf } from "../src/chat/index.js";
import { Browser, conversationOf, until } from "./browser.js";

const ID = "d7-8";

function browser(t: TestContext): Browser {
  const made = new Browser();
  t.after(() => made.close());
  return made;
}

async function live(made: Browser, ...sessions: ChatSession[]): Promise<void> {
  await until(made.clock, "live", () => sessions.every((session) => session.getSnapshot().status === "live"));
}

const texts = (session: ChatSession): string[] => session.getSnapshot().conversations.find(({ id }) => id === ID)?.messages.map(textOf) ?? [];

test("tabs_share_one_socket", async (t) => {
  const made = browser(t);
  made.node.say(ID, "8", "hello");
  const [one, two] = [made.tab(), made.tab()];
  await live(made, one, two);
  assert.equal(made.node.sockets.size, 1);
  await Promise.all([one.open(ID), two.open(ID)]);
  await two.send(ID, "from two");
  await until(made.clock, "in both", () => texts(one).length === 2 && texts(two).length === 2 && conversationOf(two, ID).pending.length === 0);
  two.seen(ID, 1);
  await until(made.clock, "read in both", () => one.getSnapshot().unread === 0 && two.getSnapshot().unread === 0);
  await until(made.clock, "names in both", () => two.getSnapshot().nameOf("8") === "name-8");
});

test("another_tab_takes_over_when_the_leader_closes", async (t) => {
  const made = browser(t);
  const [one, two] = [made.tab(), made.tab()];
  await live(made, one, two);
  await two.open(ID);
  made.node.faults.set("SendMessage", ["lost"]);
  await two.send(ID, "once");
  await one.close();
  await until(made.clock, "sent", () => conversationOf(two, ID).pending.length === 0 && texts(two).length === 1);
  assert.equal(made.node.messages.get(ID)?.length, 1);
  await live(made, two);
  assert.equal(made.node.sockets.size, 1);
});

test("visible_tab_takes_the_lock_from_a_frozen_one", async (t) => {
  const made = browser(t);
  const frozen = { isFrozen: false };
  const [one, two] = [made.tab({}, frozen), made.tab()];
  await live(made, one, two);
  await two.open(ID);
  frozen.isFrozen = true;
  const before = made.clock.time;
  const sockets = made.node.hellos().length;
  await until(made.clock, "taken over", () => made.node.hellos().length > sockets);
  assert.ok(made.clock.time - before >= 3000 && made.clock.time - before < 8000, String(made.clock.time - before));
  made.node.say(ID, "8", "new");
  await until(made.clock, "received", () => texts(two).length === 1);
  frozen.isFrozen = false;
  made.node.say(ID, "8", "newer");
  await until(made.clock, "in both", () => texts(two).length === 2 && conversationOf(one, ID).maxSeq === 2);
  assert.equal(made.node.sockets.size, 1);
});

test("without_locks_each_tab_has_a_socket", async (t) => {
  const made = browser(t);
  made.locks = undefined;
  const [one, two] = [made.tab(), made.tab()];
  await live(made, one, two);
  assert.equal(made.node.sockets.size, 2);
  await one.open(ID);
  await one.send(ID, "a");
  await two.open(ID);
  await until(made.clock, "in both", () => texts(one).length === 1 && texts(two).length === 1);
});

test("without_a_database_everything_is_in_memory", async (t) => {
  const made = browser(t);
  made.indexedDB = undefined;
  const session = made.tab({ environment: { indexedDB: undefined } });
  await live(made, session);
  assert.equal(session.getSnapshot().storage, "memory");
  await session.open(ID);
  await session.send(ID, "a");
  await until(made.clock, "sent", () => texts(session).length === 1);
});

test("sign_out_removes_what_was_kept_in_all_tabs", async (t) => {
  const made = browser(t);
  made.node.say(ID, "8", "secret");
  const [one, two] = [made.tab(), made.tab()];
  await live(made, one, two);
  await one.signOut();
  await until(made.clock, "both out", () => [one, two].every((session) => session.getSnapshot().status === "signedOut"));
  assert.deepEqual(await made.indexedDB?.databases(), []);
  assert.deepEqual([one, two].map((session) => session.getSnapshot().conversations.length), [0, 0]);
});

test("full_device_keeps_the_outbox", async (t) => {
  const made = browser(t);
  const session = made.tab();
  await live(made, session);
  await session.open(ID);
  const put = IDBObjectStore.prototype.put;
  t.after(() => void (IDBObjectStore.prototype.put = put));
  IDBObjectStore.prototype.put = function (value: unknown, key?: IDBValidKey) {
    const request = put.call(this, value, key);
    if (!String(key).startsWith("z:")) return request;
    const full = Object.assign(new Error("full"), { name: "QuotaExceededError" });
    Object.defineProperty(this.transaction, "error", { get: () => full });
    this.transaction.abort();
    return request;
  };
  made.node.say(ID, "8", "no room");
  await until(made.clock, "full", () => session.getSnapshot().storage === "full" && texts(session).length === 1);
  made.node.isUp = false;
  made.node.close(1006);
  await session.send(ID, "kept");
  await session.close();
  IDBObjectStore.prototype.put = put;
  const again = made.tab();
  await until(made.clock, "the outbox", () => again.getSnapshot().conversations.some(({ pending }) => pending.length === 1));
  made.node.isUp = true;
  await live(made, again);
  await again.open(ID);
  await until(made.clock, "both", () => texts(again).length === 2);
  assert.deepEqual(texts(again), ["no room", "kept"]);
});

test("full_device_lets_old_messages_go", async (t) => {
  const made = browser(t);
  for (let at = 1; at <= 120; at++) made.node.say(ID, "8", String(at));
  const session = made.tab();
  await live(made, session);
  await session.open(ID);
  await session.loadOlder(ID);
  await session.loadOlder(ID);
  assert.equal(texts(session).length, 120);
  const put = IDBObjectStore.prototype.put;
  t.after(() => void (IDBObjectStore.prototype.put = put));
  IDBObjectStore.prototype.put = function () {
    IDBObjectStore.prototype.put = put;
    Object.defineProperty(this.transaction, "error", { get: () => Object.assign(new Error("full"), { name: "QuotaExceededError" }) });
    this.transaction.abort();
    return {} as IDBRequest<IDBValidKey>;
  };
  made.node.say(ID, "8", "121");
  await until(made.clock, "room", () => texts(session).length === 50);
  assert.deepEqual([texts(session)[0], session.getSnapshot().storage, conversationOf(session, ID).hasOlder], ["72", "kept", true]);
  await session.close();
  const again = made.tab();
  await live(made, again);
  await again.open(ID);
  await again.loadOlder(ID);
  assert.deepEqual(texts(again), Array.from({ length: 90 }, (_, at) => String(at + 32)));
});

test("deleted_storage_is_read_again_and_the_outbox_stays", async (t) => {
  const made = browser(t);
  made.node.say(ID, "8", "hello");
  const session = made.tab();
  await live(made, session);
  await session.open(ID);
  made.node.isUp = false;
  made.node.close(1006);
  await session.send(ID, "waits");
  for (const { name } of (await made.indexedDB?.databases()) ?? []) made.indexedDB?.deleteDatabase(name ?? "");
  await session.send(ID, "after");
  made.node.isUp = true;
  await until(made.clock, "all", () => session.getSnapshot().status === "live" && texts(session).length === 3);
  assert.deepEqual(texts(session), ["hello", "waits", "after"]);
});
