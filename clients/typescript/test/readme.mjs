// The lines of the README, against the packed client: all are compiled, and those of `ts run` run against a node.
import { execFileSync, spawn } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";

const [folder] = process.argv.slice(2);
const blocks = [...readFileSync("README.md", "utf8").matchAll(/^```ts( run)?\n([\s\S]*?)^```$/gm)];
if (blocks.length < 4) throw new Error("the README has no lines");
for (const [at, [, , text]] of blocks.entries()) writeFileSync(`${folder}/readme${at}.ts`, text);
const compilerOptions = { target: "es2022", module: "nodenext", lib: ["es2023", "dom", "dom.iterable"], types: ["node"], typeRoots: [`${process.cwd()}/node_modules/@types`], strict: true, exactOptionalPropertyTypes: true, noUncheckedIndexedAccess: true, skipLibCheck: true };
writeFileSync(`${folder}/tsconfig.json`, JSON.stringify({ compilerOptions, include: ["readme*.ts"] }));
execFileSync("node_modules/.bin/tsc", ["-p", folder], { stdio: "inherit" });

const ports = `${folder}/ports.json`;
// A node reads settings from variables of this name.
const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("KITH")));
const node = spawn(process.env.KITH, ["serve", "--ephemeral", "--port", "0", "--operations-port", "0", "--ports-file", ports, "--log", "error"], { env, stdio: ["ignore", "ignore", "inherit"] });
try {
  for (const end = performance.now() + 20_000; !existsSync(ports) || !readFileSync(ports, "utf8"); ) {
    if (performance.now() > end) throw new Error("the node does not start");
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  const KITH_ADDR = JSON.parse(readFileSync(ports, "utf8")).grpc;
  const outputs = blocks.flatMap(([, run], at) => (run ? [execFileSync("node", [`readme${at}.js`], { cwd: folder, env: { ...env, KITH_ADDR }, encoding: "utf8" })] : []));
  const wanted = ["message 1", "2 users", "NAME_TAKEN"];
  const missing = wanted.filter((line) => !outputs.join("").split("\n").includes(line));
  if (missing.length) throw new Error(`the README did not print ${missing}: ${outputs.join("")}`);
  console.log(`README: ${blocks.length} blocks compile, ${outputs.length} run`);
} finally {
  node.kill();
}
