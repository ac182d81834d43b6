/**
 * The chat session of Kith for browsers: messages, outbox, unread, receipts, reactions, presence, names, over one socket for all tabs.
 *
 * @module
 */

export type { Status } from "./connection.js";
export { ChatError } from "./error.js";
export type { Environment } from "./environment.js";
export type { Calls, CallName, NodeFrame } from "./frames.js";
export { observeSeen } from "./observe.js";
export { type ChatMessage, type OutboxEntry, type Problem, type Reaction, bodyOf, counts, directId, peerOf, textOf } from "./records.js";
export { type ChatOptions, ChatSession, type SendOptions, openChat } from "./session.js";
export type { ChatSnapshot, Conversation } from "./state.js";
