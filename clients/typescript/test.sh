#!/usr/bin/env bash
# Everything of the TypeScript client, from a clean checkout. KITH: the node; KITH_SCRIPT: the node of the script.
set -euo pipefail
cd "$(dirname "$0")"
: "${KITH:?the program kith}" "${KITH_SCRIPT:?the program kith-script}"
export KITH CHROMIUM="${CHROMIUM:-/usr/bin/chromium}"
for program in node npm "$KITH" "$KITH_SCRIPT" "$CHROMIUM"; do
  command -v "$program" > /dev/null || { echo "missing: $program" >&2; exit 1; }
done
root="$(cd ../.. && pwd)"
out="$root/target/typescript"
rm -rf "$out" && mkdir -p "$out"

say() { printf '== %s\n' "$*"; }
bundle() { node_modules/.bin/esbuild --bundle --log-level=error --format=esm "$@"; }
# Modules of CommonJS within a bundle for Node call `require`.
banner='--banner:js=import{createRequire}from"module";const require=createRequire(import.meta.url);'

say install and generate
npm ci --silent
npm run --silent generate
say types, lint, lines
npm run --silent check
npm run --silent lint
node count.mjs

say unit tests
bundle test/*.test.ts --platform=node --outdir="$out/test" --out-extension:.js=.mjs "$banner"
node --test --test-reporter=dot "$out/test/"

say bundles
npm run --silent build
printf 'export * from "kith-client/chat";\n' > "$out/chat.mjs"
printf 'export * from "kith-client"; export { UserService } from "kith-client/user"; export { MessageService } from "kith-client/message";\n' > "$out/connect.mjs"

say the bundle of the demo
OUT="$out" npm run --silent demo
cmp "$out/chat.js" "$root/crates/server/src/demo/page/chat.js" || { echo "run: npm run demo" >&2; exit 1; }

say pack, and install the packed file elsewhere
npm pack --silent --pack-destination "$out" > /dev/null
mkdir "$out/elsewhere"
cp .npmrc "$out/elsewhere/"
mv "$out/chat.mjs" "$out/connect.mjs" "$out/elsewhere/"
printf '{"name": "elsewhere", "private": true, "type": "module"}\n' > "$out/elsewhere/package.json"
(cd "$out/elsewhere" && npm install --silent --no-audit --no-fund "$out"/kith-client-*.tgz)
node test/sizes.mjs "$out/elsewhere"
node test/readme.mjs "$out/elsewhere"

say conformance
bundle test/conformance.ts --platform=node --outfile="$out/conformance.mjs" "$banner"
node "$out/conformance.mjs" "$KITH_SCRIPT" "$root/clients/conformance"

say the sample in Chromium
cd "$root/examples/web-chat"
npm ci --silent
npm run --silent check
VITE_KITH=KITH_HERE npm run --silent build -- --logLevel error
node test.mjs
echo "typescript: everything holds"
