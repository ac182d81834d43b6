import type { KithOptions, UserToken } from "./options.js";

const RENEW_AT = 0.8;

/** The credential of a client: a key, a token that is renewed, or none. */
export class Credentials {
  #current: string | undefined;
  #renewAt = Infinity;
  #asking: Promise<string> | undefined;

  constructor(
    readonly options: Pick<KithOptions, "key" | "token">,
    readonly now: () => number = () => performance.now(),
  ) {}

  /** The value of `authorization`. */
  async header(): Promise<string | undefined> {
    const { key, token } = this.options;
    if (!token) return key && `Bearer ${key}`;
    const isDue = this.#current === undefined || this.now() >= this.#renewAt;
    return `Bearer ${isDue ? await this.#ask(token) : this.#current}`;
  }

  /** The node has refused a credential: the next call asks for another token. */
  refused(header: string | null): void {
    if (header === `Bearer ${this.#current}`) this.#current = undefined;
  }

  #ask(token: NonNullable<KithOptions["token"]>): Promise<string> {
    const ask = async (): Promise<string> => {
      try {
        const answer: string | UserToken = await token();
        const { token: text, expiresInMs = Infinity } = typeof answer === "string" ? { token: answer } : answer;
        this.#renewAt = this.now() + expiresInMs * RENEW_AT;
        return (this.#current = text.trim());
      } finally {
        this.#asking = undefined;
      }
    };
    return (this.#asking ??= ask());
  }
}
