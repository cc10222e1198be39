#!/bin/sh
# Writes constraints.txt anew: `scripts/pins.sh UV PYTHON`. It names versions only, no registry.
# One set for everything: ttnn needs NumPy 1, so OR-tools is the newest that takes it.
set -eu
cd "$(dirname "$0")/.."
UV=$1
PYTHON=$2
"$UV" pip compile pyproject.toml --quiet --upgrade --python "$PYTHON" --group dev --extra dask --extra ttmetal \
    --no-annotate --no-header --no-emit-index-url --output-file constraints.txt
