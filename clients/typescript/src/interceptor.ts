// What the client does with every call: credentials, ids, deadlines, retries, sessions, versions.

import { type DescMethodUnary, type Message, clone } from "@bufbuild/protobuf";
import { MethodOptions_IdempotencyLevel as Idempotency } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, type Interceptor, type StreamRequest, type StreamResponse, type UnaryRequest, type UnaryResponse, createContextKey } from "@connectrpc/connect";
import { Credentials } from "./credentials.js";
import { KithError } from "./errors.js";
import { CONTRACT, type KithOptions } from "./options.js";
import type { SessionTexts } from "./session.js";

/** The session of a call. */
export const SESSION = createContextKey<SessionTexts | undefined>(undefined);

const DEADLINE = 5000;
const PAUSE = 100;
const PAUSE_MAX = 1000;
/** Retries that may be made at once; each answer earns a tenth of one. */
const BUDGET = 100;
const NOT_AGAIN = new Set(["ANSWER_TOO_LARGE", "MESSAGE_TOO_LARGE"]);

interface Prepared {
  message: Message & Record<string, unknown>;
  mayRepeat: boolean;
}

const withId = (into: Record<string, unknown>, field: string): boolean => (into[field] ||= crypto.randomUUID()) !== "";

/** Gives a write its id before the first try, so that every try is the same bytes. */
export function prepared(method: DescMethodUnary, message: Message): Prepared {
  const copy = clone(method.input, message) as Prepared["message"];
  const has = (field: string): boolean => field in method.input.field;
  if (has("requestId")) return { message: copy, mayRepeat: withId(copy, "requestId") };
  if (has("clientMessageId")) return { message: copy, mayRepeat: withId(copy, "clientMessageId") };
  if (method.name === "BatchSend") {
    for (const one of copy["messages"] as Record<string, unknown>[]) withId(one, "clientMessageId");
    return { message: copy, mayRepeat: true };
  }
  const mayRepeat = method.idempotency !== Idempotency.IDEMPOTENCY_UNKNOWN && copy["again"] !== true;
  return { message: copy, mayRepeat };
}

/** The one interceptor of a client. `addresses`: where the tries go, the next one after each loss. */
export function interceptor(options: KithOptions, addresses: readonly string[]): Interceptor {
  const calls = new Calls(options, addresses);
  return (next) => (req) => (req.stream ? calls.stream(req, next) : calls.unary(req, next));
}

type Next = (req: UnaryRequest | StreamRequest) => Promise<UnaryResponse | StreamResponse>;

class Calls {
  #budget = BUDGET;
  #at = 0;
  #hasWarned = false;
  readonly #credentials: Credentials;

  constructor(
    readonly options: KithOptions,
    readonly addresses: readonly string[],
  ) {
    this.#credentials = new Credentials(options);
  }

  async unary(req: UnaryRequest, next: Next): Promise<UnaryResponse> {
    const { message, mayRepeat } = prepared(req.method, req.message);
    const given = Number.parseInt(req.header.get("grpc-timeout") ?? "", 10);
    const ends = performance.now() + (Number.isNaN(given) ? (this.options.deadlineMs ?? DEADLINE) : given);
    const left = (): number => ends - performance.now();
    const signal = AbortSignal.any([req.signal, AbortSignal.timeout(Math.max(0, Math.ceil(left())))]);
    for (let [tries, hasRenewed] = [1, false]; ; tries++) {
      const header = new Headers(req.header);
      header.set("grpc-timeout", `${Math.max(1, Math.floor(left()))}m`);
      try {
        return (await this.#send({ ...req, message, header, signal } as UnaryRequest, next)) as UnaryResponse;
      } catch (error) {
        const failed = error as KithError;
        if (req.signal.aborted) throw failed;
        if (signal.aborted || left() <= 0) throw new KithError(new ConnectError("the deadline has passed", Code.DeadlineExceeded, failed.metadata, undefined, failed));
        if (failed.reason === "CREDENTIALS_REFUSED" && !hasRenewed && this.options.token) {
          hasRenewed = true;
          continue;
        }
        const wait = mayRepeat ? this.#wait(failed, tries) : Infinity;
        if (wait >= left()) throw failed;
        this.#budget--;
        await new Promise((resolve) => setTimeout(resolve, wait));
      }
    }
  }

  async stream(req: StreamRequest, next: Next): Promise<StreamResponse> {
    const response = (await this.#send(req, next)) as StreamResponse;
    const fail = (error: unknown): never => this.#failed(req, undefined, error);
    const read = async function* (messages: StreamResponse["message"]): AsyncGenerator<Message> {
      try {
        yield* messages;
      } catch (error) {
        fail(error);
      }
    };
    return { ...response, message: read(response.message) as StreamResponse["message"] };
  }

  /** One try. */
  async #send(req: UnaryRequest | StreamRequest, next: Next): Promise<UnaryResponse | StreamResponse> {
    const credential = await this.#credentials.header();
    if (credential) req.header.set("authorization", credential);
    const carried = req.contextValues.get(SESSION)?.stamp(req.header);
    const base = this.addresses[this.#at % this.addresses.length] ?? "";
    try {
      const response = await next({ ...req, url: base + new URL(req.url).pathname } as UnaryRequest);
      this.#heard(req, carried, response.header, response.trailer);
      this.#budget = Math.min(BUDGET, this.#budget + 0.1);
      return response;
    } catch (error) {
      return this.#failed(req, carried, error);
    }
  }

  // The next try goes to another node if this one is away, and with another token if this one was refused.
  #failed(req: UnaryRequest | StreamRequest, carried: readonly string[] | undefined, error: unknown): never {
    const failed = KithError.of(error);
    if (failed.reason) this.#heard(req, carried, failed.metadata);
    if (failed.isLost || failed.reason === "STOPPING") this.#at++;
    if (failed.reason === "CREDENTIALS_REFUSED") this.#credentials.refused(req.header.get("authorization"));
    throw failed;
  }

  #heard(req: UnaryRequest | StreamRequest, carried: readonly string[] | undefined, ...headers: Headers[]): void {
    if (carried) req.contextValues.get(SESSION)?.take(carried, ...headers);
    const { contract = CONTRACT, onWarning = (warning) => console.warn(warning) } = this.options;
    // The oldest nodes say no number.
    const theirs = headers.map((header) => header.get("kith-contract")).find(Boolean) ?? "0";
    if (this.#hasWarned || Number(theirs) >= contract) return;
    this.#hasWarned = true;
    onWarning(`the node has contract ${theirs}, older than ${contract} of this client: newer fields and calls do not work there`);
  }

  /** How long to wait before the next try; for ever: there is none. */
  #wait(failed: KithError, tries: number): number {
    const passes = failed.isLost || failed.retryAfterMs !== undefined || failed.code === Code.Unavailable;
    if (!passes || NOT_AGAIN.has(failed.reason) || this.#budget < 1) return Infinity;
    const backoff = Math.min(PAUSE_MAX, (this.options.pauseMs ?? PAUSE) * 2 ** (tries - 1));
    return Math.max(failed.retryAfterMs ?? 0, backoff) * (1 + Math.random() / 4);
  }
}
