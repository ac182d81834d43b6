/**
 * The client of Kith for browsers: gRPC-Web.
 *
 * @module
 */

import { createGrpcWebTransport } from "@connectrpc/connect-web";
import { type Kith, kithOver } from "./client.js";
import type { KithOptions } from "./options.js";

export * from "./exports.js";

/** Makes a client. Without an address it calls the origin of the page. Give a browser the token of its user, never a key. */
export function connectKith(options: KithOptions = {}): Kith {
  const address = options.address ?? globalThis.location.origin;
  return kithOver({ ...options, address }, (baseUrl, interceptors) => createGrpcWebTransport({ baseUrl, interceptors }));
}
