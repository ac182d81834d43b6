import assert from "node:assert/strict";
import { test } from "node:test";
import { type DescMethod, type DescMethodUnary, create } from "@bufbuild/protobuf";
import { DurationSchema } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, type ConnectRouter, type HandlerContext, createRouterTransport } from "@connectrpc/connect";
import { type Kith, kithOver } from "../src/client.js";
import { Credentials } from "../src/credentials.js";
import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from "../src/gen/google/rpc/error_details_pb.js";
import { MessageService } from "../src/gen/kith/message/v1/message_pb.js";
import { RelationService } from "../src/gen/kith/relation/v1/relation_pb.js";
import { UserService } from "../src/gen/kith/user/v1/user_pb.js";
import { prepared } from "../src/interceptor.js";
import { KithError, type KithOptions, connectKith } from "../src/node.js";
import { addressesOf } from "../src/options.js";
import * as services from "../src/gen/services.js";

function client(routes: (router: ConnectRouter) => void, options: KithOptions = {}): Kith {
  return kithOver({ address: "127.0.0.1:7600", pauseMs: 1, ...options }, (_url, interceptors) => createRouterTransport(routes, { transport: { interceptors } }));
}

function refusal(code: Code, reason: string, more: { retryMs?: number; metadata?: Record<string, string>; field?: string } = {}): ConnectError {
  const details = [
    { desc: ErrorInfoSchema, value: { domain: "kith", reason, metadata: more.metadata ?? {} } },
    ...(more.retryMs === undefined ? [] : [{ desc: RetryInfoSchema, value: { retryDelay: create(DurationSchema, { nanos: more.retryMs * 1e6 }) } }]),
    ...(more.field ? [{ desc: BadRequestSchema, value: { fieldViolations: [{ field: more.field }] } }] : []),
  ];
  return new ConnectError(reason, code, undefined, details as never);
}

const failure = (work: Promise<unknown>): Promise<KithError> => work.then(() => assert.fail("there was no error"), (error: KithError) => error);

test("write_is_repeated_with_the_same_id", async () => {
  const ids: string[] = [];
  const kith = client((router) =>
    router.rpc(RelationService.method.follow, ({ requestId }) => {
      ids.push(requestId);
      if (ids.length < 3) throw ids.length === 1 ? new ConnectError("lost", Code.Internal) : refusal(Code.Unavailable, "STORE_UNAVAILABLE", { retryMs: 2, metadata: { outcome: "unknown" } });
      return {};
    }),
  );
  const request = { userId: 7n, targetId: 8n };
  await kith.service(RelationService).follow(request);
  assert.equal(new Set(ids).size, 1);
  assert.ok(ids[0]);
  await kith.service(RelationService).follow(request);
  assert.equal(new Set(ids).size, 2);
});

test("only_calls_with_another_effect_are_sent_once", () => {
  const methods = Object.values(services).flatMap((service): DescMethod[] => service.methods);
  const mayRepeat = (method: DescMethod, fields: object): boolean => prepared(method as DescMethodUnary, create(method.input, fields as never)).mayRepeat;
  const once = (fields: object): string[] => methods.filter((method) => method.methodKind === "unary" && !mayRepeat(method, fields)).map(({ name }) => name).toSorted();
  const always = ["FlushMemory", "ReserveSeqs", "Resync", "SendSignal", "SetLogFilter", "StartEpoch", "VerifySecret", "VerifySecret"];
  assert.deepEqual(once({}), always);
  assert.deepEqual(once({ again: true }), ["EraseUserMessages", ...always]);
});

test("batch_of_messages_gets_ids_and_the_callers_request_stays", async () => {
  let ids: string[] = [];
  const kith = client((router) =>
    router.rpc(MessageService.method.batchSend, ({ messages }) => {
      ids = messages.map(({ clientMessageId }) => clientMessageId);
      return {};
    }),
  );
  const request = { messages: [{ contentType: "a" }, { contentType: "b" }] };
  await kith.service(MessageService).batchSend(request);
  assert.equal(new Set(ids.filter(Boolean)).size, 2);
  assert.deepEqual(request, { messages: [{ contentType: "a" }, { contentType: "b" }] });
});

test("what_may_not_be_repeated_is_not", async () => {
  let tries = 0;
  const kith = client((router) => {
    const away = (): never => {
      tries++;
      throw refusal(Code.Unavailable, "STORE_UNAVAILABLE", { retryMs: 1 });
    };
    router.rpc(UserService.method.verifySecret, away);
    router.rpc(MessageService.method.sendSignal, away);
    router.rpc(MessageService.method.eraseUserMessages, away);
    router.rpc(UserService.method.batchGetUsers, () => {
      tries++;
      throw refusal(Code.ResourceExhausted, "ANSWER_TOO_LARGE", { retryMs: 1 });
    });
  });
  await failure(kith.service(UserService).verifySecret({ userId: 7n }));
  await failure(kith.service(MessageService).sendSignal({}));
  await failure(kith.service(MessageService).eraseUserMessages({ again: true }));
  await failure(kith.service(UserService).batchGetUsers({}));
  assert.equal(tries, 4);
});

