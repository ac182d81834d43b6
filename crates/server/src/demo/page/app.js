// Choosing a name, and what the keys and buttons do.

import { audiencesOf } from "./notices.js";
import { Talk } from "./talk.js";
import { View, face, make } from "./view.js";
import { say, sayAll, switchLanguage } from "./words.js";

const PEOPLE = 200;
const FRAMES = 60;
const FRAME_SHOWN = 160;
const $ = (id) => document.getElementById(id);

let [talk, view] = [null, null];

// The people of the demo, by one call as JSON: no socket is needed for it.
async function people() {
  const userIds = Array.from({ length: PEOPLE }, (_, at) => String(at + 1));
  const headers = { "content-type": "application/json" };
  const answer = await fetch("/kith.user.v1.UserService/BatchGetUsers", { method: "POST", headers, body: JSON.stringify({ userIds }) });
  const { results = [] } = answer.ok ? await answer.json() : {};
  return new Map(results.filter(({ user }) => user).map(({ user }) => [user.userId, user.nickName || user.userName]));
}

async function choose() {
  const all = await people().catch(() => new Map());
  $("choose-problem").textContent = all.size ? "" : say("noPeople");
  const list = () => {
    const wanted = $("filter").value.trim().toLowerCase();
    const fits = [...all].filter(([, name]) => name.toLowerCase().includes(wanted));
    $("people").replaceChildren(...fits.map(([id, name]) => person(id, name, all)));
  };
  $("filter").oninput = list;
  list();
  const remembered = new URLSearchParams(location.search).get("user") || sessionStorage.getItem("kith-user");
  if (remembered && all.has(remembered)) start(remembered, all);
  else $("filter").focus();
}

function person(id, name, all) {
  const icon = face(make("span", "face"), id, name);
  icon.setAttribute("aria-hidden", "true");
  const button = make("button", "row", icon, make("span", "names", name));
  button.type = "button";
  button.onclick = () => start(id, all);
  return make("li", "", button);
}

async function start(me, all) {
  sessionStorage.setItem("kith-user", me);
  const name = all.get(me);
  document.title = `${name} · Kith`;
  $("me-name").textContent = name;
  face($("me-face"), me, name);
  $("choose").hidden = true;
  $("app").hidden = false;
  talk = new Talk(me, all, () => view?.draw(), wire, await audiencesOf(me));
  view = new View(talk, { show, seen: (chat, upTo, atEnd) => talk.seen(chat, upTo, atEnd), recall: (id, seq) => talk.recall(id, seq), who: (id, seq) => talk.who(id, seq), again: (chat, pending) => talk.enqueue(chat, pending) });
  view.draw();
}

async function show(id) {
  await talk.show(id);
  $("text").focus();
}

// The last frames of the socket, shortened.
function wire(way, data) {
  const text = data.length > FRAME_SHOWN ? `${data.slice(0, FRAME_SHOWN)}…` : data;
  $("wire").prepend(make("li", way, text));
  while ($("wire").children.length > FRAMES) $("wire").lastElementChild.remove();
}

function leave() {
  sessionStorage.removeItem("kith-user");
  location.assign("/demo");
}

function send() {
  const text = $("text").value.trim();
  if (!text || !talk.open) return;
  talk.say(text);
  $("text").value = "";
  grow();
  mentions();
}

function grow() {
  $("text").rows = Math.min(5, $("text").value.split("\n").length);
}

// After @ and some letters: the members whose names begin so.
function mentions() {
  const word = /(?:^|\s)@(\S*)$/.exec($("text").value.slice(0, $("text").selectionStart));
  const members = word && talk.open ? talk.chats.groups.get(talk.open)?.members || [] : [];
  const begins = (user) => talk.chats.name(user).toLowerCase().startsWith(word[1].toLowerCase());
  const fits = members.filter((user) => user !== talk.me && begins(user)).slice(0, 5);
  $("mentions").hidden = !fits.length;
  $("mentions").replaceChildren(...fits.map((user) => mention(word[1], talk.chats.name(user))));
}

function mention(begun, name) {
  const button = make("button", "row", `@${name}`);
  button.type = "button";
  button.onclick = () => {
    const [text, at] = [$("text").value, $("text").selectionStart];
    $("text").value = `${text.slice(0, at - begun.length)}${name} ${text.slice(at)}`;
    $("text").focus();
    mentions();
  };
  return make("li", "", button);
}

for (const button of document.querySelectorAll(".language")) {
  button.onclick = () => {
    switchLanguage();
    view?.draw();
  };
}
$("leave").onclick = leave;
$("bell").onclick = () => talk.bell.toggle();
$("read-all").onclick = () => talk.bell.mark({ all: true });
for (const id of ["bell", "notices"]) {
  $(id).onkeydown = ({ key }) => {
    if (key !== "Escape" || !talk.bell.open) return;
    talk.bell.toggle(false);
    $("bell").focus();
  };
}
$("cut").onclick = () => talk.connection.cut();
$("back").onclick = () => {
  talk.open = null;
  view.draw();
};
$("write").onsubmit = (event) => {
  event.preventDefault();
  send();
};
$("text").onkeydown = (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    send();
  }
};
$("text").oninput = () => {
  grow();
  mentions();
  if ($("text").value) talk.typing();
};
$("newer").onclick = () => view.toEnd();
$("messages").onscroll = () => {
  view.look();
  const chat = talk.open && talk.chats.get(talk.open);
  if (!chat?.begun || !chat.more || $("messages").scrollTop > 40 || chat.loading) return;
  chat.loading = true;
  talk.older(chat).then(() => {
    chat.loading = false;
    view.older = chat.id;
  });
};
document.addEventListener("visibilitychange", () => {
  view?.draw();
});
sayAll();
choose();
