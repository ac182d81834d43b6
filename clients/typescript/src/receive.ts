// Events of a user, with a state that the caller stores with their effects.

import type { Transport } from "@connectrpc/connect";
import { Code } from "@connectrpc/connect";
import { KithError } from "./errors.js";
import { type Delivery, type Message, MessageService, type Missed, type ReceiveResponse } from "./gen/kith/message/v1/message_pb.js";
import { openStream } from "./stream.js";

const POSITIONS_MAX = 2000;
const PAUSE = 200;
const PAUSE_MAX = 10_000;

/** Where receiving continues. Store it with the effects of the batch that it came with: a cursor alone loses messages at a reset. */
export interface ReceiveState {
  readonly cursor: string;
  /** The highest number of each conversation that was handed out. */
  readonly positions: Readonly<Record<string, number>>;
}

/** What has come, in order. */
export interface ReceiveBatch {
  /** Each message once, by rising number in a conversation. */
  readonly messages: readonly Message[];
  /** Notes, signals, totals of notices, `live`. */
  readonly others: readonly Delivery[];
  /** Messages that are not sent: pull them. */
  readonly missed: readonly Missed[];
  readonly state: ReceiveState;
}

/** How a user receives. */
export interface ReceiveOptions {
  userId: bigint | number;
  /** Of the last batch that was stored. Without it receiving begins now. */
  state?: ReceiveState;
  /** The user is online with this device. */
  device?: string;
  noticeAudiences?: number[];
  signal?: AbortSignal;
  /** The stream could not continue: it begins again after the positions. */
  onReset?: () => void;
  onMissed?: (missed: Missed) => void;
  /** The first pause before the stream is opened again. */
  pauseMs?: number;
}

/** Receives for ever: the stream is opened again after each loss. Ends by an error that lasts, or by `signal`. */
export async function* receive(transport: Transport, options: ReceiveOptions): AsyncGenerator<ReceiveBatch> {
  const { userId, device = "", noticeAudiences = [], signal, onReset, onMissed } = options;
  let { cursor, positions } = options.state ?? { cursor: "", positions: {} };
  for (let losses = 0; !signal?.aborted; ) {
    const known = Object.entries(positions).slice(-POSITIONS_MAX);
    const start = { cursor, positions: known.map(([conversationId, seq]) => ({ conversationId, seq: BigInt(seq) })), now: !cursor && !known.length };
    try {
      for await (const response of openStream(transport, MessageService.method.receive, { userId: BigInt(userId), device, noticeAudiences, ...start }, signal)) {
        losses = 0;
        const isReset = response.deliveries.some(({ what }) => what.case === "reset");
        if (isReset) {
          cursor = "";
          onReset?.();
        } else cursor = response.cursor || cursor;
        const taken = take(response, positions);
        positions = taken.positions;
        for (const one of taken.missed) onMissed?.(one);
        yield { ...taken, state: { cursor, positions } };
      }
    } catch (error) {
      if (signal?.aborted) return;
      const failed = KithError.of(error);
      const isRefused = failed.reason === "CREDENTIALS_REFUSED" && losses === 0;
      if (!isRefused && failed.code !== Code.Unavailable && failed.retryAfterMs === undefined) throw failed;
      const backoff = Math.min(PAUSE_MAX, (options.pauseMs ?? PAUSE) * 2 ** losses++);
      await new Promise((resolve) => setTimeout(resolve, Math.max(failed.retryAfterMs ?? 0, backoff) * (1 + Math.random() / 2)));
    }
  }
}

// Drops by number what was handed out before.
function take({ deliveries }: ReceiveResponse, before: ReceiveState["positions"]): Omit<ReceiveBatch, "state"> & Pick<ReceiveState, "positions"> {
  const [messages, others, missed]: [Message[], Delivery[], Missed[]] = [[], [], []];
  const positions = { ...before };
  const reach = (id: string, seq: bigint): void => void (positions[id] = Math.max(positions[id] ?? 0, Number(seq)));
  for (const delivery of deliveries) {
    const { what } = delivery;
    if (what.case === "message") {
      if (Number(what.value.seq) <= (positions[what.value.conversationId] ?? 0)) continue;
      messages.push(what.value);
      reach(what.value.conversationId, what.value.seq);
    } else if (what.case === "missed") {
      missed.push(what.value);
      reach(what.value.conversationId, what.value.toSeq);
    } else if (what.case !== "reset") others.push(delivery);
  }
  return { messages, others, missed, positions };
}
