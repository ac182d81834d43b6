// The bell: how many notices the person has not read, and the list of them.

import { keep, keyed, make } from "./elements.js";
import { locale, say } from "./words.js";

const AUDIENCE = 1;
const PAGE = 50;
const $ = (id) => document.getElementById(id);

// The audiences of the person: none on a node where the demo has made none.
export async function audiencesOf(me, token) {
  const headers = { "content-type": "application/json", ...(token && { authorization: `Bearer ${token}` }) };
  const body = JSON.stringify({ audienceId: AUDIENCE, readerId: me });
  const answer = await fetch("/kith.notice.v1.NoticeService/CountNotices", { method: "POST", headers, body }).catch(() => ({}));
  return answer.ok ? [AUDIENCE] : [];
}

export class Bell {
  // `changed` is called after every change that the session does not say.
  constructor(chat, changed) {
    Object.assign(this, { chat, changed, totals: undefined, listed: [], open: false });
  }

  async load() {
    const { notices } = await this.chat.call("ListNotices", this.body({ pageSize: PAGE })).catch(() => ({}));
    if (notices) this.listed = notices;
    this.changed();
  }

  body(fields) {
    return { audienceId: AUDIENCE, readerId: this.chat.getSnapshot().me, ...fields };
  }

  toggle(open = !this.open) {
    this.open = open;
    if (open) this.load();
    this.changed();
  }

  async mark(fields) {
    await this.chat.call("NoticeService.MarkRead", this.body(fields)).catch(() => ({}));
    await this.load();
  }

  draw() {
    const bell = $("bell");
    const totals = this.chat.getSnapshot().notices.get(AUDIENCE);
    if (this.open && totals !== this.totals) this.load();
    this.totals = totals;
    bell.hidden = !totals;
    $("notices").hidden = !this.open;
    if (!totals) return;
    // Zeros are left out.
    const { unread = 0 } = totals;
    bell.setAttribute("aria-expanded", String(this.open));
    bell.setAttribute("aria-label", say("bell", unread));
    $("bell-count").textContent = unread ? String(unread) : "";
    $("bell-count").hidden = !unread;
    // Read aloud when it changes.
    if ($("bell-said").textContent !== say("bell", unread)) $("bell-said").textContent = say("bell", unread);
    if (this.open) this.list(unread);
  }

  list(unread) {
    const within = $("notices").contains(document.activeElement);
    $("read-all").disabled = !unread;
    $("no-notices").hidden = this.listed.length > 0;
    keep($("notice-list"), this.listed.map((one) => this.row(one)));
    // The button that had the focus may be gone.
    if (within && !$("notices").contains(document.activeElement)) ($("notice-list").querySelector("button") || $("bell")).focus();
  }

  row({ notice, read, confirmed }) {
    const time = new Date(notice.publishTime).toLocaleDateString(locale());
    const state = confirmed ? say("confirmed") : say(read ? "read" : "unreadNotice");
    const item = make("li", read ? "notice" : "notice unread", make("h3", "", notice.title), make("p", "", notice.body || ""), make("span", "about", `${time} · ${state}`));
    const button = (word, fields) => {
      const button = make("button", "quiet", say(word));
      button.type = "button";
      button.setAttribute("aria-label", `${say(word)}: ${notice.title}`);
      button.onclick = () => this.mark({ noticeIds: [notice.noticeId], ...fields });
      item.append(button);
    };
    if (!read) button("markRead", {});
    if (notice.mustConfirm && !confirmed) button("confirm", { confirm: true });
    return keyed(item, notice.noticeId);
  }
}
