import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import type { ChatSession } from "../src/chat/index.js";
import { Browser, conversationOf, until } from "./browser.js";

const ID = "d7-8";

function browser(t: TestContext): Browser {
  const made = new Browser();
  t.after(() => made.close());
  return made;
}

const status = (session: ChatSession): string => session.getSnapshot().status;

async function live(made: Browser, session: ChatSession): Promise<ChatSession> {
  await until(made.clock, "live", () => status(session) === "live");
  return session;
}

test("token_is_renewed_at_four_fifths", async (t) => {
  const made = browser(t);
  made.node.welcome["expiresIn"] = "600s";
  let asked = 0;
  await live(made, made.tab({ token: async () => `t${++asked}` }));
  assert.deepEqual([made.node.hellos()[0]?.["credential"], made.node.hellos()[0]?.["user"]], ["t1", undefined]);
  await made.clock.pass(470_000);
  assert.equal(asked, 1);
  await made.clock.pass(10_100);
  assert.deepEqual(made.node.frames.at(-1), { renew: { credential: "t2" } });
  await made.clock.pass(480_100);
  assert.equal(asked, 3);
});

test("renewal_that_crosses_a_reset_is_no_hello", async (t) => {
  const made = browser(t);
  made.node.welcome["expiresIn"] = "100s";
  made.node.say(ID, "8", "a");
  let [asked, give]: [number, (token: string) => void] = [0, () => {}];
  const session = await live(made, made.tab({ token: () => (asked++ ? new Promise((resolve) => (give = resolve)) : Promise.resolve("t1")) }));
  await made.clock.pass(81_000);
  made.node.push({ reset: true });
  await until(made.clock, "hello", () => made.node.hellos().length === 2);
  give("t2");
  await until(made.clock, "renewed", () => made.node.frames.some(({ renew }) => renew?.credential === "t2"));
  assert.deepEqual([made.node.hellos()[1]?.["credential"], made.node.hellos()[1]?.["positions"]], ["t1", { [ID]: 1 }]);
  await live(made, session);
});

test("refused_token_is_replaced_once_then_signed_out", async (t) => {
  const made = browser(t);
  let asked = 0;
  const session = await live(made, made.tab({ token: async () => `t${++asked}` }));
  made.node.onHello = (socket) => {
    socket.out({ error: { code: "unauthenticated", reason: "CREDENTIALS_REFUSED" } });
    setImmediate(() => socket.gone(1008));
    return true;
  };
  made.node.push({ error: { code: "unauthenticated", reason: "CREDENTIALS_REFUSED" } });
  await made.clock.pass(10);
  made.node.close(1008);
  await until(made.clock, "signed out", () => status(session) === "signedOut");
  assert.deepEqual([asked, session.getSnapshot().problem?.reason], [2, "CREDENTIALS_REFUSED"]);
});

test("user_without_a_token_is_signed_out", async (t) => {
  const made = browser(t);
  const session = made.tab({ token: async () => null });
  await until(made.clock, "signed out", () => status(session) === "signedOut");
});

test("suspended_user_does_not_come_back", async (t) => {
  const made = browser(t);
  const session = await live(made, made.tab({ token: async () => "t" }));
  made.node.push({ error: { code: "permission_denied", reason: "USER_SUSPENDED" } });
  await made.clock.pass(10);
  made.node.close(1008);
  await until(made.clock, "suspended", () => status(session) === "suspended");
  await made.clock.pass(120_000);
  assert.equal(made.node.hellos().length, 1);
});

test("token_of_another_user_fails", async (t) => {
  const made = browser(t);
  made.node.welcome["userId"] = "9";
  const session = made.tab({ token: async () => "t" });
  await until(made.clock, "failed", () => status(session) === "failed");
  assert.equal(session.getSnapshot().problem?.reason, "OTHER_USER");
});

