/**
 * The client of Kith for Node: gRPC.
 *
 * @module
 */

import { readFileSync } from "node:fs";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { type Kith, kithOver } from "./client.js";
import type { KithOptions } from "./options.js";
import { Sessions } from "./sessions.js";

export * from "./exports.js";

/** Makes a client. Address and key come from `KITH_ADDR` and `KITH_API_KEY_FILE` if they are not given. */
export function connectKith(options: KithOptions = {}): Kith {
  const { KITH_ADDR, KITH_API_KEY_FILE } = process.env;
  const key = options.key ?? (KITH_API_KEY_FILE && !options.token ? readFileSync(KITH_API_KEY_FILE, "utf8").split("\n")[0]?.trim() : undefined);
  const address = options.address ?? KITH_ADDR ?? [];
  return kithOver({ ...options, address, ...(key && { key }) }, (baseUrl, interceptors) => createGrpcTransport({ baseUrl, interceptors, sessionManager: new Sessions(baseUrl) }));
}
