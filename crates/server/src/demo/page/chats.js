// What the page knows: conversations with their messages, each once and by number, and the names of people and groups.

export class Chats {
  constructor(me) {
    Object.assign(this, { me, byId: new Map(), people: new Map(), groups: new Map(), online: new Set(), missed: 0 });
    this.outbox = `kith-outbox-${me}`;
    this.restore();
  }

  // What was not sent outlives a reload of the window. It goes out again under the same ids, so it is stored once.
  restore() {
    this.kept = sessionStorage.getItem(this.outbox) || "[]";
    for (const { id, ...pending } of JSON.parse(this.kept)) this.get(id).pending.push(pending);
  }

  keep() {
    const all = [...this.byId.values()].flatMap(({ id, pending }) => pending.map((one) => ({ id, ...one })));
    const text = JSON.stringify(all);
    if (text === this.kept) return;
    this.kept = text;
    sessionStorage.setItem(this.outbox, text);
  }

  get(id) {
    let chat = this.byId.get(id);
    if (!chat) {
      chat = { id, messages: new Map(), max: 0, min: 1, read: 0, peerRead: 0, unread: 0, mention: 0, typing: new Map(), pending: [], more: true, receipts: new Map() };
      this.byId.set(id, chat);
    }
    return chat;
  }

  // Takes a conversation as the node lists it.
  list(listed) {
    const chat = this.get(listed.conversationId);
    chat.known = true;
    chat.max = Math.max(chat.max, Number(listed.maxSeq || 0));
    chat.min = Number(listed.minSeq || 1);
    chat.read = Number(listed.readSeq || 0);
    chat.peerRead = Math.max(chat.peerRead, Number(listed.peerReadSeq || 0));
    chat.unread = Number(listed.unread || 0);
    chat.mention = Number(listed.firstMentionSeq || 0);
    chat.pinned = listed.pinned;
    if (listed.lastMessage) chat.last = newer(chat.last, listed.lastMessage);
    return chat;
  }

  // Takes a message; false if it is there already.
  add(message) {
    const chat = this.get(message.conversationId);
    const seq = Number(message.seq);
    chat.last = newer(chat.last, message);
    chat.max = Math.max(chat.max, seq);
    const mine = chat.pending.findIndex((one) => one.clientMessageId === message.clientMessageId && message.clientMessageId);
    if (mine >= 0) chat.pending.splice(mine, 1);
    if (chat.messages.has(seq)) {
      chat.messages.set(seq, message);
      return false;
    }
    chat.messages.set(seq, message);
    chat.typing.delete(message.senderId);
    return true;
  }

  // A recall removes the text here too.
  recalled(id, seq, user) {
    const chat = this.get(id);
    const gone = (message) => ({ ...message, body: "", recall: { userId: user } });
    if (chat.messages.has(seq)) chat.messages.set(seq, gone(chat.messages.get(seq)));
    if (chat.last && Number(chat.last.seq) === seq) chat.last = gone(chat.last);
  }

  // Takes how many have read a message.
  receipt(id, { seq, read, unread, left }) {
    const [has, of] = [Number(read || 0), Number(read || 0) + Number(unread || 0) + Number(left || 0)];
    const known = this.get(id).receipts.get(Number(seq));
    this.get(id).receipts.set(Number(seq), { ...known, has, of });
  }

  // Messages by number. What is between two pages is not shown before it is pulled.
  shown(chat) {
    return [...chat.messages.values()].sort((one, other) => Number(one.seq) - Number(other.seq));
  }

  sorted() {
    const time = (chat) => (chat.last ? Date.parse(chat.last.sendTime) || 0 : 0);
    const listed = [...this.byId.values()].filter((chat) => chat.known || chat.messages.size || chat.pending.length);
    return listed.sort((one, other) => Number(other.pinned || false) - Number(one.pinned || false) || time(other) - time(one));
  }

  positions() {
    return Object.fromEntries([...this.byId.values()].filter((chat) => chat.known).map((chat) => [chat.id, chat.max]));
  }

  peer(id) {
    if (!id.startsWith("d")) return "";
    const [one, other] = id.slice(1).split("-");
    return one === this.me ? other : one;
  }

  name(user) {
    return this.people.get(String(user)) || `#${user}`;
  }
}

export function direct(me, other) {
  const [one, two] = [Number(me), Number(other)].sort((a, b) => a - b);
  return `d${one}-${two}`;
}

function newer(one, other) {
  return one && Number(one.seq) > Number(other.seq) ? one : other;
}

const decoder = new TextDecoder();

export function textOf(message) {
  return decoder.decode(Uint8Array.from(atob(message.body || ""), (letter) => letter.charCodeAt(0)));
}

export function bodyOf(text) {
  return btoa(String.fromCharCode(...new TextEncoder().encode(text)));
}
