// What cannot be taken, read or written is fetched again, or shown as a problem. It blocks nothing, and nothing is skipped.
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { type ChatOptions, type ChatSession, textOf } from "../src/chat/index.js";
import { Browser, conversationOf, until } from "./browser.js";

const ID = "d7-8";
/** A list of the contract that is a number: code that reads it throws. */
const BROKEN = { mentionIds: 5 };

function browser(t: TestContext): Browser {
  const made = new Browser();
  t.after(() => made.close());
  return made;
}

async function open(made: Browser, options: Partial<ChatOptions> = {}): Promise<ChatSession> {
  const session = made.tab(options);
  await until(made.clock, "live", () => session.getSnapshot().status === "live");
  await session.open(ID);
  return session;
}

const texts = (session: ChatSession): string[] => session.getSnapshot().conversations.find(({ id }) => id === ID)?.messages.map(textOf) ?? [];

/** Lets the next requests of this kind fail, in every database. */
function fail(t: TestContext, method: "getAll" | "getAllKeys" | "put", times = 1): { isDone: boolean } {
  const [real, fault] = [IDBObjectStore.prototype[method], { isDone: false }];
  t.after(() => void Object.assign(IDBObjectStore.prototype, { [method]: real }));
  let left = times;
  const failing = (): never => {
    fault.isDone = --left === 0;
    if (fault.isDone) Object.assign(IDBObjectStore.prototype, { [method]: real });
    throw new Error("the device failed");
  };
  Object.assign(IDBObjectStore.prototype, { [method]: failing });
  return fault;
}

test("frame_that_fails_is_fetched_again", async (t) => {
  const made = browser(t);
  made.node.say(ID, "8", "one");
  const session = await open(made);
  await until(made.clock, "one", () => texts(session).length === 1);
  const two = made.node.say(ID, "8", "two", { ...BROKEN });
  made.node.say(ID, "8", "three");
  made.node.onHello = () => {
    delete two["mentionIds"];
    return false;
  };
  await until(made.clock, "all", () => texts(session).length === 3);
  assert.deepEqual(texts(session), ["one", "two", "three"]);
  assert.deepEqual([made.node.hellos()[1]?.["cursor"], made.node.hellos()[1]?.["positions"]], ["c1", { [ID]: 1 }]);
  assert.deepEqual([conversationOf(session, ID).unread, session.getSnapshot().status], [3, "live"]);
});

test("frame_that_always_fails_is_shown_as_a_problem", async (t) => {
  const made = browser(t);
  const session = await open(made);
  const one = made.node.say(ID, "8", "one", { ...BROKEN });
  made.node.say(ID, "8", "two");
  await until(made.clock, "the problem", () => session.getSnapshot().status === "offline" && session.getSnapshot().problem);
  assert.equal(session.getSnapshot().problem?.reason, "INTERNAL");
  const before = made.node.hellos().length;
  await made.clock.pass(60_000);
  const tries = made.node.hellos().length - before;
  assert.ok(tries >= 5 && tries <= 14, `${tries} tries in 60 s`);
  assert.deepEqual(texts(session), []);
  delete one["mentionIds"];
  await until(made.clock, "both", () => texts(session).length === 2 && session.getSnapshot().status === "live");
});

test("frame_that_is_no_json_ends_the_socket", async (t) => {
  const made = browser(t);
  const session = await open(made);
  for (const socket of made.node.sockets) socket.onmessage?.({ data: "{" });
  made.node.say(ID, "8", "one");
  await until(made.clock, "the message", () => texts(session).length === 1);
  assert.equal(made.node.hellos().length, 2);
});

test("recall_that_cannot_be_read_is_not_skipped", async (t) => {
  const made = browser(t);
  const session = await open(made);
  made.node.say(ID, "8", "secret");
  await until(made.clock, "the message", () => texts(session).length === 1);
  const fault = fail(t, "getAll");
  made.node.event(ID, { recalled: { seq: "1", userId: "8" } });
  await until(made.clock, "recalled", () => fault.isDone && texts(session).join() === ",");
  await session.close();
  const again = await open(made);
  assert.deepEqual(texts(again), ["", ""]);
});

