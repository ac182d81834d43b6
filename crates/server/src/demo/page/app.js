// Choosing a name, and what the keys and buttons do. The chat session does the rest.

import { openChat } from "./chat.js";
import { face, make } from "./elements.js";
import { Bell, audiencesOf } from "./notices.js";
import { Tokens, ask } from "./sign-in.js";
import { View } from "./view.js";
import { Wire, cut } from "./wire.js";
import { say, sayAll, switchLanguage } from "./words.js";

const PEOPLE = 200;
const READERS = 200;
const $ = (id) => document.getElementById(id);

let [chat, bell, view, tokens] = [null, null, null, null];
// Who has read a message, for those messages where the person has asked.
const readers = new Map();

// The people of the demo, by one call as JSON: no socket is needed for it. A node with an issuer refuses it.
async function people() {
  const userIds = Array.from({ length: PEOPLE }, (_, at) => String(at + 1));
  const headers = { "content-type": "application/json" };
  const answer = await fetch("/kith.user.v1.UserService/BatchGetUsers", { method: "POST", headers, body: JSON.stringify({ userIds }) });
  if (answer.status === 401) return null;
  const { results = [] } = answer.ok ? await answer.json() : {};
  return new Map(results.filter(({ user }) => user).map(({ user }) => [user.userId, user]));
}

async function choose() {
  const all = await people().catch(() => new Map());
  if (!all) return signIn();
  $("choose-problem").textContent = all.size ? "" : say("noPeople");
  const list = () => {
    const wanted = $("filter").value.trim().toLowerCase();
    const fits = [...all.values()].filter((user) => nameOf(user).toLowerCase().includes(wanted));
    $("people").replaceChildren(...fits.map(person));
  };
  $("filter").oninput = list;
  list();
  const remembered = new URLSearchParams(location.search).get("user") || sessionStorage.getItem("kith-user");
  if (remembered && all.has(remembered)) start(remembered);
  else $("filter").focus();
}

async function signIn() {
  $("choose").hidden = true;
  const { user, token } = await ask();
  tokens = new Tokens(user, token);
  start(user);
}

const nameOf = ({ nickName, userName }) => nickName || userName;

function person(user) {
  const picture = face(make("span", "face"), user.userId, nameOf(user), user.icon);
  picture.setAttribute("aria-hidden", "true");
  const button = make("button", "row", picture, make("span", "names", nameOf(user)));
  button.type = "button";
  button.onclick = () => start(user.userId);
  return make("li", "", button);
}

async function start(user) {
  if (!tokens) sessionStorage.setItem("kith-user", user);
  $("choose").hidden = true;
  $("app").hidden = false;
  const noticeAudiences = await audiencesOf(user, tokens?.token);
  const token = tokens && { token: () => tokens.give() };
  const onFrame = ({ error }) => error?.code === "unauthenticated" && tokens?.refused();
  chat = openChat({ user, ...token, device: "demo", noticeAudiences, onFrame, environment: { webSocket: Wire } });
  bell = new Bell(chat, () => view.draw());
  view = new View(chat, bell, { show, recall: (id, seq) => tried(chat.recall(id, seq)), react, who, readers: readersOf });
  chat.subscribe(() => view.draw());
  view.draw();
}

async function show(id) {
  view.show(id);
  $("text").focus();
  await chat.open(id);
}

// What the node refuses is said where the person looks.
function tried(work) {
  work.then(() => ($("problem").textContent = ""), ({ message }) => ($("problem").textContent = message));
}

function react(id, seq, kind, isThere) {
  tried(isThere ? chat.react(id, seq, kind) : chat.unreact(id, seq, kind));
}

// Asks who has read a message. `has`: how many have, by which it is asked again when more have.
async function who(id, seq, has) {
  const known = readers.get(`${id}/${seq}`)?.users ?? [];
  readers.set(`${id}/${seq}`, { has, users: known });
  const { userIds } = await chat.call("ListReaders", { conversationId: id, seq: String(seq), pageSize: READERS }).catch(() => ({}));
  if (userIds) readers.set(`${id}/${seq}`, { has, users: userIds });
  view.draw();
}

function readersOf(id, seq, has) {
  const known = readers.get(`${id}/${seq}`);
  if (known && known.has !== has) who(id, seq, has);
  return known?.users;
}

async function leave() {
  sessionStorage.removeItem("kith-user");
  await (tokens ? chat.signOut() : chat.close());
  location.assign("/demo");
}

const opened = () => chat?.getSnapshot().conversations.find(({ id }) => id === view.open);

function send() {
  const text = $("text").value.trim();
  if (!text || !view.open) return;
  const { members = [] } = opened() ?? {};
  const mentionIds = members.filter((user) => text.includes(`@${chat.getSnapshot().nameOf(user)}`)).slice(0, 50);
  chat.send(view.open, text, { mentionIds });
  view.toEnd();
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
  const { me, nameOf } = chat.getSnapshot();
  const begins = (user) => nameOf(user).toLowerCase().startsWith(word[1].toLowerCase());
  const fits = word ? (opened()?.members ?? []).filter((user) => user !== me && begins(user)).slice(0, 5) : [];
  $("mentions").hidden = !fits.length;
  $("mentions").replaceChildren(...fits.map((user) => mention(word[1], nameOf(user))));
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
$("bell").onclick = () => bell.toggle();
$("read-all").onclick = () => bell.mark({ all: true });
for (const id of ["bell", "notices"]) {
  $(id).onkeydown = ({ key }) => {
    if (key !== "Escape" || !bell.open) return;
    bell.toggle(false);
    $("bell").focus();
  };
}
$("cut").onclick = cut;
$("back").onclick = () => view.show("");
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
  if ($("text").value) chat.typing(view.open);
};
$("newer").onclick = () => view.toEnd();
$("messages").onscroll = async () => {
  const { id, hasOlder, messages } = opened() ?? {};
  if (view.isAtEnd()) $("newer").hidden = true;
  if (!hasOlder || !messages.length || $("messages").scrollTop > 40 || view.older) return;
  view.older = id;
  await chat.loadOlder(id);
  view.draw();
  requestAnimationFrame(() => (view.older = ""));
};
sayAll();
choose();
