// The talk of one person: what frames and gestures do.

import { Chats, bodyOf, direct, textOf } from "./chats.js";
import { Bell } from "./notices.js";
import { Connection } from "./socket.js";

const PAGE = 40;
const TYPING_SHOWN = 5000;
const TYPING_SENT = 3000;
const LOOK = 5000;
// The own messages of a group whose receipts are read when it is opened.
const RECEIPTS = 100;

export class Talk {
  // `changed` is called after every change, `wire` with every frame. `noticeAudiences`: those of the bell.
  constructor(me, people, changed, wire, noticeAudiences) {
    this.chats = new Chats(me);
    this.chats.people = people;
    this.changed = () => {
      this.chats.keep();
      changed();
    };
    // `atEnd`: whether the last message of the open chat is on the screen.
    Object.assign(this, { me, friends: [], open: null, atEnd: true, state: "connecting", live: false, typed: 0 });
    const on = {
      wire,
      state: (state, why) => this.turn(state, why),
      conversations: (listed) => this.listed(listed),
      message: (message) => this.message(message),
      missed: (missed) => this.fetch(missed.conversationId, Number(missed.fromSeq), Number(missed.toSeq)),
      note: (note) => this.note(note),
      signal: (signal) => this.signal(signal),
      noticeTotals: (totals) => this.bell.take(totals),
      live: (how) => this.isLive(how),
    };
    this.bell = new Bell(me, (name, body) => this.ask(name, body), this.changed);
    this.connection = new Connection(me, on, () => this.chats.positions(), noticeAudiences);
    this.looking = setInterval(() => this.look(), LOOK);
  }

  end() {
    clearInterval(this.looking);
    this.connection.end();
  }

  turn(state, why = "") {
    Object.assign(this, { state, why, live: false });
    if (state === "connecting") this.chats.missed = 0;
    this.changed();
  }

  async isLive(how) {
    Object.assign(this, { state: "live", live: true, how });
    this.changed();
    for (const chat of this.chats.byId.values()) for (const pending of chat.pending) this.enqueue(chat, pending);
    if (this.open) await this.learnReceipts(this.chats.get(this.open));
    await this.contacts();
  }

  async contacts() {
    const { userIds = [] } = await this.ask("ListFriends", { userId: this.me, pageSize: 200 });
    this.friends = userIds;
    await this.look();
  }

  // A call whose failure the page shows nowhere: what it reads is read again.
  async ask(name, body) {
    try {
      return await this.connection.call(name, body);
    } catch {
      return {};
    }
  }

  async listed(listed) {
    const chats = listed.map((one) => this.chats.list(one));
    await this.learnGroups(chats.map((chat) => chat.id));
    this.changed();
  }

  async learnGroups(ids) {
    const groupIds = ids.filter((id) => id.startsWith("g") && !this.chats.groups.has(id)).map((id) => id.slice(1));
    if (!groupIds.length) return;
    const { results = [] } = await this.ask("BatchGetGroups", { groupIds });
    for (const { groupId, group } of results) if (group) this.chats.groups.set(`g${groupId}`, { name: group.name, members: [] });
  }

  async message(message) {
    const chat = this.chats.get(message.conversationId);
    if (!this.chats.add(message)) return this.changed();
    if (!this.live) this.chats.missed++;
    const isNew = !chat.known;
    chat.known = true;
    if (message.kind === "MESSAGE_KIND_EVENT") this.event(chat, message.event || {});
    else if (message.senderId !== this.me && !message.silent) this.count(chat, message);
    if (isNew) await this.learnGroups([chat.id]);
    this.changed();
  }

  count(chat, message) {
    // It is marked when it has been drawn.
    if (this.open === chat.id && this.atEnd && document.visibilityState === "visible") return;
    chat.unread++;
    if ((message.mentionIds || []).includes(this.me) || message.mentionAll) chat.mention ||= Number(message.seq);
  }

  event(chat, { recalled, edited }) {
    if (recalled) this.chats.recalled(chat.id, Number(recalled.seq), recalled.userId);
    if (edited) this.fetch(chat.id, Number(edited.seq), Number(edited.seq));
  }

