/** A token of a user. */
export interface UserToken {
  readonly token: string;
  /** How long it is valid from now on. It is renewed at 80 % of that. Unknown: after a refusal alone. */
  readonly expiresInMs?: number;
}

/** How a client is made. */
export interface KithOptions {
  /** One or more nodes: `https://kith.example`, or `host:port` (TLS, unless it is the loopback device). Default: `KITH_ADDR`. */
  address?: string | readonly string[];
  /** The key of a caller. Default: the first line of the file `KITH_API_KEY_FILE`. Browsers use `token`. */
  key?: string;
  /** Asks for a token of the user who calls. Runs once at a time. */
  token?: () => Promise<string | UserToken>;
  /** Allows keys and tokens to be sent to other machines without TLS. */
  insecure?: boolean;
  /** The deadline of a call over all tries. Streams have none. Default 5 s. */
  deadlineMs?: number;
  /** The first pause before a call is repeated, if the node does not say how long to wait. Default 100 ms. */
  pauseMs?: number;
  /** Is called once if the node is older than this client. Default: `console.warn`. */
  onWarning?: (warning: string) => void;
  /** The contract of this client. For tests. */
  contract?: number;
}

export { CONTRACT } from "./gen/contract.js";

const LOOPBACK = /^(localhost|127\.[0-9.]+|\[::1\])(:|$)/;

/** The base URLs of the nodes. Refuses addresses to which a credential would be sent in plaintext. */
export function addressesOf({ address, key, token, insecure }: KithOptions): string[] {
  const addresses = typeof address === "string" ? address.split(",") : (address ?? []);
  const urls = addresses.map((one) => one.trim()).filter(Boolean).map((one) => (one.includes("://") ? one : `${LOOPBACK.test(one) ? "http" : "https"}://${one}`));
  if (!urls.length) throw new TypeError("the address of a node is missing");
  const open = urls.find((url) => new URL(url).protocol === "http:" && !LOOPBACK.test(new URL(url).host));
  if (open && (key ?? token) && !insecure) throw new TypeError(`a credential is not sent to ${open} without TLS`);
  return urls.map((url) => url.replace(/\/$/, ""));
}
