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

async function live(made: Browser, session: ChatSession): Promise<ChatSession> {
  await until(made.clock, "live", () => session.getSnapshot().status === "live");
  return session;
}

const texts = (session: ChatSession): string[] => session.getSnapshot().conversations.find(({ id }) => id === ID)?.messages.map(textOf) ?? [];
const waiting = (session: ChatSession): string[] => session.getSnapshot().conversations.find(({ id }) => id === ID)?.pending.map(textOf) ?? [];

test("messages_come_in_order_once", async (t) => {
  const made = browser(t);
  for (const text of ["a", "b", "c"]) made.node.say(ID, "8", text);
  const session = await live(made, made.tab());
  await session.open(ID);
  made.node.say(ID, "8", "d");
  made.node.push({ message: made.node.messages.get(ID)?.[3], cursor: "c4" });
  await until(made.clock, "all four", () => texts(session).length === 4);
  assert.deepEqual(texts(session), ["a", "b", "c", "d"]);
  assert.equal(conversationOf(session, ID).unread, 4);
  await until(made.clock, "the name", () => conversationOf(session, ID).name === "name-8");
});

test("reload_shows_what_was_kept_and_resumes", async (t) => {
  const made = browser(t);
  made.node.say(ID, "8", "kept");
  const first = await live(made, made.tab());
  await first.open(ID);
  made.node.say(ID, "8", "and this");
  await until(made.clock, "both", () => texts(first).length === 2);
  await first.close();
  made.node.isUp = false;
  const second = made.tab();
  await until(made.clock, "loaded", () => second.getSnapshot().conversations.length === 1);
  void second.open(ID);
  await until(made.clock, "both", () => texts(second).length === 2);
  made.node.isUp = true;
  await live(made, second);
  const hello = made.node.hellos().at(-1);
  assert.deepEqual([hello?.["cursor"], hello?.["positions"], hello?.["list"]], ["c2", { [ID]: 2 }, false]);
});

test("sends_keep_their_order_over_lost_answers", async (t) => {
  const made = browser(t);
  made.node.faults.set("SendMessage", ["lost", { code: "unavailable", reason: "STORE_UNAVAILABLE", details: [{ type: "google.rpc.RetryInfo", debug: { retryDelay: "0.2s" } }] }]);
  const session = await live(made, made.tab());
  await session.open(ID);
  await Promise.all(["1", "2", "3"].map((text) => session.send(ID, text)));
  await until(made.clock, "sent", () => waiting(session).length === 0);
  assert.deepEqual(made.node.messages.get(ID)?.map(({ body }) => atob(body)), ["1", "2", "3"]);
  assert.deepEqual(texts(session), ["1", "2", "3"]);
});

test("outbox_survives_a_reload_while_the_node_is_away", async (t) => {
  const made = browser(t);
  const first = await live(made, made.tab());
  made.node.isUp = false;
  made.node.close(1006);
  await first.open(ID);
  await first.send(ID, "你好");
  await first.close();
  const second = made.tab();
  await until(made.clock, "shown", () => waiting(second)[0] === "你好");
  made.node.isUp = true;
  await live(made, second);
  await until(made.clock, "sent", () => waiting(second).length === 0);
  assert.equal(made.node.messages.get(ID)?.length, 1);
});

test("wrong_content_fails_alone_lost_right_fails_the_queue", async (t) => {
  const made = browser(t);
  const session = await live(made, made.tab());
  await session.open(ID);
  made.node.faults.set("SendMessage", [{ code: "invalid_argument", reason: "INVALID_FIELD" }]);
  await session.send(ID, "bad");
  await session.send(ID, "good");
  await until(made.clock, "one sent", () => texts(session).length === 1);
  assert.deepEqual(conversationOf(session, ID).pending.map((entry) => [textOf(entry), entry.failed?.reason]), [["bad", "INVALID_FIELD"]]);
  made.node.faults.set("SendMessage", [{ code: "failed_precondition", reason: "MUTED", message: "muted" }]);
  made.node.isUp = false;
  made.node.close(1006);
  await Promise.all([session.send(ID, "x"), session.send(ID, "y")]);
  made.node.isUp = true;
  await until(made.clock, "both failed", () => conversationOf(session, ID).pending.every(({ failed }) => failed));
  assert.deepEqual(waiting(session), ["bad", "x", "y"]);
  const [bad, ...rest] = conversationOf(session, ID).pending.map(({ clientMessageId }) => clientMessageId);
  await session.discard(bad ?? "");
  await session.retry(...rest);
  await until(made.clock, "sent", () => waiting(session).length === 0);
  assert.deepEqual(texts(session), ["good", "x", "y"]);
});

