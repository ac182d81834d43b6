// What programs use: services, users, sessions, lists, batches, events.

import type { DescMessage, DescMethodServerStreaming, DescMethodUnary, DescService, MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import { type Client, type Interceptor, type Transport, createClient, createContextValues } from "@connectrpc/connect";
import { SESSION, interceptor } from "./interceptor.js";
import { type KithOptions, addressesOf } from "./options.js";
import { type ItemOf, batch, pages, records } from "./pages.js";
import { type ReceiveBatch, type ReceiveOptions, receive } from "./receive.js";
import { SessionTexts } from "./session.js";

/** A client of Kith. Make one for a process: it has one connection. */
export class Kith {
  readonly #texts: SessionTexts | undefined;

  /** @internal */
  constructor(
    /** For `createClient` of Connect, and for what this class does not have. */
    readonly transport: Transport,
    readonly options: KithOptions,
    texts?: SessionTexts,
  ) {
    this.#texts = texts;
  }

  /** The client of a service: `kith.service(UserService).getUser({userId: 7n})`. */
  service<Service extends DescService>(service: Service): Client<Service> {
    return createClient(service, this.transport);
  }

  /** The same client, acting for a user. */
  as(userId: bigint | number): Kith {
    return new Kith(scoped(this.transport, { "kith-acting-user": String(userId) }), this.options, this.#texts);
  }

  /** A session of one user: its reads see what it has written and read before, on every node. `exported`: continues another one. */
  session(exported?: string): Kith {
    const texts = new SessionTexts(exported);
    return new Kith(scoped(this.transport, {}, texts), this.options, texts);
  }

  /** The text of a session, for a cookie. Empty without a session. */
  export(): string {
    return this.#texts?.export() ?? "";
  }

  /** All elements of a list, or records of an export: `for await (const follow of kith.pages(RelationService.method.listFollowing, {userId: 7n}))`. */
  pages<I extends DescMessage, O extends DescMessage>(method: DescMethodUnary<I, O> | DescMethodServerStreaming<I, O>, request: MessageInitShape<I>): AsyncGenerator<ItemOf<O>> {
    return method.methodKind === "unary" ? pages(this.transport, method, request) : records(this.transport, method, request);
  }

  /** A batch of any size, split as the node needs it. */
  batch<I extends DescMessage, O extends DescMessage>(method: DescMethodUnary<I, O>, request: MessageInitShape<I>): Promise<MessageShape<O>> {
    return batch(this.transport, method, request);
  }

  /** The events of a user, each message once, across lost streams and resets. */
  receive(options: ReceiveOptions): AsyncGenerator<ReceiveBatch> {
    return receive(this.transport, { ...(this.options.pauseMs !== undefined && { pauseMs: this.options.pauseMs }), ...options });
  }
}

/** Makes a client over a transport of Connect. */
export function kithOver(options: KithOptions, transport: (baseUrl: string, interceptors: Interceptor[]) => Transport): Kith {
  const addresses = addressesOf(options);
  return new Kith(transport(addresses[0] ?? "", [interceptor(options, addresses)]), options);
}

/** The transport with metadata, and the session, of one user. */
function scoped(base: Transport, metadata: Record<string, string>, texts?: SessionTexts): Transport {
  const headers = (header: HeadersInit | undefined): Headers => {
    const all = new Headers(header);
    for (const [name, value] of Object.entries(metadata)) if (!all.has(name)) all.set(name, value);
    return all;
  };
  const values = (given = createContextValues()): ReturnType<typeof createContextValues> => (texts ? given.set(SESSION, texts) : given);
  return {
    unary: (method, signal, timeoutMs, header, input, context) => base.unary(method, signal, timeoutMs, headers(header), input, values(context)),
    stream: (method, signal, timeoutMs, header, input, context) => base.stream(method, signal, timeoutMs, headers(header), input, values(context)),
  };
}
