// How old reads are, and which callers a node has, by its metrics: since the start, and in the last minute.

import { $, count, make, seconds, table, time } from "./view.js";

const MINUTE = 60_000;
const LAG = "kith_observer_lag_seconds_bucket";
const PROPAGATION = "kith_bus_propagation_seconds_bucket";
const OBSERVED = "kith_observer_stale_total";
const COMPARED = "kith_cache_resync_stale_total";
const CALLS = "kith_caller_calls_total";
const QUOTAS = "kith_user_quota_refused_total";
const REFUSED = "kith_auth_refused_total";
const SHED = "kith_rpc_shed_total";

export const NAMES = [LAG, PROPAGATION, OBSERVED, COMPARED, CALLS, QUOTAS, REFUSED, SHED];

// Readings of the last minute, the oldest first.
let readings = [];

// Draws a reading of the metrics, and what the node says about itself.
export function drawFigures(found, node) {
  const at = performance.now();
  readings = [...readings.filter((reading) => at - reading.at < MINUTE), { at, found }];
  const [{ found: before, at: since }] = readings;
  drawAges(found, before, node);
  drawCallers(found, before, (at - since) / 1000);
  drawQuotas(found, before);
}

const id = ({ labels }) => Object.values(labels).join(" ");
const sum = (samples) => samples.reduce((total, { value }) => total + value, 0);

// What was counted between two readings.
function between(name, found, before) {
  const old = new Map(before.get(name).map((sample) => [id(sample), sample.value]));
  return found.get(name).map((sample) => ({ ...sample, value: sample.value - (old.get(id(sample)) ?? 0) }));
}

// The lowest bound of a bucket that has this share of the samples; undefined if there are none.
function within(buckets, share) {
  const bounds = buckets.map(({ labels, value }) => ({ bound: labels.le === "+Inf" ? Infinity : Number(labels.le), value }));
  bounds.sort((one, other) => one.bound - other.bound);
  const all = bounds.at(-1)?.value ?? 0;
  return all ? bounds.find(({ value }) => value >= all * share).bound : undefined;
}

function drawAges(found, before, node) {
  const rows = node.redis ? clusterAges(found, before, node) : [];
  rows.push({ cells: ["Copies stale for longer than their bound", "0", ...counted(COMPARED, found, before)] });
  const alone = "single-node mode: a read has every acknowledged write";
  table("ages", node.redis ? "" : alone, ["Measured by this node", "Promise", "Last minute", "Since its start"], rows);
}

function clusterAges(found, before, node) {
  const age = (name, label, share, promise, promised) => {
    const of = (buckets) => bounded(within(buckets, share), promise);
    return { cells: [label, promised, of(between(name, found, before)), of(found.get(name))] };
  };
  const proof = seconds(node.sinceProof);
  return [
    age(LAG, "Write seen on another node, 99 of 100", 0.99, 0.05, "50 ms"),
    age(LAG, "Write seen on another node, slowest", 1, 1, "1 s"),
    age(PROPAGATION, "Change of another node applied here, 99 of 100", 0.99, 0.05, "50 ms"),
    { cells: ["Last proof that no change was missed", "1.5 s", bounded(proof, 1.5, ""), ""] },
    { cells: ["Older copies found on trusting nodes", "0", ...counted(OBSERVED, found, before)] },
  ];
}

function bounded(value, promise, sign = "≤ ") {
  if (value === undefined) return "none yet";
  const text = value === Infinity ? "> 10 s" : `${sign}${time(value)}`;
  return make("span", value <= promise ? "good" : "bad", text);
}

function counted(name, found, before) {
  return [between(name, found, before), found.get(name)].map((samples) => {
    return make("span", sum(samples) ? "bad" : "good", count(sum(samples)));
  });
}

function drawCallers(found, before, period) {
  const recent = new Map(between(CALLS, found, before).map((sample) => [id(sample), sample.value]));
  const callers = new Map();
  for (const sample of found.get(CALLS)) {
    const { caller, code } = sample.labels;
    const entry = callers.get(caller) ?? { all: 0, recent: 0, errors: new Map() };
    entry.all += sample.value;
    entry.recent += recent.get(id(sample));
    if (code !== "OK") entry.errors.set(code, sample.value);
    callers.set(caller, entry);
  }
  const rows = [...callers].sort(([, one], [, other]) => other.recent - one.recent || other.all - one.all);
  const errors = (codes) => [...codes].sort(([, one], [, other]) => other - one).map(([code, value]) => `${code} ${count(value)}`).join(", ");
  table("callers", "Names in brackets are no configured callers", ["Caller", "Calls/s", "Calls", "Errors since the start"], rows.map(([caller, entry]) => {
    const rate = period > 0 ? (entry.recent / period).toFixed(1) : "-";
    return { cells: [caller, rate, count(entry.all), errors(entry.errors)] };
  }));
}

function drawQuotas(found, before) {
  const kinds = [[QUOTAS, "quota of users: "], [REFUSED, "credential or right: "], [SHED, "too many calls in progress"]];
  const rows = kinds.flatMap(([name, kind]) => {
    const recent = new Map(between(name, found, before).map((sample) => [id(sample), sample.value]));
    return found.get(name).map((sample) => ({ cells: [kind + id(sample), count(recent.get(id(sample))), count(sample.value)] }));
  });
  table("quotas", "", ["Refused because of", "Last minute", "Since its start"], rows);
}