test("pauses_grow_and_online_ends_them", async (t) => {
  const made = browser(t);
  const tab: { isFrozen: boolean; wake?: () => void } = { isFrozen: false };
  const session = await live(made, made.tab({}, tab));
  made.node.isUp = false;
  made.node.close(1013);
  await made.clock.pass(60_000);
  assert.equal(status(session), "offline");
  made.node.isUp = true;
  const before = made.clock.time;
  tab.wake?.();
  await live(made, session);
  assert.ok(made.clock.time - before < 1000);
});

test("silent_socket_is_given_up", async (t) => {
  const made = browser(t);
  const session = await live(made, made.tab());
  for (const socket of made.node.sockets) socket.out = () => {};
  await made.clock.pass(50_000);
  assert.equal(made.node.hellos().length, 2);
  await live(made, session);
});

test("session_of_the_node_is_carried_to_the_next_socket", async (t) => {
  const made = browser(t);
  const session = await live(made, made.tab());
  assert.equal(made.node.hellos()[0]?.["session"], "");
  made.node.push({ id: 999, answer: {}, session: "s1" });
  await made.clock.pass(10);
  made.node.close(1001);
  await until(made.clock, "again", () => made.node.hellos().length === 2);
  assert.equal(made.node.hellos()[1]?.["session"], "s1");
  await live(made, session);
});

test("session_of_another_database_is_dropped", async (t) => {
  const made = browser(t);
  const session = await live(made, made.tab());
  made.node.push({ id: 999, answer: {}, session: "s1" });
  await made.clock.pass(10);
  made.node.onHello = (socket, hello) => {
    if (hello["session"] === "") return false;
    const details = [{ type: "google.rpc.BadRequest", debug: { fieldViolations: [{ field: "hello.session" }] } }];
    socket.out({ error: { code: "invalid_argument", reason: "INVALID_FIELD", details } });
    setImmediate(() => setImmediate(() => socket.gone(1008)));
    return true;
  };
  made.node.close(1006);
  await until(made.clock, "three", () => made.node.hellos().length === 3);
  assert.deepEqual(made.node.hellos().map(({ session: text }) => text), ["", "s1", ""]);
  await live(made, session);
});

test("older_node_gets_a_hello_without_a_session", async (t) => {
  const made = browser(t);
  made.node.onHello = (socket, hello) => {
    if (!("session" in hello)) return false;
    const details = [{ type: "google.rpc.BadRequest", debug: { fieldViolations: [{ field: "hello" }] } }];
    socket.out({ error: { code: "invalid_argument", reason: "INVALID_FIELD", details } });
    setImmediate(() => setImmediate(() => socket.gone(1008)));
    return true;
  };
  await live(made, made.tab());
  assert.equal(made.node.hellos().length, 2);
});

test("typing_presence_receipts_and_notices_are_shown", async (t) => {
  const made = browser(t);
  made.node.say(ID, "7", "mine");
  const session = await live(made, made.tab({ noticeAudiences: [1] }));
  await session.open(ID);
  await until(made.clock, "watched", () => made.node.calls("WatchPresence").length === 1);
  const watch = made.node.frames.find(({ call }) => call === "WatchPresence");
  made.node.push({ id: watch?.["id"], answer: { presence: { userId: "8", state: "PRESENCE_STATE_ONLINE", sessionVersion: "2" } } });
  made.node.push({ id: watch?.["id"], answer: { presence: { userId: "8", state: "PRESENCE_STATE_OFFLINE", sessionVersion: "1" } } });
  made.node.push({ signal: { conversationId: ID, userId: "8", activity: "SIGNAL_KIND_TYPING" } });
  made.node.push({ signal: { conversationId: ID, userId: "8", readSeq: "1" } });
  made.node.push({ noticeTotals: { audienceId: 1, unread: 2 } });
  await until(made.clock, "typing", () => conversationOf(session, ID).typing[0] === "8" && conversationOf(session, ID).isOnline);
  const { isOnline, peerReadSeq } = conversationOf(session, ID);
  assert.deepEqual([isOnline, peerReadSeq, session.getSnapshot().notices.get(1)?.unread], [true, 1, 2]);
  await made.clock.pass(6000);
  assert.deepEqual(conversationOf(session, ID).typing, []);
  made.node.isUp = false;
  made.node.close(1006);
  await until(made.clock, "offline", () => status(session) === "offline");
  assert.equal(conversationOf(session, ID).isOnline, false);
});

