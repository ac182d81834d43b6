// Two people in Chromium, and a node that is killed: `KITH=path/to/kith node test.mjs`, after `npm run build` with VITE_KITH=KITH_HERE.
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { createServer as createPort } from "node:net";
import { tmpdir } from "node:os";
import { extname, join } from "node:path";
import { chromium } from "playwright-core";

const TYPES = { ".html": "text/html; charset=utf-8", ".js": "text/javascript", ".css": "text/css" };
const WAIT = 20_000;

const listening = (server) => new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(server.address().port)));
const freePort = async () => {
  const server = createPort();
  const port = await listening(server);
  await new Promise((resolve) => server.close(resolve));
  return port;
};
async function until(what, holds) {
  for (const end = performance.now() + WAIT; !(await holds()); ) {
    if (performance.now() > end) throw new Error(`never: ${what}; ${await Promise.all(browser.contexts().flatMap((one) => one.pages()).map((page) => page.title()))}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
const same = (what, got, wanted) => {
  if (JSON.stringify(got) !== JSON.stringify(wanted)) throw new Error(`${what}: ${JSON.stringify(got)}, not ${JSON.stringify(wanted)}`);
};

const folder = mkdtempSync(join(tmpdir(), "web-chat-"));
const port = await freePort();
const pages = createServer(({ url }, answer) => {
  const file = url.split("?")[0] === "/" ? "/index.html" : url.split("?")[0];
  try {
    // The address of the node is not known when the page is built.
    const text = readFileSync(join("dist", file), "utf8").replaceAll("KITH_HERE", `http://127.0.0.1:${port}`);
    answer.writeHead(200, { "content-type": TYPES[extname(file)] ?? "text/plain" }).end(text);
  } catch {
    answer.writeHead(404).end();
  }
});
const origin = `http://127.0.0.1:${await listening(pages)}`;
// A node reads settings from variables of this name.
const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("KITH")));
let node;
async function startNode() {
  const set = { "ws.enabled": "true", "ws.trusted": "true", "http.cors.origins": origin, "ws.ping_every": "5s" };
  const options = ["--port", port, "--operations-port", "0", "--data-dir", join(folder, "data"), "--log", "error", ...Object.entries(set).flatMap(([key, value]) => ["--set", `${key}=${value}`])];
  node = spawn(process.env.KITH ?? "kith", ["serve", ...options.map(String)], { env, stdio: ["ignore", "ignore", "inherit"] });
  await until("the node serves", () => fetch(`http://127.0.0.1:${port}/kith.user.v1.UserService/GetUser`, { method: "POST", headers: { "content-type": "application/json" }, body: "{}" }).then(() => true, () => false));
}
const kill = () => new Promise((resolve) => (node.once("exit", resolve), node.kill("SIGKILL")));

await startNode();
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
const problems = [];
async function open(context) {
  const page = await context.newPage();
  page.sockets = 0;
  page.on("websocket", () => page.sockets++);
  page.on("pageerror", (error) => problems.push(String(error)));
  await page.goto(origin);
  return page;
}
async function person(name, options) {
  const context = await browser.newContext(options);
  const page = await open(context);
  await page.fill("#name", name);
  await page.press("#name", "Enter");
  await live(page);
  return { context, page };
}
const live = (page) => page.waitForSelector('.state[data-status="live"]', { timeout: WAIT, state: "attached" });
const texts = (page) => page.$$eval("#messages li", (rows) => rows.map((row) => [...row.childNodes].filter(({ nodeType }) => nodeType === 3).map(({ textContent }) => textContent).join("")));
const shows = (page, ...wanted) => until(`shows ${wanted}`, async () => (await texts(page)).filter((text) => wanted.includes(text)).length === wanted.length && (await page.$$("#messages .pending")).length === 0);
const say = async (page, text) => (await page.fill("#text", text), await page.press("#text", "Enter"));
async function talkTo(page, name) {
  await page.fill("#other", name);
  await page.press("#other", "Enter");
  await until("the chat is open", async () => (await page.textContent("header strong")) === name);
}

