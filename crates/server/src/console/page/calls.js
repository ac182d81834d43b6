// Calls to the node over the port that served this page. The key is in this variable and nowhere else: it ends with the page.

const PATIENCE = 15_000;
const ADMIN = "kith.admin.v1.AdminService";

let key = "";

export function useKey(text) {
  key = text;
}

// What the node, or the way to it, answered instead of a message.
export class Failure extends Error {
  constructor(code, message, reason = "", field = "") {
    super([reason ? `${code} (${reason})` : code, field && `field ${field}`, message].filter(Boolean).join(": "));
    Object.assign(this, { code, reason, field });
  }
}

// Makes a call of `SERVICE/METHOD`. Returns its answer with the text of its body.
export async function send(method, body, headers = {}) {
  // Another text could name another host.
  if (!/^[\w.]+\/\w+$/.test(method)) throw new Failure("no method", "a method is SERVICE/METHOD, such as kith.user.v1.UserService/GetUser");
  const own = { "content-type": "application/json", ...(key && { authorization: `Bearer ${key}` }) };
  const options = { method: "POST", headers: { ...own, ...headers }, body, cache: "no-store", credentials: "omit", redirect: "error", signal: AbortSignal.timeout(PATIENCE) };
  try {
    const answer = await fetch(`/${method}`, options);
    return { answer, text: await answer.text() };
  } catch (error) {
    throw new Failure("no answer", error.name === "TimeoutError" ? `the node took longer than ${PATIENCE / 1000} s` : error.message);
  }
}

// The failure that an answer is.
export function failureOf({ status }, text) {
  let body = {};
  try {
    body = JSON.parse(text);
  } catch {
    return new Failure(`HTTP ${status}`, text.slice(0, 200));
  }
  const detail = (name) => body.details?.find(({ type }) => type === `google.rpc.${name}`)?.debug ?? {};
  const [violation = {}] = detail("BadRequest").fieldViolations ?? [];
  return new Failure(body.code ?? `HTTP ${status}`, body.message ?? "", detail("ErrorInfo").reason, violation.field);
}

// Calls the admin service. Returns the message.
export async function admin(method, message = {}) {
  const { answer, text } = await send(`${ADMIN}/${method}`, JSON.stringify(message));
  if (!answer.ok) throw failureOf(answer, text);
  return JSON.parse(text);
}

// The samples of these metrics, by name: labels and value of each. They need no key.
export async function metrics(names) {
  const answer = await fetch("/metrics", { cache: "no-store", credentials: "omit", signal: AbortSignal.timeout(PATIENCE) });
  if (!answer.ok) throw new Failure(`HTTP ${answer.status}`, "no metrics");
  const found = new Map(names.map((name) => [name, []]));
  for (const line of (await answer.text()).split("\n")) {
    const [, name, labels = "", value] = /^(\w+)(?:\{(.*)\})? (\S+)$/.exec(line) ?? [];
    found.get(name)?.push({ labels: labelsOf(labels), value: Number(value) });
  }
  return found;
}

function labelsOf(text) {
  const pairs = [...text.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)];
  return Object.fromEntries(pairs.map(([, name, value]) => [name, value.replace(/\\(.)/g, "$1")]));
}

// What the node's OpenAPI document says about its methods: path to description. It needs no key.
export async function methods() {
  const answer = await fetch("/openapi.json", { credentials: "omit", signal: AbortSignal.timeout(PATIENCE) });
  const { paths = {} } = answer.ok ? await answer.json() : {};
  return new Map(Object.entries(paths).map(([path, { post }]) => [path.slice(1), post?.description ?? ""]));
}
