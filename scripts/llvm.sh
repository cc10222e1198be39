#!/usr/bin/env bash
# Installs Debian's llvm-19, which the tests of the AMD GPU assembly use as a witness; they skip where it is missing.
#
#   eval "$(scripts/llvm.sh)"
#
# Nothing happens where it is there already. As root the package is installed; without root it is unpacked into
# .bootstrap/llvm, and the printed line sets TTOPT_LLVM_DIR. Never fails: without it everything else still runs.
set -uo pipefail
cd "$(dirname "$0")/.."
package=llvm-19
target=$PWD/.bootstrap/llvm

say() { echo "llvm: $*" >&2; }

finish() { # the tree in $target, if it has an assembler
    if compgen -G "$target/usr/lib/$package/bin/llvm-mc" >/dev/null; then
        echo "export TTOPT_LLVM_DIR='$target'"
        exit 0
    fi
}

unpack() {
    mkdir -p "$target/packages"
    # What the tools link to: their own library and those of its dependencies that this machine lacks.
    local names
    names=$(apt-get install --simulate --no-install-recommends "$package" 2>/dev/null | sed -n 's/^Inst \([^ ]*\).*/\1/p')
    [ -n "$names" ] || names="$package libllvm19"
    # shellcheck disable=SC2086
    (cd "$target/packages" && apt-get download $names >&2) || return 1
    for archive in "$target"/packages/*.deb; do
        dpkg -x "$archive" "$target" || return 1
    done
    rm -rf "$target/packages"
}

if [ -n "${TTOPT_LLVM_DIR:-}" ] || { command -v llvm-mc-19 && command -v llvm-objdump-19 && command -v llc-19; } >/dev/null; then
    exit 0
fi
finish
if ! command -v apt-get >/dev/null; then
    say "no apt-get here; install LLVM 19 by hand to run the assembly's own tests"
    exit 0
fi
if [ "$(id -u)" = 0 ]; then
    say "installing $package"
    { apt-get install -y --no-install-recommends "$package" || { apt-get update && apt-get install -y --no-install-recommends "$package"; }; } >/dev/null 2>&1 \
        || say "could not install $package; its tests are skipped"
    exit 0
fi
say "unpacking $package into ${target#"$PWD/"}"
unpack || say "could not download $package; its tests are skipped"
finish
