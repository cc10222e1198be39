"""Make the project's virtual environment on a machine that has only a Python.

    python3 scripts/bootstrap.py [--venv .venv] [--extra NAME]... [--no-dev]

Finds `uv` (or installs it into a private folder), finds a working Python 3.12 (or lets uv fetch one),
creates the environment and installs the project, editable, with the exact versions of `constraints.txt`.
Runs on Python 3.8 and later and needs the standard library only. Running it again is quick and safe.
"""

import argparse
import glob
import os
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WANTED = (3, 12)
UV_VERSION = "0.13.8"
PRIVATE = os.path.join(ROOT, ".bootstrap")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--venv", default=os.path.join(ROOT, ".venv"), help="where to make the environment")
    parser.add_argument("--extra", action="append", default=[], help="extra of pyproject.toml to install too")
    parser.add_argument("--no-dev", action="store_true", help="leave out the tools for tests and checks")
    parser.add_argument("--print-uv", action="store_true", help="print the path of a working uv and stop")
    args = parser.parse_args()
    uv = find_uv()
    if args.print_uv:
        print(uv)
        return
    make_venv(uv, args.venv)
    install(uv, args.venv, args.extra, not args.no_dev)


def say(text):
    print("bootstrap: " + text, file=sys.stderr, flush=True)


def answer(command):
    """Standard output of a command, or None when it does not run or fails (a shim may do either)."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode("utf-8", "replace").strip()


# -- uv --------------------------------------------------------------------------------------------
def find_uv():
    """Path of a working uv: on PATH, in the private folder, or freshly installed there."""
    private = os.path.join(PRIVATE, "bin", "uv")
    for candidate in (shutil.which("uv"), private):
        if candidate and answer([candidate, "--version"]):
            return candidate
    say("installing uv into " + os.path.relpath(PRIVATE))
    if not install_uv():
        sys.exit(
            "bootstrap: cannot install uv: this Python has neither venv nor pip. Install either one "
            "(on Debian and Ubuntu: python3-venv), or uv itself, and run this again."
        )
    return private


def install_uv():
    """Install uv into the private folder with a venv's pip, else with this Python's own pip."""
    requirement = "uv==" + UV_VERSION
    if answer([sys.executable, "-m", "venv", PRIVATE]) is not None:
        python = os.path.join(PRIVATE, "bin", "python")
        return subprocess.call([python, "-m", "pip", "install", "-qq", requirement], stdout=sys.stderr) == 0
    target = os.path.join(PRIVATE, "lib")
    command = [sys.executable, "-m", "pip", "install", "-qq", "--target", target, requirement]
    if answer([sys.executable, "-m", "pip", "--version"]) is None or subprocess.call(command, stdout=sys.stderr) != 0:
        return False
    os.makedirs(os.path.join(PRIVATE, "bin"), exist_ok=True)
    shutil.copy(os.path.join(target, "bin", "uv"), os.path.join(PRIVATE, "bin", "uv"))
    return True


# -- Python ----------------------------------------------------------------------------------------
def find_python(uv):
    """A working interpreter of the wanted version, or None. Every candidate is run, as shims may not work."""
    for candidate in python_candidates(uv):
        if candidate and is_wanted(candidate):
            return candidate
    return None


def python_candidates(uv):
    version = "%d.%d" % WANTED
    yield sys.executable
    yield answer([uv, "python", "find", "--system", "--no-project", version])
    roots = [os.environ.get("PYENV_ROOT"), answer(["pyenv", "root"]), os.path.expanduser("~/.pyenv")]
    for root in roots:
        if root:
            for found in sorted(glob.glob(os.path.join(root, "versions", version + ".*", "bin", "python"))):
                yield found
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        yield os.path.join(folder, "python" + version)


def is_wanted(python):
    printed = answer([python, "-c", "import sys; print(*sys.version_info[:2])"])
    return printed == "%d %d" % WANTED


# -- environment -----------------------------------------------------------------------------------
def make_venv(uv, venv):
    """Create the environment unless a working one of the wanted version is there."""
    if is_wanted(os.path.join(venv, "bin", "python")):
        return
    python = find_python(uv)
    if python is None:
        say("no Python %d.%d on this machine; asking uv to fetch one" % WANTED)
        if subprocess.call([uv, "python", "install", "%d.%d" % WANTED], stdout=sys.stderr) != 0:
            sys.exit(
                "bootstrap: no working Python %d.%d found (looked at uv, pyenv and PATH) and uv could not fetch one. "
                "Install it (package python3.12, or `pyenv install 3.12`) and run this again." % WANTED
            )
        python = "%d.%d" % WANTED
    say("creating %s with %s" % (os.path.relpath(venv), python))
    run([uv, "venv", "--quiet", "--clear", "--python", python, venv])


def install(uv, venv, extras, dev):
    """Install the project with exact versions."""
    names = ",".join(extras)
    target = "%s[%s]" % (ROOT, names) if names else ROOT
    command = [uv, "pip", "install", "--quiet", "--python", os.path.join(venv, "bin", "python")]
    command += ["--constraints", os.path.join(ROOT, "constraints.txt"), "--editable", target]
    if dev:
        command += ["--group", os.path.join(ROOT, "pyproject.toml") + ":dev"]
    say("installing the project into %s" % os.path.relpath(venv))
    run(command)


def run(command):
    status = subprocess.call(command, cwd=ROOT, stdout=sys.stderr)
    if status != 0:
        sys.exit("bootstrap: failed with status %d: %s" % (status, " ".join(command)))


if __name__ == "__main__":
    main()
