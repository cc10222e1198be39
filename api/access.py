"""Who asks, and how often they may.

A key is a random word that its owner sends as `Authorization: Bearer ...`; the store has its hash only. Whoever has
none is one anonymous owner, where that is allowed at all.
"""

from __future__ import annotations

import hashlib
import ipaddress
import math
import secrets
import time
from dataclasses import dataclass

from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter
from sqlalchemy import insert, select, update
from starlette.requests import HTTPConnection

from api.foreign_pages import check_page
from api.jobs.database import Database
from api.jobs.store import Quota
from api.jobs.tables import KEYS
from api.problems import RateError, UnauthorizedError
from api.settings import Network, Settings
from optimizer.errors import OptionError

ANONYMOUS = ""
KEY_PREFIX = "ttopt_"
KEY_BYTES = 32
KNOWN_SECONDS = 5.0
"""For so long a key that was revoked may still be taken."""
LONGEST_NAME = 64
PROXY_HEADERS, FORWARDED = ("forwarded", "x-real-ip", "via"), "x-forwarded-"
"""Headers of proxies, and how others begin: who comes through one is not on this machine."""


@dataclass(frozen=True)
class Key:
    """An API key, without its secret."""

    name: str
    rate_per_minute: int | None
    """None: what the settings say."""
    max_open_jobs: int | None
    created_at: float
    revoked_at: float | None


@dataclass(frozen=True)
class Caller:
    """Who asks."""

    owner: str
    """Name of the key, or ANONYMOUS."""
    quota: Quota


class KeyStore:
    """The table of API keys."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, name: str, rate_per_minute: int | None = None, max_open_jobs: int | None = None) -> str:
        """Make a key and return its secret, which nobody can read again. OptionError if the name is taken."""
        if not name or len(name) > LONGEST_NAME or not name.isprintable():
            raise OptionError(f"a key's name has 1 to {LONGEST_NAME} printable characters", node="name")
        secret = KEY_PREFIX + secrets.token_urlsafe(KEY_BYTES)
        row = {"name": name, "digest": _digest(secret), "created_at": time.time()}
        with self._database.writing() as connection:
            if connection.execute(select(KEYS.c.name).where(KEYS.c.name == name)).first() is not None:
                raise OptionError(f"there is a key '{name}' already", node="name")
            connection.execute(insert(KEYS).values(**row, rate_per_minute=rate_per_minute, max_open_jobs=max_open_jobs))
        return secret

    def revoke(self, name: str) -> None:
        """Take a key no longer; its jobs stay. OptionError if there is none of this name."""
        with self._database.writing() as connection:
            revoked = update(KEYS).where(KEYS.c.name == name, KEYS.c.revoked_at.is_(None))
            if connection.execute(revoked.values(revoked_at=time.time())).rowcount:
                return
        raise OptionError(f"no key '{name}' to revoke", node="name", alternatives=self._names())

    def _names(self) -> list[str]:
        return [key.name for key in self.all().values() if key.revoked_at is None]

    def all(self) -> dict[str, Key]:
        """Digest of the secret -> key, in the order in which they were made; those that were revoked too."""
        with self._database.reading() as connection:
            rows = connection.execute(select(KEYS).order_by(KEYS.c.created_at, KEYS.c.name)).mappings().all()
        return {
            row["digest"]: Key(
                row["name"], row["rate_per_minute"], row["max_open_jobs"], row["created_at"], row["revoked_at"]
            )
            for row in rows
        }


class Gate:
    """Lets requests in."""

    def __init__(self, settings: Settings, keys: KeyStore) -> None:
        self._settings = settings
        self._keys = keys
        self._limiter = MovingWindowRateLimiter(MemoryStorage())
        self._known: dict[str, Key] = {}
        self._known_until = 0.0

    @property
    def is_stale(self) -> bool:
        """Whether the keys have to be read again (`refresh`)."""
        return time.monotonic() > self._known_until

    def refresh(self) -> None:
        """Read the keys from the store."""
        found = {digest: key for digest, key in self._keys.all().items() if key.revoked_at is None}
        self._known, self._known_until = found, time.monotonic() + KNOWN_SECONDS

    def admit(self, request: HTTPConnection) -> Caller:
        """Who asks. UnauthorizedError without a valid key where one is needed, RateError where they ask too often."""
        settings, key = self._settings, self._key(request)
        if key is None:
            if self._needs_key(request):
                raise UnauthorizedError("this service wants an API key", node="Authorization")
            check_page(request, settings.hosts)
            self._count(f"address {request.client.host if request.client else ''}", settings.rate_per_minute)
            return Caller(ANONYMOUS, Quota(settings.queue_limit, settings.max_open_jobs))
        self._count(f"key {key.name}", _first(key.rate_per_minute, settings.rate_per_minute))
        return Caller(key.name, Quota(settings.queue_limit, _first(key.max_open_jobs, settings.max_open_jobs)))

    def check_onlooker(self, request: HTTPConnection) -> None:
        """Let anybody in but pages of other sites. UnauthorizedError for a key that is none."""
        if self._key(request) is None:
            check_page(request, self._settings.hosts)

    def _key(self, request: HTTPConnection) -> Key | None:
        """The key that a request names; UnauthorizedError if that is not valid."""
        secret = _secret(request)
        if secret is None:
            return None
        key = self._known.get(_digest(secret))
        if key is None:
            raise UnauthorizedError("this is no valid API key", node="Authorization")
        return key

    def _needs_key(self, request: HTTPConnection) -> bool:
        if self._settings.keys == "auto":
            return not _is_local(request, self._settings.trusted_proxies)
        return self._settings.keys == "always"

    def _count(self, who: str, per_minute: int) -> None:
        if not per_minute:
            return
        limit = RateLimitItemPerMinute(per_minute)
        if not self._limiter.hit(limit, who):
            wait = self._limiter.get_window_stats(limit, who).reset_time - time.time()
            raise RateError(
                f"more than {per_minute} requests within a minute",
                limit=per_minute,
                retry_after=max(1, math.ceil(wait)),
            )


def _first(own: int | None, general: int) -> int:
    return general if own is None else own


def _secret(request: HTTPConnection) -> str | None:
    scheme, _, word = request.headers.get("authorization", "").partition(" ")
    return word.strip() if scheme.lower() == "bearer" else None


def _digest(secret: str) -> str:
    """A plain hash is enough for a secret of 256 random bits, which nobody can try out."""
    return hashlib.sha256(secret.encode("utf-8", "backslashreplace")).hexdigest()


def _is_local(request: HTTPConnection, proxies: tuple[Network, ...]) -> bool:
    """Whether a request comes from this machine, and not through a proxy on it.

    What a proxy would say of others is no proof, and is taken as one only against its sender.
    """
    forwarded = any(name in PROXY_HEADERS or name.startswith(FORWARDED) for name in request.headers)
    if request.client is None or forwarded:
        return False
    try:
        address = ipaddress.ip_address(request.client.host)
    except ValueError:
        return False
    address = getattr(address, "ipv4_mapped", None) or address
    return address.is_loopback and not any(address in network for network in proxies)