test("too_large_message_is_refused_before_it_is_sent", async (t) => {
  const made = browser(t);
  const session = await live(made, made.tab());
  await session.open(ID);
  await session.send(ID, "x".repeat(300_000));
  await until(made.clock, "failed", () => conversationOf(session, ID).pending[0]?.failed?.reason === "MESSAGE_TOO_LARGE");
  assert.equal(made.node.calls("SendMessage").length, 0);
});

test("reset_continues_after_the_positions", async (t) => {
  const made = browser(t);
  made.node.say(ID, "8", "one");
  const session = await live(made, made.tab());
  await session.open(ID);
  made.node.say(ID, "8", "two", {});
  await until(made.clock, "both", () => texts(session).length === 2);
  made.node.push({ reset: true });
  await until(made.clock, "hello again", () => made.node.hellos().length === 2);
  const hello = made.node.hellos().at(-1);
  assert.deepEqual([hello?.["cursor"], hello?.["positions"]], [undefined, { [ID]: 2 }]);
});

test("missed_messages_are_read_when_shown", async (t) => {
  const made = browser(t);
  for (let at = 1; at <= 3; at++) made.node.say(ID, "8", String(at));
  const session = await live(made, made.tab());
  await session.open(ID);
  await until(made.clock, "all", () => texts(session).length === 3);
  const all = made.node.messages.get(ID);
  for (let at = 4; at <= 120; at++) all?.push({ ...all[0], seq: String(at), body: btoa(String(at)) });
  made.node.push({ missed: { conversationId: ID, fromSeq: "4", toSeq: "120" } });
  await until(made.clock, "a page", () => texts(session).at(-1) === "120");
  assert.equal(texts(session)[0], "81");
  await session.loadOlder(ID);
  await session.loadOlder(ID);
  assert.deepEqual(texts(session), Array.from({ length: 120 }, (_, at) => String(at + 1)));
  assert.equal(conversationOf(session, ID).hasOlder, false);
});

test("recalled_content_is_gone_edits_are_read", async (t) => {
  const made = browser(t);
  const session = await live(made, made.tab());
  await session.open(ID);
  for (const text of ["secret", "tpyo"]) made.node.say(ID, "8", text);
  await until(made.clock, "both", () => texts(session).length === 2);
  Object.assign(made.node.messages.get(ID)?.[1] ?? {}, { body: btoa("typo"), edits: 1 });
  made.node.event(ID, { recalled: { seq: "1", userId: "8" } });
  made.node.event(ID, { edited: { seq: "2" } });
  await until(made.clock, "changed", () => texts(session)[1] === "typo");
  assert.deepEqual([conversationOf(session, ID).messages[0]?.recall, texts(session)[0]], [{ userId: "8" }, ""]);
  await session.close();
  const again = made.tab();
  await again.open(ID);
  assert.deepEqual(texts(again).slice(0, 2), ["", "typo"]);
});

test("edit_of_a_closed_conversation_is_read_when_opened", async (t) => {
  const made = browser(t);
  const first = await live(made, made.tab());
  await first.open(ID);
  made.node.say(ID, "8", "tpyo");
  made.node.say(ID, "8", "last");
  await until(made.clock, "both", () => texts(first).length === 2);
  await first.close();
  const session = await live(made, made.tab());
  Object.assign(made.node.messages.get(ID)?.[0] ?? {}, { body: btoa("typo"), edits: 1 });
  made.node.event(ID, { edited: { seq: "1" } });
  await until(made.clock, "the event", () => conversationOf(session, ID).maxSeq === 3);
  assert.equal(made.node.calls("PullBySeqs").length, 0);
  await session.open(ID);
  assert.deepEqual(texts(session).slice(0, 2), ["typo", "last"]);
});

test("erased_messages_of_a_user_are_gone", async (t) => {
  const made = browser(t);
  const session = await live(made, made.tab());
  await session.open(ID);
  for (const text of ["a", "b"]) made.node.say(ID, "8", text);
  made.node.say(ID, "7", "mine");
  made.node.event(ID, { erased: { userId: "8" } });
  await until(made.clock, "erased", () => texts(session).length === 4);
  assert.deepEqual(texts(session), ["", "", "mine", ""]);
});

