// Draws what the chat session knows. Text is text: nothing is ever read as markup.

import { observeSeen, textOf } from "./chat.js";
import { face, keep, keyed, make } from "./elements.js";
import { begun } from "./wire.js";
import { locale, say } from "./words.js";

const $ = (id) => document.getElementById(id);
// Names that are written out in a line about many people.
const NAMED_OF_EVENT = 3;
const NAMED_OF_READERS = 20;
const KINDS = ["👍", "❤️", "😂", "😮", "😢", "🎉"];

export class View {
  // `act`: what gestures do. `bell`: draws itself.
  constructor(chat, bell, act) {
    Object.assign(this, { chat, bell, act, open: "", choosing: 0, due: false, drawn: "", older: "", unwatch: () => {} });
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
    this.all = this.chat.getSnapshot();
    const { unread, me, nameOf, iconOf, conversations } = this.all;
    document.title = `${unread ? `(${unread}) ` : ""}${nameOf(me)} · Kith`;
    if ($("me-name").textContent !== nameOf(me) || this.icon !== iconOf(me)) {
      this.icon = iconOf(me);
      $("me-name").textContent = nameOf(me);
      face($("me-face"), me, nameOf(me), this.icon);
    }
    this.state();
    this.lists();
    this.talk(conversations.find(({ id }) => id === this.open));
    this.bell.draw();
  }

  // Shows a conversation; empty: none.
  show(id) {
    this.unwatch();
    this.choosing = 0;
    this.open = id;
    if (id) this.unwatch = observeSeen(this.chat, id, $("messages"));
    this.draw();
  }

  connection() {
    const { status, problem } = this.all;
    return problem ? `${say(status)}: ${problem.message}` : say(status);
  }

  state() {
    const { status, storage } = this.all;
    const how = status === "live" && begun.how ? say(begun.how, begun.missed) : "";
    $("state").textContent = [this.connection(), how, say(storage)].filter(Boolean).join(" · ");
    $("state").dataset.state = status;
  }

  lists() {
    const { conversations, friends, nameOf, iconOf } = this.all;
    keep($("chats"), conversations.map((chat) => this.row(chat)));
    const known = new Set(conversations.map(({ id }) => id));
    const others = friends.filter((user) => !known.has(this.chat.directWith(user)));
    const chatOf = (user) => ({ id: this.chat.directWith(user), peer: user, name: nameOf(user), icon: iconOf(user), isOnline: this.all.status === "live" && this.all.online.has(user), typing: [] });
    keep($("contacts"), others.map((user) => this.row(chatOf(user))));
  }

  nameOf({ id, peer, name }) {
    return peer === this.all.me ? say("notes") : name || id;
  }

  row(chat) {
    const { id, peer, icon, isOnline, typing, mentionSeq, unread, unreadMore } = chat;
    const name = this.nameOf(chat);
    const picture = face(make("span", peer ? "face" : "face group"), id, name, icon);
    picture.setAttribute("aria-hidden", "true");
    if (isOnline) picture.append(make("span", "dot"));
    const about = typing.length ? this.typing(chat) : this.preview(chat);
    const row = make("button", "row", picture, make("span", "names", make("strong", "", name), make("span", "about", about)));
    row.type = "button";
    row.dataset.key = id;
    if (id === this.open) row.setAttribute("aria-current", "true");
    if (isOnline) row.append(make("span", "hidden", say("online")));
    if (mentionSeq) row.append(make("span", "badge at", "@"));
    if (unread) row.append(make("span", "badge", `${unread}${unreadMore ? "+" : ""}`), make("span", "hidden", say("unread", unread)));
    row.onclick = () => this.act.show(id);
    return make("li", "", row);
  }

  preview({ peer, last }) {
    if (!last) return "";
    if (last.kind === "MESSAGE_KIND_EVENT" || last.recall) return this.happened(last);
    if (last.senderId === this.all.me) return `${say("you")}: ${textOf(last)}`;
    return peer ? textOf(last) : `${this.all.nameOf(last.senderId)}: ${textOf(last)}`;
  }

  talk(chat) {
    document.body.classList.toggle("talking", Boolean(chat));
    $("nothing").hidden = Boolean(chat);
    $("write").hidden = $("messages").hidden = !chat;
    $("newer").hidden ||= !chat;
    $("talk-name").textContent = chat ? this.nameOf(chat) : "";
    if (!chat) return;
    // On a phone this is the only place: what is known of the other one is old while the own connection is away.
    const { status } = this.all;
    const about = chat.peer ? say(chat.isOnline ? "online" : "away") : chat.members.length ? say("members", chat.members.length) : "";
    $("talk-about").textContent = status === "live" ? about : this.connection();
    $("talk-about").dataset.state = status === "live" ? "" : status;
    $("typing").textContent = chat.typing.length ? this.typing(chat) : "";
    this.messages(chat);
  }

  typing({ typing }) {
    return say("typing", typing.map(this.all.nameOf).join(", "));
  }

  isAtEnd() {
    const log = $("messages");
    return log.scrollHeight - log.scrollTop - log.clientHeight < 60;
  }

  toEnd() {
    $("messages").scrollTop = $("messages").scrollHeight;
  }