test("storage_that_fails_at_the_start_is_opened_again", async (t) => {
  const made = browser(t);
  made.node.say(ID, "8", "one");
  const fault = fail(t, "getAllKeys");
  const session = await open(made);
  assert.deepEqual([fault.isDone, texts(session), session.getSnapshot().storage], [true, ["one"], "kept"]);
});

test("storage_that_fails_while_leading_begins_is_opened_again", async (t) => {
  const made = browser(t);
  const session = await open(made);
  const other = made.tab();
  await until(made.clock, "a follower", () => other.getSnapshot().status === "live");
  const fault = fail(t, "put", 2);
  await session.close();
  await until(made.clock, "the other leads", () => fault.isDone && made.node.hellos().length > 1);
  await other.open(ID);
  await other.send(ID, "hi");
  await until(made.clock, "sent", () => texts(other).join() === "hi");
});

test("conversation_that_cannot_be_read_is_shown_later", async (t) => {
  const made = browser(t);
  made.node.say(ID, "8", "one");
  const first = await open(made);
  await first.close();
  const session = made.tab();
  await until(made.clock, "live", () => session.getSnapshot().status === "live");
  fail(t, "getAll");
  await session.open(ID);
  await until(made.clock, "the message", () => texts(session).join() === "one");
});

test("listener_of_frames_that_throws_loses_no_message", async (t) => {
  const made = browser(t);
  const thrown: unknown[] = [];
  const real = globalThis.queueMicrotask;
  t.after(() => void (globalThis.queueMicrotask = real));
  globalThis.queueMicrotask = (run) => void Promise.resolve().then(run).catch((error: unknown) => thrown.push(error));
  const session = await open(made, {
    onFrame: ({ message }) => {
      if (message) throw new Error("the page has a defect");
    },
  });
  made.node.say(ID, "8", "one");
  await until(made.clock, "the message", () => texts(session).join() === "one");
  assert.deepEqual([thrown.length, made.node.hellos().length], [1, 1]);
});

test("page_that_cannot_hear_a_write_does_not_stop_the_next", async (t) => {
  const made = browser(t);
  const session = await open(made);
  const real = BroadcastChannel.prototype.postMessage;
  t.after(() => void (BroadcastChannel.prototype.postMessage = real));
  BroadcastChannel.prototype.postMessage = function (said) {
    if (!said.patch) return real.call(this, said);
    BroadcastChannel.prototype.postMessage = real;
    throw new Error("the channel is closed");
  };
  made.node.say(ID, "8", "one");
  await until(made.clock, "the first", () => texts(session).length === 1 && BroadcastChannel.prototype.postMessage === real);
  made.node.say(ID, "8", "two");
  await until(made.clock, "the second", () => texts(session).length === 2 && session.getSnapshot().status === "live");
  await session.close();
  made.node.isUp = false;
  const again = made.tab();
  void again.open(ID);
  await until(made.clock, "both are kept", () => texts(again).join() === "one,two");
});

test("settings_that_changed_before_a_cut_are_read_after_it", async (t) => {
  const made = browser(t);
  made.node.say(ID, "8", "one");
  const session = await open(made);
  await made.clock.pass(1000);
  const { conversation } = made.node;
  made.node.conversation = (id) => ({ ...conversation.call(made.node, id), pinned: true });
  made.node.push({ note: { dialog: { conversationId: ID } }, cursor: "c1" });
  await made.clock.pass(10);
  made.node.isUp = false;
  made.node.close(1001);
  await made.clock.pass(2000);
  made.node.isUp = true;
  await until(made.clock, "pinned", () => conversationOf(session, ID).pinned);
});

test("address_that_no_socket_takes_is_shown_as_failed", async (t) => {
  const made = browser(t);
  const refusing = function (): void {
    throw new Error("no such address");
  };
  const session = made.tab({ environment: { webSocket: refusing as never } });
  await until(made.clock, "failed", () => session.getSnapshot().status === "failed");
  assert.equal(session.getSnapshot().problem?.message, "Error: no such address");
});

test("defect_at_the_start_is_shown_as_failed", async (t) => {
  const made = browser(t);
  const onWake = (): never => {
    throw new Error("no events");
  };
  const session = made.tab({ environment: { onWake } });
  await until(made.clock, "failed", () => session.getSnapshot().status === "failed");
  assert.equal(session.getSnapshot().problem?.message, "Error: no events");
});