  // What was not sent is pulled, if the chat is shown; its messages are read when it is opened otherwise.
  async fetch(conversationId, fromSeq, toSeq) {
    const chat = this.chats.get(conversationId);
    for (let from = fromSeq, more = true; more && chat.messages.size; ) {
      const page = await this.ask("PullMessages", { conversationId, fromSeq: from, toSeq, limit: 200 });
      for (const message of page.messages || []) {
        this.chats.add(message);
        from = Number(message.seq) + 1;
      }
      more = Boolean(page.more);
    }
    await this.refresh(conversationId);
  }

  async refresh(conversationId) {
    const { conversation } = await this.ask("GetConversation", { conversationId });
    if (conversation) this.chats.list(conversation);
    this.changed();
  }

  note(note) {
    if (note.dialog) this.refresh(note.dialog.conversationId);
    else if (note.groupJoined) this.refresh(`g${note.groupJoined.groupId}`);
    else if (note.groupLeft) this.chats.byId.delete(`g${note.groupLeft.groupId}`);
    else this.contacts();
    this.changed();
  }

  // A friend has another name.
  async learnName(userId) {
    const { user } = await this.ask("GetUser", { userId });
    if (user) this.chats.people.set(user.userId, user.nickName || user.userName);
    this.changed();
  }

  signal({ conversationId, userId, activity, readSeq, receipts, profile }) {
    if (profile) return this.learnName(userId);
    const chat = this.chats.get(conversationId);
    if (receipts) this.recount(chat, receipts.counts || []);
    if (readSeq) chat.peerRead = Math.max(chat.peerRead, Number(readSeq));
    if (activity === "SIGNAL_KIND_STOPPED") chat.typing.delete(userId);
    if (activity === "SIGNAL_KIND_TYPING") {
      clearTimeout(chat.typing.get(userId));
      const over = () => {
        chat.typing.delete(userId);
        this.changed();
      };
      chat.typing.set(userId, setTimeout(over, TYPING_SHOWN));
    }
    this.changed();
  }

  // Who is online: friends and those of open chats.
  async look() {
    if (!this.live) return;
    const peers = [...this.chats.byId.keys()].map((id) => this.chats.peer(id)).filter(Boolean);
    const userIds = [...new Set([...this.friends, ...peers])].slice(0, 1000);
    if (!userIds.length) return;
    const { presences } = await this.ask("BatchGetPresence", { userIds });
    if (!presences) return;
    const online = presences.filter((one) => one.state === "PRESENCE_STATE_ONLINE").map((one) => one.userId);
    this.chats.online = new Set(online);
    this.changed();
  }

  async show(id) {
    Object.assign(this, { open: id, atEnd: true });
    const chat = this.chats.get(id);
    this.changed();
    if (id.startsWith("g")) await this.learnMembers(id);
    if (!chat.begun) await this.older(chat);
    this.changed();
  }

  async learnMembers(id) {
    await this.learnGroups([id]);
    const group = this.chats.groups.get(id);
    if (!group || group.members.length) return;
    const { members = [] } = await this.ask("ListMembers", { groupId: id.slice(1), pageSize: 200 });
    group.members = members.map((member) => member.userId);
    this.changed();
  }

  async older(chat) {
    const lowest = chat.begun ? Math.min(...chat.messages.keys()) : 0;
    const page = await this.ask("History", { conversationId: chat.id, beforeSeq: lowest, limit: PAGE });
    for (const message of page.messages || []) this.chats.add(message);
    chat.begun = Boolean(page.maxSeq || page.minSeq);
    chat.more = Boolean(page.more);
    this.changed();
    await this.learnReceipts(chat);
  }

  // How many have read the own messages of a group. Later changes come as signals, which may be lost.
  async learnReceipts(chat) {
    if (!chat.id.startsWith("g")) return;
    const mine = this.chats.shown(chat).filter(({ senderId, kind }) => senderId === this.me && kind !== "MESSAGE_KIND_EVENT");
    const seqs = mine.slice(-RECEIPTS).map((message) => message.seq);
    if (!seqs.length) return;
    const { results = [] } = await this.ask("BatchGetReceipts", { conversationId: chat.id, seqs });
    this.recount(chat, results.map(({ receipt }) => receipt).filter(Boolean));
    this.changed();
  }

