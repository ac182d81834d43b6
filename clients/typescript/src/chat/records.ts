// What is kept of conversations, messages and people, on the device and in memory.

import type { ConversationJson, MessageJson, SendMessageRequestJson } from "../gen/kith/message/v1/message_pb.js";
import type { ChatError } from "./error.js";

/** Numbers from the first to the last one, both included. */
export type Range = readonly [number, number];

const RANGES_MAX = 500;

/** A message as the node sends it, with its number as a number. `isOld`: it was edited, and is read again when it is shown. */
export type ChatMessage = Omit<MessageJson, "seq" | "conversationId"> & { readonly conversationId: string; readonly seq: number; readonly isOld?: true };

/** What is known of a conversation, apart from its messages. */
export interface ConversationRecord {
  readonly id: string;
  /** The highest number that the client has, or knows as missing. */
  readonly maxSeq: number;
  /** The lowest number that the user may read. */
  readonly minSeq: number;
  /** The highest number that the user has marked. */
  readonly readSeq: number;
  /** Up to where the other user of a direct conversation has read. */
  readonly peerReadSeq: number;
  readonly unread: number;
  /** Whether there may be more unread messages than that. */
  readonly unreadMore: boolean;
  /** The lowest unread number that mentions the user; 0: none. */
  readonly mentionSeq: number;
  readonly pinned: boolean;
  readonly doNotDisturb: boolean;
  readonly markedUnread: boolean;
  /** Data of the product, base64. */
  readonly ext: string;
  readonly last: ChatMessage | undefined;
  /** Numbers whose messages are here, in order. What is between has not been sent; it is read when the user scrolls to it. */
  readonly here: readonly Range[];
  /** Ranges below `readSeq` that the user has not seen. */
  readonly skipped: readonly Range[];
}

/** Why something failed. */
export type Problem = Pick<ChatError, "reason" | "message">;

/** A message that the node has not acknowledged: what is sent, and what is shown of it. */
export interface OutboxEntry extends Required<Pick<SendMessageRequestJson, "clientMessageId" | "contentType" | "body" | "mentionIds" | "replyToSeq">> {
  readonly conversationId: string;
  /** The order of the entries of all tabs. */
  readonly order: number;
  /** When it was written, by the clock of this device. For showing alone. */
  readonly time: string;
  /** Why it was refused. Set: it is sent again only by `retry`. */
  readonly failed?: Problem;
}

/** How many users react to a message with a kind, and whether this user does. */
export interface Reaction {
  readonly kind: string;
  readonly count: number;
  readonly isMine: boolean;
}

/** A user (`u7`) or a group (`g9`) as lists show it. */
export interface Face {
  readonly name: string;
  /** The address of a picture; empty: none. */
  readonly icon: string;
  /** When it was read, by the clock of this device. */
  readonly time: number;
}

/**
 * Records that changed, by key; undefined: removed. They are written in one transaction and sent to the other tabs.
 * The first letter is the kind: `c:d7-8`, `f:u7`, `o:` and a client message id, `x:cursor`; messages are the last ones: `z:d7-8:0000000000000042`.
 */
export type Patch = Map<string, unknown>;

/** The key of a message. Keys have the order of the numbers. */
export const keyOf = (conversationId: string, seq: number | string): string => `z:${conversationId}:${String(seq).padStart(16, "0")}`;

/** The entries of a patch for messages. */
export const entriesOf = (messages: readonly ChatMessage[]): [string, ChatMessage][] =>
  messages.map((message) => [keyOf(message.conversationId, message.seq), message]);

/** A conversation of which nothing is known. */
export function unknownConversation(id: string): ConversationRecord {
  const none = { maxSeq: 0, minSeq: 1, readSeq: 0, peerReadSeq: 0, unread: 0, unreadMore: false, mentionSeq: 0, ext: "" };
  return { id, ...none, pinned: false, doNotDisturb: false, markedUnread: false, last: undefined, here: [], skipped: [] };
}

/** A message of a frame. */
export function messageOf({ seq, conversationId = "", ...rest }: MessageJson): ChatMessage {
  return { ...rest, conversationId, seq: Number(seq) };
}

/** Whether it can be unread for the user: neither an own one nor an event, neither silent nor recalled. */
export function counts(message: ChatMessage, me: string): boolean {
  return message.kind !== "MESSAGE_KIND_EVENT" && message.senderId !== me && !message.silent && !message.recall;
}

