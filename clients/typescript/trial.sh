#!/usr/bin/env bash
# Builds and runs the program that sends messages to a cluster, which `kith-lab clients` judges.
set -euo pipefail
cd "$(dirname "$0")"
program="$(cd ../.. && pwd)/target/typescript-trial.mjs"
{
  [ node_modules -nt package-lock.json ] || npm ci --silent
  npm run --silent generate
  # Modules of CommonJS within a bundle for Node call `require`.
  node_modules/.bin/esbuild --bundle --log-level=error --format=esm --platform=node test/trial.ts --outfile="$program" \
    '--banner:js=import{createRequire}from"module";const require=createRequire(import.meta.url);'
} >&2
exec node "$program"
