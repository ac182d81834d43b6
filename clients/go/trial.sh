#!/usr/bin/env bash
# Builds and runs the program that sends messages to a cluster, which `kith-lab clients` judges.
set -euo pipefail
cd "$(dirname "$0")"
program="$(cd ../.. && pwd)/target/clients-go/trial"
go build -o "$program" ./internal/trial
exec "$program"
