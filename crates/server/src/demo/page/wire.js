// The frames of the socket as they go over the wire, and a way to cut it. Only the window that has the socket shows them.

import { make } from "./elements.js";

const FRAMES = 60;
const FRAME_SHOWN = 160;

// How the last connection began, and how many messages came before it was live.
export const begun = { how: "", missed: 0 };
let current = null;
let isLive = false;

// A WebSocket that shows its frames. The chat session opens it.
export class Wire extends WebSocket {
  constructor(url) {
    super(url);
    current = this;
    this.addEventListener("message", ({ data }) => show("in", data));
  }

  send(data) {
    show("out", data);
    super.send(data);
  }
}

// Ends the connection under the session, as a tunnel does; it comes back by itself.
export function cut() {
  current?.close();
}

function show(way, data) {
  const { hello, message, live } = JSON.parse(data);
  if (hello) {
    isLive = false;
    Object.assign(begun, { how: hello.cursor ? "resumed" : hello.positions ? "relisted" : "", missed: 0 });
  }
  if (message && !isLive) begun.missed++;
  isLive ||= Boolean(live);
  const text = data.replace(/"credential":"[^"]*"/, '"credential":"…"');
  const list = document.getElementById("wire");
  list.prepend(make("li", way, text.length > FRAME_SHOWN ? `${text.slice(0, FRAME_SHOWN)}…` : text));
  while (list.children.length > FRAMES) list.lastElementChild.remove();
}
