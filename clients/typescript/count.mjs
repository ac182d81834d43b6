// Counts hand-written lines, without blank lines and comments. Fails above the limits, which rise with a new domain alone.
import { readFileSync, readdirSync } from "node:fs";

const lines = (path) => readFileSync(path, "utf8").replace(/\/\*[\s\S]*?\*\//g, "").split("\n").filter((line) => line.trim() && !line.trim().startsWith("//")).length;
const count = (folder) => readdirSync(folder).filter((name) => name.endsWith(".ts")).reduce((sum, name) => sum + lines(`${folder}/${name}`), 0);
for (const [name, folder, most] of [["client", "src", 600], ["chat session", "src/chat", 1445]]) {
  console.log(`${name}: ${count(folder)} lines, at most ${most}`);
  if (count(folder) > most) process.exitCode = 1;
}