  recount(chat, counts) {
    for (const count of counts) {
      this.chats.receipt(chat.id, count);
      if (chat.receipts.get(Number(count.seq)).who) this.who(chat.id, Number(count.seq));
    }
  }

  // Who has read a message.
  async who(id, seq) {
    const { userIds = [] } = await this.ask("ListReaders", { conversationId: id, seq, pageSize: 200 });
    const receipts = this.chats.get(id).receipts;
    receipts.set(seq, { ...receipts.get(seq), who: userIds });
    this.changed();
  }

  // The view has drawn the open chat: messages up to this number are, or were, on the screen. What is below is not read.
  async seen(chat, upTo, atEnd) {
    this.atEnd = atEnd;
    if (!this.live || !chat.begun || !chat.known || document.visibilityState !== "visible") return;
    // Events that are not drawn are behind the last message.
    const last = atEnd ? chat.max : Math.min(upTo, chat.max);
    if (atEnd && (chat.unread || chat.mention)) {
      Object.assign(chat, { unread: 0, mention: 0 });
      this.changed();
    }
    if (last <= chat.read || chat.marking) return;
    chat.marking = true;
    const { readSeq, unread } = await this.ask("MarkRead", { conversationId: chat.id, upTo: last });
    chat.marking = false;
    // A mark that failed is tried again after the next change.
    if (!readSeq) return;
    chat.read = Math.max(chat.read, last);
    if (!this.atEnd || this.open !== chat.id) chat.unread = Number(unread || 0);
    if (chat.mention <= chat.read) chat.mention = 0;
    this.changed();
  }

  // Shown at once, and sent again after a reconnect under the same id: it is stored once.
  say(text) {
    const chat = this.chats.get(this.open);
    const clientMessageId = crypto.randomUUID();
    const pending = { clientMessageId, body: bodyOf(text), mentionIds: this.mentioned(chat.id, text), sendTime: new Date().toISOString() };
    chat.pending.push(pending);
    this.typed = 0;
    this.enqueue(chat, pending);
    this.changed();
  }

  // One after the other: calls that are in flight together may be stored in another order.
  enqueue(chat, pending) {
    pending.failed = false;
    chat.sending = (chat.sending || Promise.resolve()).then(() => this.transmit(chat, pending));
  }

  async transmit(chat, pending) {
    const { clientMessageId, body, mentionIds } = pending;
    if (!chat.pending.includes(pending)) return;
    try {
      const to = { conversationId: chat.id };
      const sent = await this.connection.call("SendMessage", { ...to, clientMessageId, body, mentionIds, contentType: "text/plain" });
      // It was stored before a reload, and does not come again.
      if (sent.replayed) chat.pending = chat.pending.filter((one) => one !== pending);
      this.changed();
    } catch (error) {
      // Without an answer it goes out again after the reconnect.
      pending.failed = error.reason !== "CLOSED";
      pending.why = error.message;
      this.changed();
    }
  }

  mentioned(id, text) {
    const members = this.chats.groups.get(id)?.members || [];
    return members.filter((member) => text.includes(`@${this.chats.name(member)}`)).slice(0, 50);
  }

  async typing() {
    const now = Date.now();
    if (!this.open || now - this.typed < TYPING_SENT) return;
    this.typed = now;
    await this.ask("SendSignal", { conversationId: this.open, kind: "SIGNAL_KIND_TYPING" });
  }

  async recall(id, seq) {
    const { message } = await this.ask("RecallMessage", { conversationId: id, seq });
    if (message) this.chats.recalled(id, seq, this.me);
    this.changed();
  }

  chatWith(user) {
    return direct(this.me, user);
  }

  preview(chat) {
    return chat.last && !chat.last.recall && chat.last.kind !== "MESSAGE_KIND_EVENT" ? textOf(chat.last) : "";
  }
}
