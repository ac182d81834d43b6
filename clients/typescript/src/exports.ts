export { Kith } from "./client.js";
export { KithError, type Reason } from "./errors.js";
export { CONTRACT, type KithOptions, type UserToken } from "./options.js";
export type { ItemOf } from "./pages.js";
export type { ReceiveBatch, ReceiveOptions, ReceiveState } from "./receive.js";
