// The key, and what is read every two seconds while the page is looked at.

import { NAMES, drawFigures } from "./age.js";
import { admin, metrics, useKey } from "./calls.js";
import { drawMethods } from "./form.js";
import { drawNodes } from "./nodes.js";
import { drawNamespaces, drawRecord, follow } from "./record.js";
import { $ } from "./view.js";

const PAUSE = 2_000;

// Rises when a key is accepted or forgotten: what was asked before does not count.
let turn = 0;
// When each part was read last.
const readAt = new Map();
// What the node said about itself last.
let node = {};

// Shows the page if the node accepts the key, else asks for another.
async function enter(key) {
  useKey(key);
  try {
    await drawNamespaces();
  } catch ({ code, message }) {
    useKey("");
    return ask(code === "unauthenticated" && !key ? "" : message);
  }
  turn += 1;
  $("sign-in").hidden = true;
  $("main").hidden = false;
  $("forget").hidden = !key;
  if (key) $("record-key").focus();
  // What the node answers is shown at the form of calls.
  drawMethods().catch(({ message }) => ($("method-about").textContent = message));
  read(turn);
}

function ask(problem) {
  $("key-problem").textContent = problem;
  $("sign-in").hidden = false;
  $("key").focus();
}

// Forgets the key, and everything that was read with it.
function forget() {
  turn += 1;
  readAt.clear();
  useKey("");
  follow("");
  for (const id of ["nodes", "ages", "callers", "quotas", "answer", "about"]) $(id).replaceChildren();
  for (const id of ["main", "forget", "answer"]) $(id).hidden = true;
  ask("");
}

// A part that fails says so, and the others go on.
async function part(problem, draw) {
  try {
    await draw();
    readAt.set(problem, new Date().toLocaleTimeString("en-GB"));
  } catch ({ message }) {
    $(problem).textContent = readAt.has(problem) ? `as it was at ${readAt.get(problem)}: ${message}` : message;
  }
}

async function readNodes(of) {
  const [own, list] = await Promise.all([admin("GetNode"), admin("ListNodes")]);
  if (of !== turn) return;
  node = own;
  drawNodes(own, list);
  $("about").textContent = `${own.address || own.nodeId} at ${new Date().toLocaleTimeString("en-GB")}`;
}

async function readFigures(of) {
  const found = await metrics(NAMES);
  if (of !== turn) return;
  drawFigures(found, node);
  $("figures-problem").textContent = "";
}

async function read(of) {
  if (of !== turn) return;
  if (!document.hidden) {
    await part("nodes-problem", () => readNodes(of));
    await Promise.all([part("figures-problem", () => readFigures(of)), part("record-problem", drawRecord)]);
  }
  setTimeout(() => read(of), PAUSE);
}

$("sign-in").onsubmit = (event) => {
  event.preventDefault();
  const key = $("key").value.trim();
  $("key").value = "";
  enter(key);
};
$("forget").onclick = forget;
$("follow").onsubmit = (event) => {
  event.preventDefault();
  follow(`${$("namespace").value}/${$("record-key").value.trim()}`);
  part("record-problem", drawRecord);
};
$("unfollow").onclick = () => follow("");
enter("");
