// A chat for the browser. Everything but the drawing is in the session of kith-client.

import { type ChatMessage, type ChatSession, type Conversation, type OutboxEntry, observeSeen, openChat, textOf } from "kith-client/chat";

const NODE = import.meta.env["VITE_KITH"] ?? "http://127.0.0.1:7600";

type Part = Node | string;

function make<Tag extends keyof HTMLElementTagNameMap>(tag: Tag, fields: object, ...parts: Part[]): HTMLElementTagNameMap[Tag] {
  const element = Object.assign(document.createElement(tag), fields);
  element.append(...parts);
  return element;
}

/** Draws a list again, and leaves what did not change. */
function draw(list: Element, rows: HTMLElement[]): void {
  for (const [at, row] of rows.entries()) {
    const there = list.children[at];
    if (!there) list.append(row);
    else if (!there.isEqualNode(row)) there.replaceWith(row);
  }
  while (list.children.length > rows.length) list.lastElementChild?.remove();
}

// In your product, your backend creates users and signs them in: see docs/guide/chat.md. This one believes every name.
async function call(method: string, body: object): Promise<{ user?: { userId: string } }> {
  const headers = { "content-type": "application/json" };
  const answer = await fetch(`${NODE}/kith.user.v1.UserService/${method}`, { method: "POST", headers, body: JSON.stringify(body) });
  return answer.ok ? await answer.json() : {};
}

async function signIn(userName: string): Promise<string> {
  const { user } = await call("FindUserByName", { userName });
  return (user ?? (await call("CreateUser", { user: { userName } })).user)?.userId ?? "";
}

class Page {
  #open = "";
  #unwatch = (): void => {};
  #atEnd = true;
  readonly #state = make("div", { className: "state" });
  readonly #list = make("ul", { id: "chats" });
  readonly #name = make("strong", {});
  readonly #about = make("i", {});
  readonly #messages = make("ul", { id: "messages" });
  readonly #text = make("input", { id: "text", placeholder: "Write a message", autocomplete: "off", oninput: () => this.chat.typing(this.#open) });

