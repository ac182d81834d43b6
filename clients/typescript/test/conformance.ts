// Plays the cases of clients/conformance against the node of the script: `node conformance.js PROGRAM FOLDER [NAME]`.
import "fake-indexeddb/auto";
import { spawn } from "node:child_process";
import { isDeepStrictEqual } from "node:util";
import { type DescMessage, type DescMethod, type DescService, type JsonValue, type MessageShape, fromJson, toJson } from "@bufbuild/protobuf";
import { Code } from "@connectrpc/connect";
import { IDBFactory } from "fake-indexeddb";
import WebSocket from "ws";
import { type ChatSession, openChat, textOf } from "../src/chat/index.js";
import * as services from "../src/gen/services.js";
import { type Kith, KithError, type KithOptions, connectKith } from "../src/node.js";

type Json = Record<string, any>;

function methodOf(name: string): DescMethod {
  const [service, method] = name.split("/");
  const found = (Object.values(services) as DescService[]).find(({ typeName }) => typeName === service)?.methods.find((one) => one.name === method);
  if (!found) throw new Error(`no method ${name}`);
  return found;
}

const jsonOf = (schema: DescMessage, message: unknown): JsonValue => toJson(schema, message as MessageShape<DescMessage>);
const sameAs = (schema: DescMessage, answer: JsonValue): JsonValue => jsonOf(schema, fromJson(schema, answer));

class Failed extends Error {}
function want(what: string, got: unknown, wanted: unknown): void {
  if (!isDeepStrictEqual(got, wanted)) throw new Failed(`${what}: ${JSON.stringify(got)}, not ${JSON.stringify(wanted)}`);
}

class Run {
  readonly sessions = new Map<string, Kith>();
  readonly exported = new Map<string, string>();
  readonly stored = new IDBFactory();
  chat: ChatSession | undefined;
  tokensAsked = 0;
  warned = 0;
  readonly kith: Kith;

  constructor(readonly address: string, readonly client: Json) {
    this.kith = connectKith(this.options());
  }

  token = async (): Promise<{ token: string; expiresInMs: number }> => {
    const { token, expires_in_ms } = this.client["tokens"][Math.min(this.tokensAsked++, this.client["tokens"].length - 1)];
    return { token, expiresInMs: expires_in_ms };
  };

  options(): KithOptions {
    const { key = "script-key", tokens, deadline_ms: deadlineMs, pause_ms: pauseMs = 1, contract } = this.client;
    const onWarning = (): void => void this.warned++;
    return { address: this.address, pauseMs, onWarning, ...(tokens ? { token: this.token } : { key }), ...(deadlineMs && { deadlineMs }), ...(contract && { contract }) };
  }

  of(step: Json): Kith {
    const name = step["session"];
    if (name && !this.sessions.has(name)) this.sessions.set(name, this.kith.session());
    const kith = name ? (this.sessions.get(name) as Kith) : this.kith;
    const user = step["acting_user"] ?? this.client["acting_user"];
    return user ? kith.as(user) : kith;
  }

  async step(step: Json): Promise<void> {
    const [kith, wanted] = [this.of(step), step["error"]];
    const done = this.#carriedOut(step, kith);
    if (!wanted) return await done;
    const error = await done.then(() => undefined, (failed: unknown) => failed);
    if (!(error instanceof KithError)) throw error ?? new Failed("there was no error");
    const code = Code[error.code]?.replace(/(?<=.)[A-Z]/g, (letter) => `_${letter}`).toLowerCase();
    const got: Json = { code, reason: error.reason, field: error.field, outcome: error.outcome, until: error.until?.toISOString().replace(".000", ""), retry_ms: error.retryAfterMs };
    want("error", Object.fromEntries(Object.keys(wanted).map((key) => [key, got[key]])), wanted);
  }

