// The frames of `/ws` and the calls that the session makes. Types alone: they are erased when this is compiled.

import type { DescMessage, MessageJsonType } from "@bufbuild/protobuf";
import type * as message from "../gen/kith/message/v1/message_pb.js";
import type * as services from "../gen/services.js";

type Pair<Method> = Method extends { input: infer Input; output: infer Output } ? [Json<Input>, Json<Output>] : never;
type Json<Message> = Message extends DescMessage ? MessageJsonType<Message> : never;
type All<Union> = (Union extends unknown ? (one: Union) => void : never) extends (all: infer Both) => void ? Both : never;
type Of<Name> = Name extends keyof typeof services ? { [Method in keyof (typeof services)[Name]["method"]]: Pair<(typeof services)[Name]["method"][Method]> } : never;
/** Two services have a `MarkRead`; the short name is that of messages. */
type Methods = All<Of<Exclude<keyof typeof services, "AdminService" | "ApplicationService" | "ChangeService" | "NoticeService" | "SequenceService">> | Omit<Of<"ApplicationService" | "NoticeService">, "markRead">>;

/** The calls of a socket: request and answer. */
export type Calls = { [Name in keyof Methods as Capitalize<Name & string>]: Methods[Name] } & { "NoticeService.MarkRead": Of<"NoticeService">["markRead"] };

/** The name of a typed call. */
export type CallName = keyof Calls & string;

/** What the node says first. */
export type Welcome = { userId: string; expiresIn?: string; frameBytes?: number; contract?: number };

/** The error of a call or of the socket, as JSON. */
export type ErrorJson = { code?: string; reason?: string; message?: string; details?: { type?: string; debug?: Record<string, unknown> }[] };

/** Any frame of the node: an answer, what the node says of the socket, or what has happened. */
export type NodeFrame = Partial<Answer & Control> & Omit<message.DeliveryJson, "reset" | "live">;

type Answer = { id: number; answer: unknown; error: ErrorJson; session: string };
type Control = { welcome: Welcome; renewed: { expiresIn?: string }; conversations: message.ConversationJson[]; more: boolean; reset: true; live: true; cursor: string };