  constructor(readonly chat: ChatSession) {
    const other = make("input", { id: "other", placeholder: "Talk to (name)", autocomplete: "off" });
    const find = make("form", { id: "find", onsubmit: (event: Event) => this.#find(event, other) }, other, make("button", {}, "Find"));
    const leave = make("button", { id: "leave", onclick: () => this.#leave() }, "Sign out");
    const back = make("button", { id: "back", onclick: () => this.#show("") }, "‹");
    const write = make("form", { id: "write", onsubmit: (event: Event) => this.#send(event) }, this.#text, make("button", {}, "Send"));
    this.#messages.onscroll = () => this.#scrolled();
    const head = make("header", {}, back, " ", this.#name, " ", this.#about);
    document.body.replaceChildren(make("nav", {}, this.#state, find, this.#list, leave), make("section", {}, head, this.#messages, write));
    chat.subscribe(() => this.#draw());
    this.#show(sessionStorage.getItem("open") ?? "");
  }

  #show(id: string): void {
    this.#unwatch();
    this.#open = id;
    this.#atEnd = true;
    sessionStorage.setItem("open", id);
    document.body.classList.toggle("talking", id !== "");
    this.#messages.replaceChildren();
    if (id) {
      this.#unwatch = observeSeen(this.chat, id, this.#messages);
      void this.chat.open(id);
    }
    this.#draw();
  }

  #draw(): void {
    const { status, problem, conversations, unread } = this.chat.getSnapshot();
    document.title = unread ? `(${unread}) Chat` : "Chat";
    this.#state.textContent = problem ? `${status}: ${problem.message}` : status;
    this.#state.dataset["status"] = status;
    draw(this.#list, conversations.map((one) => this.#chatRow(one)));
    // A row that did not change has the gestures of an older drawing.
    for (const [at, { id }] of conversations.entries()) (this.#list.children[at] as HTMLElement).onclick = () => this.#show(id);
    const open = conversations.find(({ id }) => id === this.#open);
    if (!open) return;
    this.#name.textContent = open.name;
    // On a phone this is the only place that says that nothing is known now.
    this.#about.textContent = status !== "live" ? status : open.typing.length ? "is typing…" : open.isOnline ? "online" : "";
    const sent = open.messages.filter(({ event }) => !event?.recalled && !event?.edited).map((message) => this.#messageRow(open, message));
    const pending = open.pending.map((entry) => this.#pendingRow(entry));
    draw(this.#messages, [...sent, ...pending]);
    for (const [at, entry] of open.pending.entries()) (this.#messages.children[sent.length + at] as HTMLElement).onclick = () => entry.failed && this.chat.retry(entry.clientMessageId);
    if (this.#atEnd) this.#messages.scrollTop = this.#messages.scrollHeight;
  }

  #chatRow(one: Conversation): HTMLElement {
    const count = one.unread ? [make("b", {}, `${one.unread}${one.unreadMore ? "+" : ""}`)] : [];
    const icon = one.icon ? [make("img", { src: one.icon, alt: "", width: 24, height: 24 })] : [];
    return make("li", { className: one.id === this.#open ? "open" : "" }, ...icon, make("span", {}, one.name, make("i", {}, ` ${one.last ? textOf(one.last) : ""}`)), ...count);
  }

  #messageRow(open: Conversation, message: ChatMessage): HTMLElement {
    const { me, nameOf } = this.chat.getSnapshot();
    const isMine = message.senderId === me;
    const readBy = open.receipts.get(message.seq)?.read ?? "0";
    const mark = !isMine ? "" : open.peer ? (message.seq <= open.peerReadSeq ? " ✓✓" : " ✓") : ` read by ${readBy}`;
    const text = message.recall ? "recalled" : message.event ? "the group has changed" : textOf(message);
    const name = isMine || open.peer ? "" : `${nameOf(message.senderId ?? "")}: `;
    const row = make("li", { className: message.recall || message.event ? "event" : isMine ? "mine" : "" }, name, text, make("i", {}, message.edits ? " edited" : "", mark));
    row.dataset["seq"] = String(message.seq);
    return row;
  }

  #pendingRow(entry: OutboxEntry): HTMLElement {
    const state = entry.failed ? ` not sent: ${entry.failed.message} (again?)` : " sending…";
    return make("li", { className: "mine pending" }, textOf(entry), make("i", {}, state));
  }

  #scrolled(): void {
    const { scrollTop, scrollHeight, clientHeight } = this.#messages;
    this.#atEnd = scrollHeight - scrollTop - clientHeight < 40;
    const open = this.chat.getSnapshot().conversations.find(({ id }) => id === this.#open);
    if (scrollTop > 40 || !open?.hasOlder || !open.messages.length) return;
    void this.chat.loadOlder(open.id).then(() => (this.#messages.scrollTop += this.#messages.scrollHeight - scrollHeight));
  }

  #send(event: Event): void {
    event.preventDefault();
    const text = this.#text.value.trim();
    if (!text || !this.#open) return;
    this.#atEnd = true;
    void this.chat.send(this.#open, text);
    this.#text.value = "";
  }

  async #find(event: Event, input: HTMLInputElement): Promise<void> {
    event.preventDefault();
    const found = await this.chat.call("FindUserByName", { userName: input.value.trim() }).catch(() => undefined);
    if (!found?.user?.userId) return input.setCustomValidity("nobody"), void input.reportValidity();
    input.value = "";
    this.#show(this.chat.directWith(found.user.userId));
  }

  async #leave(): Promise<void> {
    await this.chat.signOut();
    sessionStorage.clear();
    localStorage.removeItem("user");
    location.reload();
  }
}

function begin(user: string): void {
  localStorage.setItem("user", user);
  // With an issuer: token: async () => (await fetch("/token")).text()
  new Page(openChat({ url: NODE, user }));
}

const name = make("input", { id: "name", placeholder: "Your name", autofocus: true });
const enter = async (event: Event): Promise<void> => {
  event.preventDefault();
  const user = await signIn(name.value.trim()).catch(() => "");
  if (user) begin(user);
};
const known = localStorage.getItem("user");
if (known) begin(known);
else document.body.append(make("form", { id: "enter", onsubmit: enter }, name, make("button", {}, "Enter")));
