// One record's copies in each tier on each node, as `kith inspect` shows them, again and again.

import { admin } from "./calls.js";
import { $, count, make, seconds, table, time } from "./view.js";

// The most changes that are listed.
const CHANGES = 50;

let followed = "";
// Since when this page sees a copy as stale, by node and tier; and what each held when it was seen last.
const staleSince = new Map();
const held = new Map();

export async function drawNamespaces() {
  const { namespaces = [] } = await admin("GetCacheStats");
  const names = namespaces.map(({ namespace }) => namespace).sort();
  $("namespace").replaceChildren(...names.map((name) => make("option", "", name)));
  if (names.includes("user")) $("namespace").value = "user";
}

export function follow(key) {
  followed = key;
  staleSince.clear();
  held.clear();
  $("unfollow").hidden = !key;
  $("changes").hidden = true;
  for (const id of ["change-list", "copies", "verdict"]) $(id).replaceChildren();
}

export async function drawRecord() {
  if (!followed) return;
  const key = followed;
  const found = await admin("InspectKey", { key });
  // Another record may have been chosen meanwhile.
  if (key !== followed) return;
  const copies = copiesOf(found);
  const stored = Math.max(...copies.filter(isStore).map(({ version }) => version));
  const kept = copies.find((copy) => isStore(copy) && copy.version === stored);
  const rows = copies.map((copy) => ({ copy, judged: judge(copy, kept) }));
  rows.forEach(({ copy, judged }) => note(copy, judged));
  table("copies", "", ["Node", "Tier", "Has", "Version", "Age", "Expires in", "Bytes", "Verdict"], rows.map(row));
  verdict(found, rows, kept);
}

function copiesOf({ nodeId, copies = [], others = [] }) {
  const of = (node, all) =>
    all.map(({ tier, presence = "PRESENCE_NONE", version = 0, age, ttl, sizeBytes = 0 }) => {
      return { node, tier, presence, version: Number(version), age: seconds(age), ttl: seconds(ttl), bytes: Number(sizeBytes) };
    });
  return [...of(`${nodeId} (this one)`, copies), ...others.flatMap((other) => of(other.nodeId || other.address, other.copies ?? []))];
}

const isStore = ({ tier }) => tier === "store";

function judge(copy, kept) {
  const place = `${copy.node} ${copy.tier}`;
  const judged = against(copy, kept);
  if (judged !== "stale") staleSince.delete(place);
  else if (!staleSince.has(place)) staleSince.set(place, performance.now());
  return judged;
}

// A copy is stale if the store, asked in the same call, has a newer version, or a record where the copy has none.
function against({ tier, presence, version }, kept) {
  if (tier === "store") return "store";
  if (presence === "PRESENCE_NONE") return "none";
  if (!kept) return "unknown";
  if (presence !== stateOf(kept)) return "stale";
  if (presence === "PRESENCE_NULL" || version === kept.version) return "current";
  return version < kept.version ? "stale" : "newer";
}

// The store has no record: for a copy, this is a known absence.
const stateOf = ({ presence }) => (presence === "PRESENCE_NONE" ? "PRESENCE_NULL" : presence);

const HAS = { PRESENCE_VALUE: "the record", PRESENCE_NULL: "that there is none", PRESENCE_NONE: "nothing" };

function row({ copy, judged }) {
  const { node, tier, presence, version, age, ttl, bytes } = copy;
  const cells = [node, tier, HAS[presence] ?? presence, version ? String(version) : "", time(age), time(ttl), bytes ? count(bytes) : "", text(copy, judged)];
  return { look: judged === "stale" ? "bad" : "", cells };
}

const SAID = { store: "the truth", none: "", unknown: "not compared", newer: "newer than the store" };

function text({ node, tier, age }, judged) {
  if (judged === "current") return make("span", "good", "current");
  if (judged !== "stale") return SAID[judged];
  // The copy was right when it was read from the store.
  const most = age === undefined ? "" : `, at most ${time(age)}`;
  const least = (performance.now() - staleSince.get(`${node} ${tier}`)) / 1000;
  return make("strong", "bad", `STALE for at least ${time(least)}${most}`);
}

function note({ node, tier, presence, version }, judged) {
  const place = `${node} ${tier}`;
  const now = `${HAS[presence] ?? presence}${version ? `, version ${version}` : ""}${judged === "stale" ? ", stale" : ""}`;
  const before = held.get(place);
  held.set(place, now);
  if (before === undefined || before === now) return;
  const list = $("change-list");
  list.prepend(make("li", "", `${new Date().toLocaleTimeString("en-GB")} ${place}: ${before} → ${now}`));
  while (list.children.length > CHANGES) list.lastElementChild.remove();
  $("changes").hidden = false;
}

function verdict({ others = [], complete }, rows, kept) {
  const stale = rows.filter(({ judged }) => judged === "stale").length;
  const version = kept?.version ? ` (version ${kept.version})` : "";
  const said = !kept ? "the store did not answer" : stale ? `${stale} stale ${stale === 1 ? "copy" : "copies"}: the store has another state${version}` : `every copy is what the store has${version}`;
  const silent = others.filter(({ unanswered }) => unanswered).map(({ address, nodeId, unanswered }) => `${address || nodeId}: ${unanswered}`);
  if (!complete) silent.push("Redis does not answer: which other nodes there are is not known");
  $("verdict").textContent = `${followed}: ${said}`;
  $("verdict").className = stale ? "bad" : "good";
  $("record-problem").textContent = silent.join("; ");
}