test("counts_of_groups_are_read_when_opened_and_by_signals", async (t) => {
  const made = browser(t);
  made.node.say("g9", "7", "mine");
  const session = await live(made, made.tab());
  await session.open("g9");
  assert.deepEqual(made.node.calls("BatchGetReceipts")[0]?.["seqs"], ["1"]);
  made.node.push({ signal: { conversationId: "g9", userId: "7", receipts: { counts: [{ seq: "1", read: "3" }] } } });
  await until(made.clock, "counted", () => conversationOf(session, "g9").receipts.get(1)?.read === "3");
});

test("reactions_are_read_when_opened_and_by_signals", async (t) => {
  const made = browser(t);
  for (const text of ["a", "b"]) made.node.say(ID, "8", text);
  made.node.reactions.set(`${ID}/1`, { reactions: [{ kind: "yes", count: 2 }], ownKinds: ["yes"] });
  const session = await live(made, made.tab());
  const of = (seq: number): unknown => conversationOf(session, ID).reactions.get(seq);
  await session.open(ID);
  await until(made.clock, "read", () => of(1) !== undefined);
  assert.deepEqual([of(1), of(2)], [[{ kind: "yes", count: 2, isMine: true }], undefined]);
  made.node.reactions.set(`${ID}/1`, {});
  made.node.reactions.set(`${ID}/2`, { reactions: [{ kind: "no", count: 1 }] });
  const before = made.node.calls("BatchGetReactions").length;
  for (const seq of ["1", "2"]) made.node.push({ signal: { conversationId: ID, userId: "8", reactions: { seq } } });
  await until(made.clock, "read again", () => of(1) === undefined && of(2) !== undefined);
  assert.deepEqual(of(2), [{ kind: "no", count: 1, isMine: false }]);
  assert.equal(made.node.calls("BatchGetReactions").length, before + 1, "one read for both signals");
  // A conversation that is not shown is not read.
  made.node.push({ signal: { conversationId: "g9", userId: "8", reactions: { seq: "1" } } });
  await session.react(ID, 1, "yes");
  await until(made.clock, "reacted", () => of(1) !== undefined);
  await session.unreact(ID, 1, "yes");
  await until(made.clock, "taken back", () => of(1) === undefined);
  assert.deepEqual(new Set(made.node.calls("BatchGetReactions").map(({ conversationId }) => conversationId)), new Set([ID]));
});

test("names_in_last_messages_are_read", async (t) => {
  const made = browser(t);
  made.node.say("g9", "5", "hi");
  made.node.event("g10", { joined: { userIds: ["11", "12"] } });
  const session = await live(made, made.tab());
  await until(made.clock, "names", () => ["5", "7", "11", "12"].every((user) => session.getSnapshot().nameOf(user) === `name-${user}`));
  made.node.say("g9", "6", "ho");
  await until(made.clock, "the next name", () => session.getSnapshot().nameOf("6") === "name-6");
});

test("snapshot_is_the_same_until_something_changes", async (t) => {
  const made = browser(t);
  made.node.say(ID, "8", "a");
  made.node.say("d7-9", "9", "b");
  const session = await live(made, made.tab());
  await made.clock.pass(2000);
  const before = session.getSnapshot();
  assert.equal(session.getSnapshot(), before);
  made.node.say(ID, "8", "c");
  await until(made.clock, "changed", () => session.getSnapshot() !== before);
  const other = (snapshot: typeof before): unknown => snapshot.conversations.find(({ id }) => id === "d7-9");
  assert.equal(other(session.getSnapshot()), other(before));
});