  messages(chat) {
    const log = $("messages");
    const atEnd = this.drawn !== chat.id || this.isAtEnd();
    const height = log.scrollHeight - log.scrollTop;
    const rows = chat.messages.filter((message) => !isQuiet(message)).map((message) => this.message(chat, message));
    keep(log, [...rows, ...chat.pending.map((pending) => this.pending(pending))]);
    if (atEnd) this.toEnd();
    else if (this.older === chat.id) log.scrollTop = log.scrollHeight - height;
    this.drawn = chat.id;
    $("newer").hidden = atEnd || !chat.unread;
    $("newer").textContent = say("newMessages", chat.unread);
  }

  message(chat, message) {
    const { me, nameOf } = this.all;
    const { seq, senderId } = message;
    if (message.kind === "MESSAGE_KIND_EVENT" || message.recall) return keyed(make("li", "event", this.happened(message)), seq, seq);
    const mine = senderId === me;
    const mentioned = message.mentionIds?.includes(me) || message.mentionAll;
    const mark = mine && chat.peer ? say(seq <= chat.peerReadSeq ? "read" : "sent") : "";
    const about = [this.time(message), message.edits ? say("edited") : "", mark].filter(Boolean).join(" · ");
    const bubble = make("div", "bubble", mine || chat.peer ? "" : make("strong", "", nameOf(senderId)), make("p", "", textOf(message)), make("span", "about", about));
    const item = make("li", `${mine ? "mine" : ""}${mentioned ? " mention" : ""}`, bubble);
    const receipt = mine && chat.receipts.get(seq);
    if (receipt) bubble.append(...this.receipt(chat, seq, receipt));
    bubble.append(...this.reactions(chat, seq));
    item.append(this.chooser(seq));
    if (mine) item.append(button("recall", say("recall"), () => this.act.recall(chat.id, seq)));
    return keyed(item, seq, seq);
  }

  // "Read by 3 of 5", and who once it was asked for.
  receipt({ id }, seq, { read = "0", unread = "0", left = "0" }) {
    const [has, of] = [Number(read), Number(read) + Number(unread) + Number(left)];
    const count = button("receipt", say("readBy", [has, of]), () => this.act.who(id, seq, has));
    const who = this.act.readers(id, seq, has);
    return who ? [count, make("span", "about readers", this.names(who, NAMED_OF_READERS))] : [count];
  }

  // Those that are there, and those to choose from once they were asked for.
  reactions({ id, reactions }, seq) {
    const there = reactions.get(seq) ?? [];
    const known = new Set(there.map(({ kind }) => kind));
    const others = this.choosing === seq ? KINDS.filter((kind) => !known.has(kind)).map((kind) => ({ kind, count: 0, isMine: false })) : [];
    const chips = [...there, ...others].map(({ kind, count, isMine }) => {
      const chip = button("reaction", count ? `${kind} ${count}` : kind, () => {
        this.choosing = 0;
        this.draw();
        this.act.react(id, seq, kind, !isMine);
      });
      chip.setAttribute("aria-pressed", isMine);
      return chip;
    });
    return chips.length ? [make("div", "reactions", ...chips)] : [];
  }

  chooser(seq) {
    const choose = button("recall", say("react"), () => {
      this.choosing = this.choosing === seq ? 0 : seq;
      this.draw();
    });
    choose.setAttribute("aria-expanded", this.choosing === seq);
    return choose;
  }

  pending(entry) {
    const { failed, clientMessageId } = entry;
    const state = failed ? `${say("notSent")}: ${failed.message}` : say("sending");
    const item = make("li", "mine pending", make("div", "bubble", make("p", "", textOf(entry)), make("span", "about", state)));
    if (failed) item.append(button("recall", say("again"), () => this.chat.retry(clientMessageId)), button("recall", say("discard"), () => this.chat.discard(clientMessageId)));
    return keyed(item, clientMessageId, "");
  }

  // The names of the first ones, and how many others there are.
  names(users, most) {
    const named = users.length > most + 1 ? users.slice(0, most) : users;
    const text = named.map(this.all.nameOf).join(", ");
    return named.length < users.length ? say("andOthers", [text, users.length - named.length]) : text;
  }

  time({ sendTime }) {
    return new Date(sendTime).toLocaleTimeString(locale(), { hour: "2-digit", minute: "2-digit" });
  }

  happened({ recall, senderId, event = {} }) {
    const { me, nameOf } = this.all;
    if (recall) return recall.userId === me ? say("youRecalled") : say("recalled", nameOf(senderId));
    const { joined, left, removed, owner, group } = event;
    const names = (users) => this.names(users || [], NAMED_OF_EVENT);
    const words = say("event");
    if (joined) return `${names(joined.userIds)} ${words.joined}`;
    if (left) return `${names(left.userIds)} ${words.left}`;
    if (removed) return `${names(removed.userIds)} ${words.removed}`;
    if (owner) return `${nameOf(owner.userId)} ${words.owner}`;
    return group ? `${words.group}: ${group.name || ""}` : "";
  }
}

// Events that only change other messages.
function isQuiet({ event }) {
  const { recalled, edited, erased } = event || {};
  return Boolean(recalled || edited || erased);
}

function button(name, text, act) {
  return Object.assign(make("button", `quiet ${name}`, text), { type: "button", onclick: act });
}
