"""Pages of other sites, which have a browser send requests here in the name of whoever looks at them.

A page may send a request to any address, and have its own name stand for the address of this machine (DNS rebinding) to
read the answers as well. What a page cannot do is lie about `Host` and `Origin`: the browser writes them. They are
checked for every request without a key, whatever else it carries.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from dataclasses import dataclass

from starlette.requests import HTTPConnection

from api.problems import ForeignPageError

HOSTS_SETTING, PROXIES_SETTING = "TTOPT_HOSTS", "TTOPT_TRUSTED_PROXIES"
_HOST = r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(?P<port>[0-9]{1,5}))?"
_AUTHORITY = re.compile(_HOST)
_ORIGIN = re.compile(rf"(?P<scheme>https?)://{_HOST}")
DEFAULT_PORTS = {"http": 80, "https": 443}
FOREIGN_SITES = ("cross-site", "same-site")
"""Values of `Sec-Fetch-Site`; ports do not count for a site."""


@dataclass(frozen=True)
class _Place:
    """What pages of one origin have in common."""

    scheme: str
    host: str
    port: int | None


def check_page(request: HTTPConnection, hosts: tuple[str, ...]) -> None:
    """ForeignPageError for what a page of somebody else has a browser ask. `hosts`: names of this service besides
    `localhost`, that of its machine, and addresses, which no other name can stand for."""
    headers = request.headers
    is_visit = headers.get("sec-fetch-mode") == "navigate" and request.scope.get("method") == "GET"
    if headers.get("sec-fetch-site") in FOREIGN_SITES and not is_visit:
        raise ForeignPageError("this comes from a page of another site", node="Sec-Fetch-Site")
    scheme = request.scope.get("scheme", "http")
    here = _place(_AUTHORITY, headers.get("host", ""), scheme)
    known = ("localhost", socket.gethostname().lower(), *hosts)
    if "host" in headers and (here is None or not (_is_address(here.host) or here.host in known)):
        raise ForeignPageError(
            f"'{headers['host']}' is no name of this service for requests without a key; {HOSTS_SETTING} adds names",
            node="Host",
            alternatives=(*known, "127.0.0.1", "[::1]"),
        )
    for origin in headers.getlist("origin"):
        if here is None or _place(_ORIGIN, origin, scheme) != here:
            raise ForeignPageError(
                f"this comes from a page of '{origin}', which is not where it goes to; "
                f"behind a proxy that adds TLS, {PROXIES_SETTING} has to name that",
                node="Origin",
            )


def _place(pattern: re.Pattern[str], text: str, scheme: str) -> _Place | None:
    found = pattern.fullmatch(text)
    if found is None:
        return None
    scheme = found.groupdict().get("scheme") or scheme
    name = found["host"].strip("[]").lower().rstrip(".")
    if _is_address(name):
        name = str(ipaddress.ip_address(name))
    return _Place(scheme, name, int(found["port"]) if found["port"] else DEFAULT_PORTS.get(scheme))


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
