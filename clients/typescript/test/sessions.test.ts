import assert from "node:assert/strict";
import { once } from "node:events";
import { type ServerHttp2Session, createServer } from "node:http2";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { Sessions } from "../src/sessions.js";

test("call_that_begins_while_a_connection_ends_opens_another", async () => {
  const server = createServer((_request, response) => response.end());
  const connected: ServerHttp2Session[] = [];
  server.on("session", (session) => connected.push(session)).listen(0, "127.0.0.1");
  await once(server, "listening");
  const sessions = new Sessions(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  const call = async () => {
    const stream = await sessions.request("GET", "/", {}, {});
    const closed = once(stream.resume(), "close");
    return { session: stream.session, closed };
  };
  const first = await call();
  await first.closed;
  const second = new Promise<Awaited<ReturnType<typeof call>>>((resolve) => first.session?.once("goaway", () => resolve(call())));
  connected[0]?.goaway(0);
  await (await second).closed;
  assert.equal(connected.length, 2);
  sessions.abort();
  server.close();
});