try {
  const ann = await person("Ann");
  const bea = await person("Bea", { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true });
  await talkTo(ann.page, "Bea");
  await say(ann.page, "Hello, Bea");
  console.log("a message arrives, is counted, and is read when it is seen");
  await until("one unread", async () => (await bea.page.$$eval("#chats b", (all) => all.map((one) => one.textContent))).join() === "1");
  same("not read", await ann.page.$eval("#messages li i", (mark) => mark.textContent), " ✓");
  await bea.page.tap("#chats li");
  await shows(bea.page, "Hello, Bea");
  await until("read", async () => (await ann.page.$eval("#messages li i", (mark) => mark.textContent)) === " ✓✓");

  console.log("Chinese, on a phone, without a bar to scroll sideways");
  await say(bea.page, "你好，安！今天见面吗？".repeat(8));
  await shows(ann.page, "Hello, Bea", "你好，安！今天见面吗？".repeat(8));
  same("overflow", await bea.page.evaluate(() => document.documentElement.scrollWidth - innerWidth), 0);
  same("height of the button", await bea.page.$eval("#write button", (button) => button.clientHeight < 60), true);

  console.log("two tabs have one socket");
  const second = await open(ann.context);
  await live(second);
  await talkTo(second, "Bea");
  await say(second, "from the second tab");
  await shows(ann.page, "Hello, Bea", "from the second tab");
  await shows(bea.page, "from the second tab");
  same("sockets of the second tab", second.sockets, 0);

  console.log("kill -9: what is written meanwhile outlives a reload, and is stored once");
  await kill();
  await until("the phone says so", async () => /offline|connecting/.test((await bea.page.textContent("header i")) ?? ""));
  await say(ann.page, "written in the dark");
  await say(bea.page, "没有网络");
  await until("pending", async () => (await ann.page.$$("#messages .pending")).length === 1);
  await ann.page.reload();
  await bea.page.reload();
  await until("pending after the reload", async () => (await ann.page.$$("#messages .pending")).length === 1 && (await bea.page.$$("#messages .pending")).length === 1);
  await startNode();
  for (const page of [ann.page, second, bea.page]) await live(page);
  for (const page of [ann.page, second, bea.page]) await shows(page, "written in the dark", "没有网络");
  const everywhere = await Promise.all([ann.page, second, bea.page].map(texts));
  same("the same for all", everywhere[1], everywhere[0]);
  same("each once", new Set(everywhere[0]).size, everywhere[0].length);

  // Headless Chromium does not freeze pages; the debugger stops everything in one.
  console.log("a frozen tab loses its socket to a visible one");
  const leader = second.sockets > 0 ? second : ann.page;
  const other = leader === second ? ann.page : second;
  const devtools = await ann.context.newCDPSession(leader);
  await devtools.send("Debugger.enable");
  await devtools.send("Debugger.pause");
  const before = other.sockets;
  await until("taken over", () => other.sockets > before);
  await live(other);
  await say(other, "the other one froze");
  await shows(bea.page, "the other one froze");
  await devtools.send("Debugger.resume");
  await shows(leader, "the other one froze");

  console.log("a closed tab gives up its socket, too");
  await other.close();
  await say(leader, "alone again");
  await shows(bea.page, "alone again");

  console.log("storage that is deleted is read again");
  const storage = await ann.context.newCDPSession(leader);
  await storage.send("Storage.clearDataForOrigin", { origin, storageTypes: "indexeddb" });
  await say(bea.page, "after the deletion");
  await shows(leader, "Hello, Bea", "after the deletion");

  console.log("who scrolls back has not read what comes");
  for (let at = 1; at <= 40; at++) await say(ann.page.isClosed() ? leader : ann.page, `line ${at}`);
  await shows(bea.page, "line 40");
  await until("the end is read", async () => (await bea.page.title()) === "Chat");
  await bea.page.$eval("#messages", (list) => (list.scrollTop = 0));
  await until("scrolled", async () => (await bea.page.$eval("#messages", (list) => list.scrollTop)) < 100);
  await say(leader, "unseen");
  await until("one unread", async () => (await bea.page.title()) === "(1) Chat");
  same("not read", await leader.$$eval("#messages li", (rows) => rows.at(-1)?.querySelector("i")?.textContent), " ✓");
  await bea.page.$eval("#messages", (list) => (list.scrollTop = list.scrollHeight));
  await until("read", async () => (await bea.page.title()) === "Chat");

  console.log("a sign-out removes everything");
  await leader.click("#leave");
  await leader.waitForSelector("#name", { timeout: WAIT, state: "attached" });
  same("databases", await leader.evaluate(async () => (await indexedDB.databases()).map(({ name }) => name)), []);
  same("errors of the pages", problems, []);
} finally {
  await browser.close();
  await kill();
  pages.close();
  rmSync(folder, { recursive: true, force: true });
}