  async #carriedOut(step: Json, kith: Kith): Promise<void> {
    if (step["chat"]) return await this.#chat(step);
    if (step["together"]) return void (await Promise.all((step["together"] as Json[]).map((one) => this.step(one))));
    if (step["wait_ms"]) return await new Promise((resolve) => setTimeout(resolve, step["wait_ms"]));
    const counted: Json = { tokens_asked: this.tokensAsked, warned: this.warned };
    for (const name of Object.keys(counted)) if (name in step) return want(name, counted[name], step[name]);
    if (step["export"]) return void this.exported.set(step["export"], this.sessions.get(step["export"])?.export() ?? "");
    if (step["import"]) return void this.sessions.set(step["import"], this.kith.session(this.exported.get(step["of"])));
    if (step["receive"]) return await this.#receive(step, kith);
    const method = methodOf(step["call"] ?? step["stream"] ?? step["pages"] ?? step["batch"]) as any;
    const request = fromJson(method.input, step["request"] ?? {});
    const options = step["deadline_ms"] ? { timeoutMs: step["deadline_ms"] } : {};
    if (step["call"]) {
      const answer = await (kith.service(method.parent) as any)[method.localName](request, options);
      if (step["answer"]) want("answer", jsonOf(method.output, answer), sameAs(method.output, step["answer"]));
    } else if (step["batch"]) want("answer", jsonOf(method.output, await kith.batch(method, request)), sameAs(method.output, step["answer"]));
    else {
      const got: unknown[] = [];
      const list = method.output.fields.find(({ fieldKind }: Json) => fieldKind === "list");
      const items = step["pages"] ? kith.pages(method, request) : (kith.service(method.parent) as any)[method.localName](request);
      try {
        for await (const item of items) if (got.push(step["stream"] ? jsonOf(method.output, item) : list.message ? jsonOf(list.message, item) : String(item)) === step["take"]) break;
      } finally {
        const wanted = (step["answers"] ?? step["items"] ?? []).map((one: Json) => (step["stream"] ? sameAs(method.output, one) : list.message ? sameAs(list.message, one) : String(one)));
        want("items", got, wanted);
      }
    }
  }

  async #receive(step: Json, kith: Kith): Promise<void> {
    const [messages, missed]: [string[], string[]] = [[], []];
    let [resets, end]: [number, unknown] = [0, undefined];
    const all = (): boolean => messages.length >= (step["messages"] ?? []).length && missed.length >= (step["missed"] ?? []).length && resets >= (step["resets"] ?? 0);
    const [signal, onReset] = [AbortSignal.timeout(5000), (): void => void resets++];
    try {
      for await (const batch of kith.receive({ userId: step["receive"].userId, ...(step["state"] && { state: { cursor: "", positions: {}, ...step["state"] } }), onReset, signal })) {
        messages.push(...batch.messages.map(({ conversationId, seq }) => `${conversationId}/${seq}`));
        missed.push(...batch.missed.map(({ conversationId, fromSeq, toSeq }) => `${conversationId}/${fromSeq}-${toSeq}`));
        end = batch.state;
        if (all() && !step["error"]) break;
      }
    } finally {
      want("received", { messages, missed, resets, end }, { messages: step["messages"] ?? [], missed: step["missed"] ?? [], resets: step["resets"] ?? 0, end: step["end"] ?? end });
    }
  }

  async #chat(step: Json): Promise<void> {
    if (step["chat"] === "open") {
      // A reload begins another page: its sign-in has the same token.
      this.tokensAsked = 0;
      const token = this.client["tokens"] && { token: async () => (await this.token()).token };
      this.chat = openChat({ url: `http://${this.address}`, user: "7", ...token, environment: { webSocket: WebSocket as any, indexedDB: this.stored, locks: undefined } });
    } else if (step["chat"] === "close") await this.chat?.close();
    else if (step["chat"] === "send") await this.chat?.send(step["conversation"], step["text"]);
    else if (step["chat"] === "seen") this.chat?.seen(step["conversation"], step["seq"]);
    else await this.#until(step);
  }

  async #until({ chat: _chat, ...wanted }: Json): Promise<void> {
    const chat = this.chat as ChatSession;
    for (const kind of ["messages", "sending", "failed"]) for (const id of Object.keys(wanted[kind] ?? {})) void chat.open(id);
    let got: Json = {};
    for (const ends = performance.now() + 5000; performance.now() < ends; await new Promise((resolve) => setTimeout(resolve, 10))) {
      const { status, conversations } = chat.getSnapshot();
      const by = (kind: string, of: (one: Json) => unknown): Json => Object.fromEntries(conversations.filter(({ id }) => id in (wanted[kind] ?? {})).map((one) => [one.id, of(one)]));
      const texts = (one: Json, failed: boolean): string[] => one["pending"].filter((entry: Json) => Boolean(entry["failed"]) === failed).map(textOf);
      const messages = by("messages", (one) => one["messages"].filter(({ kind, recall }: Json) => kind !== "MESSAGE_KIND_EVENT" && !recall).map((message: Json) => `${message["seq"]} ${textOf(message)}`));
      got = { state: { signedOut: "signed_out", offline: "connecting" }[status as string] ?? status, messages, sending: by("sending", (one) => texts(one, false)), failed: by("failed", (one) => texts(one, true)), unread: by("unread", (one) => one["unread"]) };
      got = Object.fromEntries(Object.keys(wanted).map((key) => [key, got[key]]));
      if (isDeepStrictEqual(got, wanted)) return;
    }
    want("wait", got, wanted);
  }
}

const [program = "", folder = "", only = ""] = process.argv.slice(2);
const script = spawn(program, [folder], { stdio: ["pipe", "pipe", "inherit"] });
const base = await new Promise<string>((resolve) => script.stdout.once("data", (line) => resolve(String(line).trim())));
const ask = async (path: string, method = "POST"): Promise<any> => (await fetch(`${base}${path}`, { method })).json();
const names = ((await ask("/cases", "GET")) as string[]).filter((name) => name.includes(only));
let failures = 0;
for (const name of names) {
  const { run, address, case: play } = await ask(`/begin/${name}`);
  const one = new Run(address, play.client ?? {});
  let problem = "";
  for (const step of play.steps) problem ||= await one.step(step).then(() => "", (error: unknown) => (error instanceof Failed ? error.message : String((error as Error).stack)));
  await one.chat?.close();
  const { wrong } = await ask(`/end/${run}`);
  if (!problem && !wrong.length) continue;
  failures++;
  console.log(`${name}: ${play.says}\n  ${[problem, ...wrong].filter(Boolean).join("\n  ")}`);
}
console.log(`${names.length - failures} of ${names.length} cases pass`);
script.stdin.end();
process.exit(failures || !names.length ? 1 : 0);
