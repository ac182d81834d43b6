/**
 * Connections of Node.
 *
 * @module
 */

import { Http2SessionManager } from "@connectrpc/connect-node";

/**
 * A connection to a node. A call that begins while an idle connection ends takes its listeners away, and Node
 * would end the process for the error that the connection then emits. The call itself opens another connection.
 */
export class Sessions extends Http2SessionManager {
  readonly #heard = new WeakSet<object>();

  override async request(...call: Parameters<Http2SessionManager["request"]>): ReturnType<Http2SessionManager["request"]> {
    const stream = await super.request(...call);
    const { session } = stream;
    if (session && !this.#heard.has(session)) {
      this.#heard.add(session);
      session.on("error", () => {});
    }
    return stream;
  }
}
