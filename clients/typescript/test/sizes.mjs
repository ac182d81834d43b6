// Sizes of the entries as a page loads them, minified and compressed: `node sizes.mjs FOLDER`.
import { build } from "esbuild";
import { gzipSync } from "node:zlib";

const [folder] = process.argv.slice(2);
for (const [entry, most] of [["chat", 25], ["connect", 50]]) {
  const options = { bundle: true, minify: true, format: "esm", platform: "browser", write: false, logLevel: "error" };
  const { outputFiles } = await build({ ...options, absWorkingDir: folder, entryPoints: [`${entry}.mjs`] });
  const kib = gzipSync(outputFiles[0].contents, { level: 9 }).length / 1024;
  console.log(`bundle ${entry}: ${kib.toFixed(1)} KiB, at most ${most}`);
  if (kib > most) process.exitCode = 1;
}
