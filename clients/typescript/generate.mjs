// Writes `src/gen`: the messages and services of the contract, their list, its number, and the reasons of errors.
import { execFileSync } from "node:child_process";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";

execFileSync("node_modules/.bin/buf", ["generate", "../../proto"], { stdio: "inherit" });
const protos = readdirSync("../../proto", { recursive: true }).filter((name) => name.endsWith(".proto")).toSorted().map((name) => [name, readFileSync(`../../proto/${name}`, "utf8")]);
const errors = readFileSync("../../docs/reference/errors.md", "utf8");
const reasons = [...errors.matchAll(/^## ([A-Z_]+)$/gm)].map(([, reason]) => `  | "${reason}"`);
if (reasons.length < 20) throw new Error("docs/reference/errors.md has no reasons");
writeFileSync("src/gen/reasons.ts", `/** The reasons of errors that this version knows. Newer nodes may have others. */\nexport type KnownReason =\n${reasons.join("\n")};\n`);
const [, contract] = /^pub const CONTRACT: u32 = (\d+);$/m.exec(readFileSync("../../crates/proto/src/lib.rs", "utf8"));
writeFileSync("src/gen/contract.ts", `/** The number of the contract that this client is made for. */\nexport const CONTRACT = ${contract};\n`);

const services = protos.flatMap(([name, text]) => [...text.matchAll(/^service (\w+) /gm)].map(([, service]) => `export { ${service} } from "./${name.replace(".proto", "_pb.js")}";\n`));
writeFileSync("src/gen/services.ts", services.join(""));

