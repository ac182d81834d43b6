#!/usr/bin/env bash
# Builds and runs the program that sends messages to a cluster, which `kith-lab clients` judges.
set -euo pipefail
cd "$(dirname "$0")"
exec cargo run --quiet -p kith-client --example trial
