"""`ttopt serve`: the HTTP service."""

from __future__ import annotations

import argparse
import socket
from importlib import import_module

from optimizer.cli.arguments import Commands, add_verbosity
from optimizer.errors import OptionError


def add(commands: Commands) -> None:
    parser = commands.add_parser("serve", help="run the HTTP service", allow_abbrev=False)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
    parser.add_argument("--port", type=int, default=8000, help="port to listen on (default: 8000)")
    parser.add_argument("--workers", type=int, help="solver processes (default: TTOPT_WORKERS, else one per core)")
    add_verbosity(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    if not 0 < args.port < 65536:
        raise OptionError(f"'--port' must be between 1 and 65535, got {args.port}")
    check_address(args.host, args.port)
    # By name, as the service is no room below this one.
    import_module("api.serving").serve(args.host, args.port, args.workers)
    return 0


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