test("budget_ends_retries", async () => {
  let tries = 0;
  const kith = client((router) =>
    router.rpc(UserService.method.getUser, () => {
      tries++;
      throw refusal(Code.ResourceExhausted, "OVERLOADED", { retryMs: 0 });
    }), { pauseMs: 0, deadlineMs: 4000 });
  await failure(kith.service(UserService).getUser({ userId: 7n }));
  assert.equal(tries, 101);
});

test("deadline_is_over_all_tries_and_streams_have_none", async () => {
  const timeouts: (string | null)[] = [];
  const kith = client((router) => {
    router.rpc(UserService.method.getUser, (_request, { requestHeader }: HandlerContext) => {
      timeouts.push(requestHeader.get("grpc-timeout") ?? requestHeader.get("connect-timeout-ms"));
      throw refusal(Code.Unavailable, "STARTING", { retryMs: 40 });
    });
    router.rpc(MessageService.method.receive, async function* (_request, { requestHeader }: HandlerContext) {
      timeouts.push(requestHeader.get("grpc-timeout"));
      yield {};
    });
  }, { deadlineMs: 150 });
  const begun = performance.now();
  const error = await failure(kith.service(UserService).getUser({ userId: 7n }));
  assert.ok(performance.now() - begun < 1000);
  assert.ok([Code.Unavailable, Code.DeadlineExceeded].includes(error.code));
  assert.ok(timeouts.length < 6, String(timeouts));
  for await (const _batch of kith.receive({ userId: 7 })) break;
  assert.equal(timeouts.at(-1), null);
});

test("error_has_reason_field_until_and_delay", async () => {
  const kith = client((router) =>
    router.rpc(UserService.method.verifySecret, () => {
      throw refusal(Code.InvalidArgument, "INVALID_FIELD", { field: "user_id", retryMs: 7, metadata: { until: "2026-01-01T00:00:00Z", outcome: "not_applied" } });
    }),
  );
  const error = await failure(kith.service(UserService).verifySecret({}));
  assert.ok(error instanceof KithError && error instanceof ConnectError);
  assert.deepEqual([error.code, error.reason, error.field, error.until?.getUTCFullYear(), error.outcome, error.retryAfterMs], [Code.InvalidArgument, "INVALID_FIELD", "user_id", 2026, "not_applied", 7]);
  assert.equal(new ConnectError("x") instanceof KithError, false);
});

test("reset_connection_is_a_lost_answer", async () => {
  let tries = 0;
  const kith = client((router) =>
    router.rpc(RelationService.method.follow, () => {
      if (tries++ === 0) throw new ConnectError("read ECONNRESET", Code.Aborted);
      return {};
    }),
  );
  await kith.service(RelationService).follow({ userId: 7n, targetId: 8n });
  assert.equal(tries, 2);
});

test("refused_connection_is_unavailable", async () => {
  const kith = connectKith({ address: "127.0.0.1:1", deadlineMs: 2000, pauseMs: 5000 });
  const error = await failure(kith.service(UserService).getUser({ userId: 7n }));
  assert.deepEqual([error.code, error.outcome, error.isLost], [Code.Unavailable, "unknown", true]);
});

test("token_is_asked_once_at_a_time_and_renewed_at_four_fifths", async () => {
  let [asked, now] = [0, 0];
  const credentials = new Credentials({ token: async () => ({ token: `t${++asked}`, expiresInMs: 1000 }) }, () => now);
  assert.deepEqual(await Promise.all([credentials.header(), credentials.header()]), ["Bearer t1", "Bearer t1"]);
  now = 799;
  assert.equal(await credentials.header(), "Bearer t1");
  now = 800;
  assert.equal(await credentials.header(), "Bearer t2");
  credentials.refused("Bearer t1");
  assert.equal(await credentials.header(), "Bearer t2");
  credentials.refused("Bearer t2");
  assert.equal(await credentials.header(), "Bearer t3");
});

test("session_carries_the_last_text_also_of_errors", async () => {
  const carried: (string | null)[] = [];
  const kith = client((router) =>
    router.rpc(UserService.method.getUser, ({ userId }, { requestHeader, responseHeader }: HandlerContext) => {
      carried.push(requestHeader.get("kith-session"));
      if (userId === 0n) throw Object.assign(refusal(Code.NotFound, "NOT_FOUND"), { metadata: new Headers({ "kith-session": "s2" }) });
      responseHeader.set("kith-session", `s${userId}`);
      return {};
    }),
  );
  const session = kith.session();
  await session.service(UserService).getUser({ userId: 1n });
  await failure(session.service(UserService).getUser({ userId: 0n }));
  await session.as(7).service(UserService).getUser({ userId: 3n });
  await kith.session(session.export()).service(UserService).getUser({ userId: 4n });
  await kith.service(UserService).getUser({ userId: 5n });
  assert.deepEqual(carried, ["", "s1", "s2", "s3", null]);
});

