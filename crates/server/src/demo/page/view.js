// Draws what the talk knows. Text is text: nothing is ever read as markup.

import { textOf } from "./chats.js";
import { locale, say } from "./words.js";

const $ = (id) => document.getElementById(id);
// Names that are written out in a line about many people.
const NAMED_OF_EVENT = 3;
const NAMED_OF_READERS = 20;

// An element with a class, and children that are elements or texts.
export function make(tag, name, ...children) {
  const element = document.createElement(tag);
  if (name) element.className = name;
  element.append(...children.filter((child) => child !== null && child !== ""));
  return element;
}

export function face(element, key, name) {
  let hue = 7;
  for (const letter of key) hue = (hue * 31 + letter.codePointAt(0)) % 360;
  element.style.setProperty("--hue", hue);
  element.textContent = [...name.replace(/^#/, "")][0] || "?";
  return element;
}

export class View {
  constructor(talk, act) {
    Object.assign(this, { talk, act, due: false, drawn: "" });
  }

  // Many changes within a frame of the screen are drawn once.
  draw() {
    if (this.due) return;
    this.due = true;
    requestAnimationFrame(() => {
      this.due = false;
      this.now();
    });
  }

  now() {
    this.state();
    this.lists();
    this.open();
    this.talk.bell.draw();
  }

  nameOf(id) {
    const { chats, me } = this.talk;
    const peer = chats.peer(id);
    if (!peer) return chats.groups.get(id)?.name || id;
    return peer === me ? say("notes") : chats.name(peer);
  }

  connection() {
    const { state, why } = this.talk;
    return state === "refused" ? `${say("refused")}: ${why}` : say(state);
  }

  state() {
    const { state, how, chats } = this.talk;
    const text = this.connection();
    $("state").textContent = state === "live" && how ? `${text} · ${say(how, chats.missed)}` : text;
    $("state").dataset.state = state;
  }

  lists() {
    const { chats, friends } = this.talk;
    keep($("chats"), chats.sorted().map((chat) => this.row(chat.id, chat)));
    const others = friends.filter((user) => !chats.byId.get(this.talk.chatWith(user))?.known);
    keep($("contacts"), others.map((user) => this.row(this.talk.chatWith(user), null)));
  }

  row(id, chat) {
    const { chats, open } = this.talk;
    const [name, peer] = [this.nameOf(id), chats.peer(id)];
    const icon = face(make("span", peer ? "face" : "face group"), id, name);
    icon.setAttribute("aria-hidden", "true");
    const online = this.talk.live && peer && chats.online.has(peer);
    if (online) icon.append(make("span", "dot"));
    const about = chat?.typing.size ? this.typing(chat) : chat ? this.preview(chat) : "";
    const row = make("button", "row", icon, make("span", "names", make("strong", "", name), make("span", "about", about)));
    row.type = "button";
    row.dataset.key = id;
    if (id === open) row.setAttribute("aria-current", "true");
    if (online) row.append(make("span", "hidden", say("online")));
    if (chat?.mention) row.append(make("span", "badge at", "@"));
    if (chat?.unread) row.append(make("span", "badge", String(chat.unread)), make("span", "hidden", say("unread", chat.unread)));
    row.onclick = () => this.act.show(id);
    return make("li", "", row);
  }

  preview(chat) {
    const { chats, me } = this.talk;
    if (!chat.last) return "";
    if (chat.last.kind === "MESSAGE_KIND_EVENT" || chat.last.recall) return this.happened(chat.last);
    const text = this.talk.preview(chat);
    if (chat.last.senderId === me) return `${say("you")}: ${text}`;
    return chats.peer(chat.id) ? text : `${chats.name(chat.last.senderId)}: ${text}`;
  }

  open() {
    const { open, chats } = this.talk;
    document.body.classList.toggle("talking", Boolean(open));
    $("nothing").hidden = Boolean(open);
    $("write").hidden = $("messages").hidden = !open;
    $("newer").hidden ||= !open;
    $("talk-name").textContent = open ? this.nameOf(open) : "";
    if (!open) return;
    const chat = chats.get(open);
    const peer = chats.peer(open);
    const members = chats.groups.get(open)?.members.length || 0;
    // On a phone this is the only place: what is known of the other one is old while the own connection is away.
    const { live, state } = this.talk;
    const about = peer ? say(chats.online.has(peer) ? "online" : "offline") : members ? say("members", members) : "";
    $("talk-about").textContent = live ? about : this.connection();
    $("talk-about").dataset.state = live ? "" : state;
    $("typing").textContent = chat.typing.size ? this.typing(chat) : "";
    this.messages(chat);
  }

  typing(chat) {
    return say("typing", [...chat.typing.keys()].map((user) => this.talk.chats.name(user)).join(", "));
  }

  isAtEnd() {
    const log = $("messages");
    return log.scrollHeight - log.scrollTop - log.clientHeight < 60;
  }

  toEnd() {
    $("messages").scrollTop = $("messages").scrollHeight;
    this.look();
  }

  // Says what of the open chat is on the screen, or above it.
  look() {
    const { open, chats } = this.talk;
    if (!open || this.drawn !== open) return;
    const [chat, log, atEnd] = [chats.get(open), $("messages"), this.isAtEnd()];
    const edge = log.getBoundingClientRect().bottom;
    const rows = [...log.children].filter((row) => !row.classList.contains("pending"));
    const last = rows.findLast((row) => row.getBoundingClientRect().bottom <= edge + 1);
    this.act.seen(chat, Number(last?.dataset.key || 0), atEnd);
    $("newer").hidden = atEnd || !chat.unread;
    $("newer").textContent = say("newMessages", chat.unread);
  }

  messages(chat) {
    const log = $("messages");
    const atEnd = this.drawn !== chat.id || this.isAtEnd();
    const height = log.scrollHeight - log.scrollTop;
    const rows = this.talk.chats.shown(chat).filter((message) => !isQuiet(message)).map((message) => this.message(chat, message));
    keep(log, [...rows, ...chat.pending.map((pending) => this.pending(chat, pending))]);
    if (atEnd) log.scrollTop = log.scrollHeight;
    else if (this.older === chat.id) log.scrollTop = log.scrollHeight - height;
    this.older = "";
    this.drawn = chat.id;
    this.look();
  }

  message(chat, message) {
    const { chats, me } = this.talk;
    const seq = Number(message.seq);
    if (message.kind === "MESSAGE_KIND_EVENT" || message.recall) return keyed(make("li", "event", this.happened(message)), seq);
    const mine = message.senderId === me;
    const mentioned = (message.mentionIds || []).includes(me) || message.mentionAll;
    const about = make("span", "about", this.time(message), message.edits ? ` · ${say("edited")}` : "", mine && chats.peer(chat.id) ? ` · ${say(seq <= chat.peerRead ? "read" : "sent")}` : "");
    const bubble = make("div", "bubble", mine || chats.peer(chat.id) ? "" : make("strong", "", chats.name(message.senderId)), make("p", "", textOf(message)), about);
    const item = make("li", `${mine ? "mine" : ""}${mentioned ? " mention" : ""}`, bubble);
    const receipt = mine ? chat.receipts.get(seq) : null;
    if (receipt) bubble.append(...this.receipt(chat, seq, receipt));
    if (mine && Date.now() - Date.parse(message.sendTime) < 110000) {
      const recall = make("button", "quiet recall", say("recall"));
      recall.onclick = () => this.act.recall(chat.id, seq);
      item.append(recall);
    }
    return keyed(item, seq);
  }

  // "Read by 3 of 5", and who once it was asked for.
  receipt(chat, seq, { has, of, who }) {
    const count = make("button", "quiet receipt", say("readBy", [has, of]));
    count.type = "button";
    count.onclick = () => this.act.who(chat.id, seq);
    if (!who) return [count];
    return [count, make("span", "about readers", this.names(who, NAMED_OF_READERS))];
  }

  pending(chat, pending) {
    const state = pending.failed ? `${say("notSent")}: ${pending.why}` : say("sending");
    const item = make("li", "mine pending", make("div", "bubble", make("p", "", textOf(pending)), make("span", "about", state)));
    if (pending.failed) {
      const again = make("button", "quiet recall", say("again"));
      again.onclick = () => this.act.again(chat, pending);
      item.append(again);
    }
    return keyed(item, pending.clientMessageId);
  }

  // The names of the first ones, and how many others there are.
  names(users, most) {
    const named = users.length > most + 1 ? users.slice(0, most) : users;
    const text = named.map((user) => this.talk.chats.name(user)).join(", ");
    return named.length < users.length ? say("andOthers", [text, users.length - named.length]) : text;
  }

  time(message) {
    return new Date(message.sendTime).toLocaleTimeString(locale(), { hour: "2-digit", minute: "2-digit" });
  }

  happened(message) {
    const { chats, me } = this.talk;
    if (message.recall) return message.recall.userId === me ? say("youRecalled") : say("recalled", chats.name(message.senderId));
    const { joined, left, removed, owner, group } = message.event || {};
    const names = (users) => this.names(users || [], NAMED_OF_EVENT);
    const words = say("event");
    if (joined) return `${names(joined.userIds)} ${words.joined}`;
    if (left) return `${names(left.userIds)} ${words.left}`;
    if (removed) return `${names(removed.userIds)} ${words.removed}`;
    if (owner) return `${chats.name(owner.userId)} ${words.owner}`;
    return group ? `${words.group}: ${group.name || ""}` : "";
  }
}

// Events that only change other messages.
function isQuiet(message) {
  const { recalled, edited, erased } = message.event || {};
  return Boolean(recalled || edited || erased);
}

export function keyed(item, key) {
  item.dataset.key = key;
  return item;
}

// Puts new children in place, and leaves those that are the same: focus and what is read aloud stay.
export function keep(list, children) {
  children.forEach((child, at) => {
    const there = list.children[at];
    if (!there) list.append(child);
    else if (!there.isEqualNode(child)) replace(there, child);
    else reuse(there, child);
  });
  while (list.children.length > children.length) list.lastElementChild.remove();
}

function replace(there, child) {
  const focused = there.contains(document.activeElement);
  there.replaceWith(child);
  if (focused) child.querySelector("button")?.focus();
}

// An equal child has the same gestures, but maybe for another chat.
function reuse(there, child) {
  const [old, now] = [there.querySelectorAll("button"), child.querySelectorAll("button")];
  old.forEach((button, at) => (button.onclick = now[at].onclick));
}
