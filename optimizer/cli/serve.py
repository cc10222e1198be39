"""`ttopt serve`, `ttopt worker` and `ttopt keys`: the HTTP service, more workers for it, and who may use it."""

from __future__ import annotations

import argparse
import socket
import time
from importlib import import_module
from typing import Any

from optimizer.cli.arguments import Commands, add_format, add_verbosity
from optimizer.cli.tables import as_json, table
from optimizer.errors import OptionError

STORE_HELP = "database of jobs: sqlite:////FILE or postgresql://... (default: TTOPT_STORE, else a file of yours)"
MOST_WORKERS = 4096


def add(commands: Commands) -> None:
    serve = commands.add_parser("serve", help="run the HTTP service", allow_abbrev=False)
    serve.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
    serve.add_argument("--port", type=int, default=8000, help="port to listen on (default: 8000)")
    _add_workers(serve, "solver processes; 0: only those of `ttopt worker` (default: TTOPT_WORKERS, else one per core)")
    serve.set_defaults(run=run_serve)

    worker = commands.add_parser("worker", help="work on the jobs of a service, here or elsewhere", allow_abbrev=False)
    _add_workers(worker, "solver processes (default: TTOPT_WORKERS, else one per core)")
    worker.set_defaults(run=run_worker)

    keys = commands.add_parser("keys", help="API keys of the service", allow_abbrev=False)
    actions = keys.add_subparsers(dest="action", required=True, metavar="ACTION")
    new = actions.add_parser("add", help="make a key; it is printed once", allow_abbrev=False)
    new.add_argument("name", metavar="NAME", help="whose key it is; its jobs are theirs")
    new.add_argument("--rate", type=int, metavar="N", help="requests per minute (default: TTOPT_RATE_PER_MINUTE)")
    new.add_argument("--jobs", type=int, metavar="N", help="open jobs at once (default: TTOPT_MAX_OPEN_JOBS)")
    new.set_defaults(run=run_new_key)
    revoke = actions.add_parser("revoke", help="take a key no longer", allow_abbrev=False)
    revoke.add_argument("name", metavar="NAME")
    revoke.set_defaults(run=run_revoke_key)
    listed = actions.add_parser("list", help="all keys, without their secrets", allow_abbrev=False)
    add_format(listed)
    listed.set_defaults(run=run_list_keys)
    for parser in (new, revoke, listed):
        parser.add_argument("--store", metavar="URL", help=STORE_HELP)


def _add_workers(parser: argparse.ArgumentParser, text: str) -> None:
    parser.add_argument("--workers", type=int, metavar="N", help=text)
    parser.add_argument("--store", metavar="URL", help=STORE_HELP)
    add_verbosity(parser)


def _service(module: str) -> Any:
    """A module of the service: by name, as that is no room below this one."""
    return import_module(f"api.{module}")


def run_serve(args: argparse.Namespace) -> int:
    if not 0 < args.port < 65536:
        raise OptionError(f"'--port' must be between 1 and 65535, got {args.port}")
    _check_workers(args.workers, least=0)
    check_address(args.host, args.port)
    _service("serving").serve(args.host, args.port, _service("serving").settings(args.workers, args.store))
    return 0


def run_worker(args: argparse.Namespace) -> int:
    _check_workers(args.workers, least=1)
    _service("serving").work(_service("serving").settings(args.workers, args.store))
    return 0


def _check_workers(workers: int | None, least: int) -> None:
    if workers is not None and not least <= workers <= MOST_WORKERS:
        raise OptionError(f"'--workers' must be between {least} and {MOST_WORKERS}, got {workers}", limit=MOST_WORKERS)


def run_new_key(args: argparse.Namespace) -> int:
    for name, value in (("--rate", args.rate), ("--jobs", args.jobs)):
        if value is not None and value < 0:
            raise OptionError(f"'{name}' must not be negative, got {value}", limit=0)
    with _service("serving").key_store(args.store) as keys:
        print(keys.add(args.name, args.rate, args.jobs))
    return 0


def run_revoke_key(args: argparse.Namespace) -> int:
    with _service("serving").key_store(args.store) as keys:
        keys.revoke(args.name)
    return 0


def run_list_keys(args: argparse.Namespace) -> int:
    with _service("serving").key_store(args.store) as keys:
        found = list(keys.all().values())
    if args.format == "json":
        print(as_json([vars(key) for key in found]))
        return 0
    rows = [
        (
            key.name,
            _limit(key.rate_per_minute),
            _limit(key.max_open_jobs),
            _day(key.created_at),
            "no" if key.revoked_at is None else _day(key.revoked_at),
        )
        for key in found
    ]
    print(table(("key", "requests a minute", "open jobs", "made", "revoked"), rows))
    return 0


def _limit(own: int | None) -> str:
    return "as set" if own is None else str(own) if own else "no limit"


def _day(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


def check_address(host: str, port: int) -> None:
    """OptionError unless this process may listen there; the server itself would only log it."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        raise OptionError(f"cannot listen on port {port}: {error.strerror}", node=host) from error
    except UnicodeError as error:
        raise OptionError("not a host name", node=host) from error
