// What the session needs of the browser, so that tests give it something else.

/** The browser as the session sees it. */
export type Environment = ReturnType<typeof browser>;

const TIMER_MAX = 2 ** 31 - 1;

function browser() {
  const { document, addEventListener } = globalThis as Partial<typeof globalThis>;
  return {
    webSocket: globalThis.WebSocket as new (url: string) => WebSocket,
    indexedDB: globalThis.indexedDB as IDBFactory | undefined,
    locks: globalThis.navigator?.locks as LockManager | undefined,
    broadcastChannel: globalThis.BroadcastChannel as (new (name: string) => BroadcastChannel) | undefined,
    /** Calls `run` after `ms`, and returns what cancels it. */
    after: (ms: number, run: () => void): (() => void) => {
      const timer = setTimeout(run, Math.min(ms, TIMER_MAX));
      return () => clearTimeout(timer);
    },
    /** The time of this device. It is compared with earlier times of this device alone. */
    now: (): number => Date.now(),
    random: (): number => Math.random(),
    /** Whether the user can see this tab. */
    isVisible: (): boolean => document?.visibilityState !== "hidden",
    /** Calls `run` when the tab becomes visible or the device is online again, until `over`. */
    onWake: (run: () => void, signal: AbortSignal): void => {
      addEventListener?.("online", run, { signal });
      document?.addEventListener("visibilitychange", () => document.visibilityState === "visible" && run(), { signal });
    },
  };
}

/** The environment of this tab, with what `replaced` has in its place. */
export const environmentOf = (replaced: Partial<Environment> = {}): Environment => ({ ...browser(), ...replaced });

/** Waits for this time. */
export const pause = (env: Pick<Environment, "after">, ms: number): Promise<void> => new Promise((resolve) => env.after(ms, resolve));

/** What waits for its time, by name. */
export class Timers {
  #cancels = new Map<string, () => void>();

  constructor(readonly env: Pick<Environment, "after">) {}

  /** Runs this later, in place of what waits under this name. */
  set(name: string, ms: number, run: () => void): void {
    this.cancel(name);
    const done = (): void => {
      this.#cancels.delete(name);
      run();
    };
    this.#cancels.set(name, this.env.after(ms, done));
  }

  /** Runs this later, unless something waits under this name: many calls are one run. Returns whether nothing did. */
  soon(name: string, ms: number, run: () => void): boolean {
    const isFirst = !this.#cancels.has(name);
    if (isFirst) this.set(name, ms, run);
    return isFirst;
  }

  cancel(name: string): void {
    this.#cancels.get(name)?.();
    this.#cancels.delete(name);
  }

  end(): void {
    for (const name of [...this.#cancels.keys()]) this.cancel(name);
  }
}
