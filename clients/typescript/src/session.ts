const TEXTS_MAX = 4;
const NAME = "kith-session";

/** What one user has seen and written: later reads are at least as fresh, on every node. */
export class SessionTexts {
  #texts: readonly string[];

  constructor(exported = "") {
    this.#texts = exported.split(",").filter(Boolean);
  }

  /** Adds the texts to a call. An empty one asks for the first. */
  stamp(header: Headers): readonly string[] {
    const texts = this.#texts.slice(-TEXTS_MAX);
    header.set(NAME, texts.join(", "));
    return texts;
  }

  /** Takes the text of an answer, which covers what the call carried. */
  take(carried: readonly string[], ...headers: readonly Headers[]): void {
    const text = headers.map((header) => header.get(NAME)).find(Boolean);
    if (text) this.#texts = [...this.#texts.filter((one) => !carried.includes(one)), text];
  }

  /** One text for a cookie. */
  export(): string {
    return this.#texts.slice(-TEXTS_MAX).join(",");
  }
}
