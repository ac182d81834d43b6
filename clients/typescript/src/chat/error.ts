import type { ErrorJson } from "./frames.js";

const PASSING = new Set(["unavailable", "resource_exhausted", "deadline_exceeded"]);

/** A call of the socket that failed. Branch on `reason`, never on the message. */
export class ChatError extends Error {
  override readonly name = "ChatError";

  constructor(
    override readonly message: string,
    /** The code of gRPC in lower case, such as `permission_denied`. */
    readonly code: string,
    /** The reason of `docs/reference/errors.md`; `CLOSED` if no answer came. */
    readonly reason: string,
    /** How long to wait before the call is repeated, if the node says so. */
    readonly retryAfter?: number,
    /** Metadata of the error, such as `until` or `outcome`. */
    readonly metadata: Readonly<Record<string, string>> = {},
    /** The field of the request that is wrong. */
    readonly field?: string,
  ) {
    super(message);
  }

  /** Reads the error of a frame. */
  static of({ code = "unknown", reason = "", message = "", details = [] }: ErrorJson): ChatError {
    const detail = (name: string): Record<string, unknown> => details.find(({ type }) => type?.endsWith(name))?.debug ?? {};
    const { metadata = {} } = detail("rpc.ErrorInfo") as { metadata?: Record<string, string> };
    const { retryDelay } = detail("rpc.RetryInfo") as { retryDelay?: string };
    const { fieldViolations } = detail("rpc.BadRequest") as { fieldViolations?: { field?: string }[] };
    const wait = retryDelay === undefined ? undefined : Number.parseFloat(retryDelay) * 1000;
    return new ChatError(message, code, reason, wait, metadata, fieldViolations?.[0]?.field);
  }

  /** What was thrown, which is a defect if it is no error of a call. */
  static from(error: unknown): ChatError {
    return error instanceof ChatError ? error : new ChatError(String(error), "internal", "INTERNAL");
  }

  /** A call that got no answer: it may have been applied. */
  static closed(message = "there is no connection"): ChatError {
    return new ChatError(message, "unavailable", "CLOSED");
  }

  /** Whether the same call may succeed later. */
  get passes(): boolean {
    return PASSING.has(this.code) && (this.code !== "resource_exhausted" || this.retryAfter !== undefined || this.reason === "OVERLOADED");
  }
}

/** Runs what may fail without harm: it is asked again later. A defect is thrown, for the console of the page. */
export async function quietly(work: Promise<unknown>): Promise<void> {
  await work.catch((error: unknown) => {
    if (!(error instanceof ChatError)) throw error;
  });
}
