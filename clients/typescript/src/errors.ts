import { type DescMessage } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from "./gen/google/rpc/error_details_pb.js";
import type { KnownReason } from "./gen/reasons.js";

/** The reason of an error. Branch on it, never on the message. Newer nodes may have others. */
export type Reason = KnownReason | (string & {});

/** Errors of libraries and proxies after which it is unknown whether the node has answered. Connect calls a reset connection aborted. */
const LOST = new Set([Code.Unavailable, Code.Internal, Code.Unknown, Code.Canceled, Code.Aborted]);

/** A call that failed. */
export class KithError extends ConnectError {
  /** Empty if the error does not come from a node. */
  readonly reason: Reason;
  /** The field of the request, or the metadata, that is wrong. */
  readonly field: string | undefined;
  /** Of a write: `not_applied`, or `unknown` if it may have been applied. */
  readonly outcome: string | undefined;
  /** Until when the state lasts that forbids this. */
  readonly until: Date | undefined;
  /** How long to wait before the same call is repeated, if the node says so. */
  readonly retryAfterMs: number | undefined;

  constructor(from: ConnectError, code = from.code, outcome?: string) {
    super(from.rawMessage, code, from.metadata, undefined, from.cause ?? from);
    this.details = from.details;
    const info = from.findDetails(ErrorInfoSchema).find(({ domain }) => domain === "kith");
    const delay = from.findDetails(RetryInfoSchema)[0]?.retryDelay;
    this.reason = info?.reason ?? "";
    this.field = from.findDetails(BadRequestSchema)[0]?.fieldViolations[0]?.field;
    this.outcome = outcome ?? info?.metadata["outcome"];
    this.until = info?.metadata["until"] ? new Date(info.metadata["until"]) : undefined;
    this.retryAfterMs = delay && Number(delay.seconds) * 1000 + delay.nanos / 1e6;
    Object.setPrototypeOf(this, KithError.prototype);
  }

  static override [Symbol.hasInstance](value: unknown): boolean {
    return value instanceof Error && Object.getPrototypeOf(value) === KithError.prototype;
  }

  /** The error of a call. An answer that was lost is `Unavailable` with an unknown outcome, whatever a library calls it. */
  static of(error: unknown): KithError {
    if (error instanceof KithError) return error;
    const from = ConnectError.from(error, Code.Unavailable);
    const isOfNode = from.findDetails(ErrorInfoSchema).some(({ domain }) => domain === "kith");
    return !isOfNode && LOST.has(from.code) ? new KithError(from, Code.Unavailable, "unknown") : new KithError(from);
  }

  /** Whether the answer was lost: no node has refused the call. */
  get isLost(): boolean {
    return this.code === Code.Unavailable && !this.reason;
  }
}

/** A message of the contract. */
export type Schema = DescMessage;
