// The nodes of the cluster, and whether each may use its memory.

import { $, count, make, seconds, table, time } from "./view.js";

// A node that was silent for longer may not use its memory: the default of cluster.trust, and 1.5 s.
const TRUST = 3;

export function drawNodes(own, { nodes = [], complete }) {
  $("nodes-problem").textContent = complete ? "" : "Redis does not answer: which other nodes there are is not known";
  const columns = ["Node", "Address", "Version", "State", "Trust", "Log entries applied", "Epoch", "Callers", "Up"];
  const rows = nodes.map((node) => (node.nodeId === own.nodeId ? ownRow(own, node) : otherRow(own, node)));
  table("nodes", "", columns, rows);
}

function ownRow(own, node) {
  const wrong = problems(own);
  const state = wrong.length ? `degraded: ${wrong.join(", ")}` : "healthy";
  const proof = seconds(own.sinceProof);
  const proved = proof === undefined ? "" : `, proved ${time(proof)} ago`;
  const trust = own.trusted ? look("good", `trusts its memory${proved}`) : look("bad", `does not trust its memory${proved}`);
  const behind = Number(own.entriesBehind ?? 0);
  const applied = behind ? look("bad", `${count(own.applied ?? 0)}, ${count(behind)} behind`) : count(own.applied ?? 0);
  return row(node, `${node.nodeId} (this one)`, [look(wrong.length ? "bad" : "good", state), trust, applied, callers(own, node), up(own, node)]);
}

function otherRow(own, node) {
  const heard = seconds(node.lastHeard);
  const silent = heard === undefined || heard > TRUST;
  const trust = silent ? look("bad", `silent for ${time(heard) || "long"}: may not use its memory`) : look("good", `proved ${time(heard)} ago`);
  return row(node, node.nodeId || "of another version", ["listed", trust, count(node.applied ?? 0), callers(own, node), up(own, node)]);
}

function row({ address = "", version = "", epoch = 0 }, name, [state, trust, applied, known, since]) {
  return { cells: [name, address || "-", version, state, trust, applied, String(epoch), known, since] };
}

// Why a node that answers is degraded.
function problems({ state, storeAnswers, trusted, redis = "", redisBreaker = "", damagedReads = 0 }) {
  return [
    state !== "serving" && state,
    !storeAnswers && "store does not answer",
    !trusted && "memory not trusted",
    redis && redis !== "follows" && `Redis ${redis}`,
    redisBreaker && redisBreaker !== "closed" && `breaker ${redisBreaker}`,
    Number(damagedReads) > 0 && "damaged data was read",
  ].filter(Boolean);
}

// Nodes that know other callers have not read a changed file yet.
function callers(own, { callersDigest = "" }) {
  if (!callersDigest) return "-";
  return callersDigest === own.callersDigest ? "the same" : look("bad", "others");
}

const up = ({ time: now }, { startTime }) => (startTime ? time((Date.parse(now) - Date.parse(startTime)) / 1000) : "-");

const look = (name, text) => make("span", name, text);