test("seen_marks_up_to_while_nothing_before_is_unseen", async (t) => {
  const made = browser(t);
  for (const text of ["1", "2", "3", "4", "5", "6"]) made.node.say(ID, "8", text);
  const session = await live(made, made.tab());
  await session.open(ID);
  for (const seq of [1, 2]) session.seen(ID, seq);
  await until(made.clock, "a mark", () => made.node.calls("MarkRead").length === 1);
  assert.deepEqual(made.node.calls("MarkRead")[0], { conversationId: ID, upTo: "2" });
  for (const seq of [5, 6]) session.seen(ID, seq);
  await until(made.clock, "ranges", () => made.node.calls("MarkRead").length === 2);
  assert.deepEqual(made.node.calls("MarkRead")[1]?.["ranges"], [{ first: "5", last: "6" }]);
  assert.deepEqual(conversationOf(session, ID).skipped, [[3, 4]]);
  for (const seq of [3, 4]) session.seen(ID, seq);
  await until(made.clock, "the rest", () => made.node.calls("MarkRead").length === 3);
  assert.deepEqual([made.node.calls("MarkRead")[2]?.["upTo"] ?? made.node.calls("MarkRead")[2]?.["ranges"], conversationOf(session, ID).skipped], ["4", []]);
  await Promise.all([session.skip(ID, 6), made.clock.pass(500)]);
  assert.equal(made.node.calls("MarkRead").at(-1)?.["hidden"], true);
});

test("marks_are_one_a_second_and_survive_a_lost_connection", async (t) => {
  const made = browser(t);
  for (const text of ["1", "2"]) made.node.say(ID, "8", text);
  const session = await live(made, made.tab());
  await session.open(ID);
  session.seen(ID, 1);
  made.node.isUp = false;
  made.node.close(1006);
  await made.clock.pass(5000);
  session.seen(ID, 2);
  made.node.isUp = true;
  await until(made.clock, "marked", () => made.node.read.get(ID) === 2);
  assert.equal(made.node.calls("MarkRead").length, 1);
});

test("unread_is_counted_again_after_live_and_every_five_minutes", async (t) => {
  const made = browser(t);
  for (const text of ["1", "2"]) made.node.say(ID, "8", text);
  const session = await live(made, made.tab());
  await until(made.clock, "two", () => session.getSnapshot().unread === 2);
  made.node.read.set(ID, 2);
  await made.clock.pass(5 * 60_000 + 100);
  assert.equal(session.getSnapshot().unread, 0);
  const counted = made.node.calls("CountUnread").length;
  made.node.close(1001);
  await until(made.clock, "counted", () => made.node.calls("CountUnread").length > counted);
});

test("own_sends_keep_unread_where_the_node_takes_it", async (t) => {
  const made = browser(t);
  const session = await live(made, made.tab());
  await session.open(ID);
  await session.send(ID, "old");
  await until(made.clock, "sent", () => made.node.calls("SendMessage").length === 1);
  assert.equal("keepUnread" in (made.node.calls("SendMessage")[0] ?? {}), false);
  made.node.welcome["contract"] = 1;
  made.node.close(1001);
  await until(made.clock, "gone", () => session.getSnapshot().status !== "live");
  await live(made, session);
  await session.send(ID, "new");
  await until(made.clock, "sent", () => made.node.calls("SendMessage").length === 2);
  assert.equal(made.node.calls("SendMessage")[1]?.["keepUnread"], true);
  made.node.faults.set("SendMessage", [{ code: "permission_denied", reason: "NOT_ALLOWED" }]);
  await session.send(ID, "refused with it");
  await until(made.clock, "sent without it", () => made.node.calls("SendMessage").length === 4);
  assert.equal("keepUnread" in (made.node.calls("SendMessage")[3] ?? {}), false);
});

test("message_that_comes_while_a_conversation_is_opened_is_shown", async (t) => {
  const made = browser(t);
  const session = await live(made, made.tab());
  for (let at = 1; at <= 20; at++) {
    const id = `d7-${at + 7}`;
    made.node.say(id, String(at + 7), "before");
    const opened = session.open(id);
    made.node.say(id, String(at + 7), "while");
    await opened;
    await until(made.clock, "both", () => conversationOf(session, id).messages.length === 2);
  }
});

test("conversations_that_were_opened_long_ago_are_let_go", async (t) => {
  const made = browser(t);
  for (let at = 1; at <= 25; at++) made.node.say(`d7-${at + 7}`, String(at + 7), "hi");
  const session = await live(made, made.tab());
  for (let at = 1; at <= 25; at++) {
    await session.open(`d7-${at + 7}`);
    await session.open("d7-8");
  }
  const open = session.getSnapshot().conversations.filter(({ messages }) => messages.length);
  assert.deepEqual([open.length, conversationOf(session, "d7-8").messages.length], [20, 1]);
});
