#!/usr/bin/env bash
# Runs the program that sends messages to a cluster, which `kith-lab clients` judges.
set -euo pipefail
cd "$(dirname "$0")"
. ./prepare.sh >&2
exec "$tools/python" conformance/trial.py
