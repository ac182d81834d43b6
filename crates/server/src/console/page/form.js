// A form for any call.

import { failureOf, methods, send } from "./calls.js";
import { $, make, time } from "./view.js";

// The most characters of an answer that are shown.
const SHOWN = 100_000;
// Headers that say where an answer comes from and how old it is.
const HEADERS = ["kith-tier", "kith-version", "kith-age-ms"];

let about = new Map();
let loaded = Promise.resolve();

export function drawMethods() {
  const drawing = draw();
  loaded = drawing.catch(() => {});
  return drawing;
}

async function draw() {
  about = await methods();
  $("methods").replaceChildren(...[...about.keys()].map((name) => Object.assign(make("option"), { value: name })));
  describe();
}

// A method by its whole name, or by its end, such as UserService/GetUser or GetUser, if no other ends so.
function method() {
  const text = $("method").value.trim().replace(/^\/+/, "");
  const ends = [...about.keys()].filter((name) => name.endsWith(`.${text}`) || name.endsWith(`/${text}`));
  return about.has(text) || ends.length !== 1 ? text : ends[0];
}

function describe() {
  $("method-about").textContent = about.get(method()) ?? "";
}

async function submit() {
  // A short name is found once the methods are known.
  await loaded;
  const user = $("acting-user").value.trim();
  const name = method();
  $("call-problem").textContent = "";
  $("call-about").textContent = "…";
  const begun = performance.now();
  try {
    const { answer, text } = await send(name, $("message").value.trim() || "{}", user ? { "kith-acting-user": user } : {});
    const took = time((performance.now() - begun) / 1000);
    const found = HEADERS.map((header) => [header, answer.headers.get(header) ?? answer.headers.get(`trailer-${header}`)]);
    const headers = found.filter(([, value]) => value).map((pair) => pair.join(": "));
    $("call-about").textContent = [`${name} took ${took}`, ...headers].join(" · ");
    if (!answer.ok) $("call-problem").textContent = failureOf(answer, text).message;
    show(text);
  } catch (error) {
    $("call-about").textContent = "";
    $("call-problem").textContent = error.message;
    $("answer").hidden = true;
  }
}

function show(text) {
  const shown = pretty(text);
  const cut = shown.length > SHOWN;
  $("answer").textContent = cut ? `${shown.slice(0, SHOWN)}\n… (${SHOWN} of ${shown.length} characters)` : shown;
  $("answer").hidden = false;
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

$("method").oninput = describe;
$("call").onsubmit = (event) => {
  event.preventDefault();
  submit();
};
$("message").onkeydown = (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) $("call").requestSubmit();
};