test("older_node_is_named_once", async () => {
  const warnings: string[] = [];
  let contract = "2";
  const kith = client((router) =>
    router.rpc(UserService.method.getUser, (_request, { responseHeader }: HandlerContext) => {
      responseHeader.set("kith-contract", contract);
      return {};
    }), { contract: 2, onWarning: (warning) => warnings.push(warning) });
  for (const next of ["1", "1", "1"]) {
    await kith.service(UserService).getUser({});
    contract = next;
  }
  assert.equal(warnings.length, 1);
});

test("history_is_paged_by_numbers", async () => {
  const kith = client((router) => {
    router.rpc(MessageService.method.history, ({ beforeSeq }) => {
      const first = beforeSeq ? beforeSeq - 1n : 5n;
      return { messages: [{ seq: first }, { seq: first - 1n }].filter(({ seq }) => seq > 0n), more: first > 2n };
    });
    router.rpc(MessageService.method.pullMessages, ({ fromSeq }) => ({ messages: [{ seq: fromSeq || 1n }], more: fromSeq < 3n }));
  });
  const seqs = async (items: AsyncIterable<{ seq: bigint }>): Promise<number[]> => {
    const all: number[] = [];
    for await (const { seq } of items) all.push(Number(seq));
    return all;
  };
  assert.deepEqual(await seqs(kith.pages(MessageService.method.history, { conversationId: "g9" })), [5, 4, 3, 2, 1]);
  assert.deepEqual(await seqs(kith.pages(MessageService.method.pullMessages, { conversationId: "g9" })), [1, 2, 3]);
});

test("batch_is_split_and_asks_again_for_what_was_too_large", async () => {
  const sizes: number[] = [];
  const kith = client((router) =>
    router.rpc(UserService.method.batchGetUsers, ({ userIds }) => {
      sizes.push(userIds.length);
      const large = { case: "error" as const, value: { reason: "ANSWER_TOO_LARGE" } };
      return { results: userIds.map((userId, at) => ({ userId, result: at < 600 ? { case: "user" as const, value: { userId } } : large })) };
    }),
  );
  const userIds = Array.from({ length: 1500 }, (_, at) => BigInt(at + 1));
  const { results } = await kith.batch(UserService.method.batchGetUsers, { userIds });
  assert.deepEqual(results.map(({ result }) => result.case === "user" && result.value.userId), userIds);
  assert.deepEqual(sizes, [1000, 400, 500]);
});

test("export_continues_after_a_lost_stream", async () => {
  const begins: bigint[] = [];
  const kith = client((router) =>
    router.rpc(UserService.method.exportUsers, async function* ({ afterUserId }) {
      begins.push(afterUserId);
      yield { users: [{ userId: afterUserId + 1n }] };
      if (begins.length < 3) throw new ConnectError("lost", Code.Unavailable);
    }),
  );
  const ids: bigint[] = [];
  for await (const { userId } of kith.pages(UserService.method.exportUsers, {})) ids.push(userId);
  assert.deepEqual([ids, begins], [[1n, 2n, 3n], [0n, 1n, 2n]]);
});

test("receive_goes_on_after_a_loss_and_hands_out_what_was_missed", async () => {
  const starts: unknown[] = [];
  const kith = client((router) =>
    router.rpc(MessageService.method.receive, async function* ({ cursor, positions, now }) {
      starts.push([cursor, positions.map(({ conversationId, seq }) => `${conversationId}/${seq}`), now]);
      const message = (seq: bigint) => ({ what: { case: "message" as const, value: { conversationId: "d7-8", seq } } });
      if (starts.length === 1) {
        yield { deliveries: [message(1n)], cursor: "c1" };
        throw refusal(Code.Unavailable, "STOPPING", { retryMs: 1 });
      }
      yield { deliveries: [message(1n), message(2n), { what: { case: "missed" as const, value: { conversationId: "g9", fromSeq: 1n, toSeq: 20n } } }], cursor: "c2" };
    }),
  );
  const got: unknown[] = [];
  for await (const { messages, missed, state } of kith.receive({ userId: 7 })) {
    got.push(...messages.map(({ seq }) => Number(seq)), ...missed.map(({ toSeq }) => `missed ${toSeq}`));
    if (missed.length) {
      assert.deepEqual(state, { cursor: "c2", positions: { "d7-8": 2, g9: 20 } });
      break;
    }
  }
  assert.deepEqual(got, [1, 2, "missed 20"]);
  assert.deepEqual(starts, [["", [], true], ["c1", ["d7-8/1"], false]]);
});

test("credential_is_not_sent_in_plaintext_to_another_machine", () => {
  assert.deepEqual(addressesOf({ address: ["127.0.0.1:7600", "kith.example:7600"] }), ["http://127.0.0.1:7600", "https://kith.example:7600"]);
  assert.throws(() => addressesOf({ address: "http://kith.example", key: "k" }), TypeError);
  assert.deepEqual(addressesOf({ address: "http://kith.example", key: "k", insecure: true }), ["http://kith.example"]);
  assert.throws(() => addressesOf({}), TypeError);
});
