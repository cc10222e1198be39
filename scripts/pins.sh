#!/bin/sh
# Writes constraints.txt and constraints-ttmetal.txt anew: `scripts/pins.sh UV PYTHON`.
# Two files, as ttnn needs NumPy 1 and the rest takes NumPy 2. They name versions only, no registry.
set -eu
cd "$(dirname "$0")/.."
pins() {
    target=$1
    shift
    "$UV" pip compile pyproject.toml --quiet --upgrade --python "$PYTHON" --group dev \
        --no-annotate --no-header --no-emit-index-url --output-file "$target" "$@"
}
UV=$1
PYTHON=$2
pins constraints.txt --extra dask
pins constraints-ttmetal.txt --extra dask --extra ttmetal