/** What is left of a message that was recalled or erased. */
export function blankOf({ conversationId, seq, senderId, sendTime, kind }: ChatMessage, userId?: string): ChatMessage {
  return { conversationId, seq, ...(senderId && { senderId }), ...(sendTime && { sendTime }), ...(kind && { kind }), recall: { ...(userId && { userId }) } };
}

/** A message that was edited. */
export const staleOf = (message: ChatMessage): ChatMessage => ({ ...message, isOld: true });

/** The lowest number from which on all messages are here. Above `maxSeq`: none is. */
export function floorOf({ here, maxSeq }: Pick<ConversationRecord, "here" | "maxSeq">): number {
  const [first, last] = here.at(-1) ?? [0, -1];
  return last >= maxSeq ? first : maxSeq + 1;
}

/** What a conversation becomes when the node lists it. What has come since then stays. */
export function listed(before: ConversationRecord, json: ConversationJson): ConversationRecord {
  const [maxSeq, readSeq] = [Number(json.maxSeq ?? 0), Number(json.readSeq ?? 0)];
  // An older answer says nothing of what has come, or was read, since.
  const isNewer = maxSeq >= before.maxSeq && readSeq >= before.readSeq;
  const counted = { unread: Number(json.unread ?? 0), unreadMore: json.unreadMore ?? false, mentionSeq: Number(json.firstMentionSeq ?? 0) };
  const settings = { pinned: json.pinned ?? false, doNotDisturb: json.doNotDisturb ?? false, markedUnread: json.markedUnread ?? false, ext: json.ext ?? "" };
  return {
    ...before,
    ...(isNewer && counted),
    ...settings,
    maxSeq: Math.max(before.maxSeq, maxSeq),
    minSeq: Number(json.minSeq ?? 1),
    readSeq: Math.max(before.readSeq, readSeq),
    peerReadSeq: Math.max(before.peerReadSeq, Number(json.peerReadSeq ?? 0)),
    last: json.lastMessage ? newer(before.last, messageOf(json.lastMessage)) : before.last,
  };
}

/** What a conversation becomes when the node sends a message. A stream leaves nothing out, so a jump at the end is no gap. */
export function received(before: ConversationRecord, message: ChatMessage): ConversationRecord {
  const { maxSeq, here, last } = before;
  const from = maxSeq && message.seq > maxSeq ? maxSeq + 1 : message.seq;
  return { ...before, maxSeq: Math.max(maxSeq, message.seq), here: withRange(here, [from, message.seq]), last: newer(last, message) };
}

/** The later one of two messages, or the newer form of one. */
export function newer(known: ChatMessage | undefined, message: ChatMessage): ChatMessage {
  return known && known.seq > message.seq ? known : message;
}

/** Takes the numbers of a range out of ranges. */
export function without(ranges: readonly Range[], [from, to]: Range): Range[] {
  const parts = ranges.flatMap(([first, last]): Range[] => (to < first || last < from ? [[first, last]] : [[first, from - 1], [to + 1, last]]));
  return parts.filter(([first, last]) => first <= last);
}

/** Adds a range to ranges, which stay in order and apart; the newest ones are kept. */
export function withRange(ranges: readonly Range[], range: Range): Range[] {
  if (range[0] > range[1]) return [...ranges];
  const touches = ([first, last]: Range): boolean => first <= range[1] + 1 && last >= range[0] - 1;
  const merged = [range, ...ranges.filter(touches)];
  const whole: Range = [Math.min(...merged.map(([first]) => first)), Math.max(...merged.map(([, last]) => last))];
  return [...ranges.filter((one) => !touches(one)), whole].sort(([one], [other]) => one - other).slice(-RANGES_MAX);
}

/** The other user of a direct conversation; the user itself for its notes. Nothing for a group. */
export function peerOf(id: string, me: string): string | undefined {
  const [one, other] = id.startsWith("d") ? id.slice(1).split("-") : [];
  return one === me ? other : one;
}

/** The id of the direct conversation of two users. */
export function directId(one: string, other: string): string {
  const isFirst = one.length < other.length || (one.length === other.length && one <= other);
  return isFirst ? `d${one}-${other}` : `d${other}-${one}`;
}

const [encoder, decoder] = [new TextEncoder(), new TextDecoder()];

/** The body of a text, as base64. */
export function bodyOf(text: string): string {
  return btoa(Array.from(encoder.encode(text), (byte) => String.fromCharCode(byte)).join(""));
}

/** The text of a message or of an entry of the outbox. */
export function textOf({ body }: { readonly body?: string }): string {
  return decoder.decode(Uint8Array.from(atob(body ?? ""), (letter) => letter.charCodeAt(0)));
}
