#!/usr/bin/env bash
# Installs Debian's chromium, in which the tests open the report and the web page; they skip where it is missing.
#
#   eval "$(scripts/chromium.sh)"
#
# Nothing happens where it is there already. As root the package is installed; without root it is unpacked into
# .bootstrap/chromium, and the printed line sets TTOPT_CHROMIUM. Never fails: without it everything else still runs.
set -uo pipefail
cd "$(dirname "$0")/.."
package=chromium
target=$PWD/.bootstrap/chromium

say() { echo "chromium: $*" >&2; }

finish() { # the tree in $target, if it has a browser that starts
    local started=$target/start
    if [ -x "$target/usr/lib/$package/$package" ]; then
        cat >"$started" <<'START'
#!/usr/bin/env bash
here=$(cd "$(dirname "$0")" && pwd)
libraries=$(find "$here/usr/lib" "$here/lib" -name '*.so*' -printf '%h\n' 2>/dev/null | sort -u | paste -sd:)
LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} exec "$here/usr/lib/chromium/chromium" "$@"
START
        chmod +x "$started"
        "$started" --version >/dev/null 2>&1 || { say "the unpacked browser does not start; its tests are skipped"; exit 0; }
        echo "export TTOPT_CHROMIUM='$started'"
        exit 0
    fi
}

unpack() {
    mkdir -p "$target/packages"
    # The browser, and those of the libraries it needs that this machine lacks.
    local names
    names=$(apt-get install --simulate --no-install-recommends "$package" 2>/dev/null | sed -n 's/^Inst \([^ ]*\).*/\1/p')
    [ -n "$names" ] || names="$package chromium-common"
    # shellcheck disable=SC2086
    (cd "$target/packages" && apt-get download $names >&2) || return 1
    for archive in "$target"/packages/*.deb; do
        dpkg -x "$archive" "$target" || return 1
    done
    rm -rf "$target/packages"
}

if [ -n "${TTOPT_CHROMIUM:-}" ] || { command -v chromium || command -v chromium-browser || command -v google-chrome; } >/dev/null; then
    exit 0
fi
finish
if ! command -v apt-get >/dev/null; then
    say "no apt-get here; install Chromium by hand to run the tests of the report and the web page"
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
