"""A request becomes a submission: its body in the store, its options checked, and the keys that stand for it."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from fastapi import Request

import api
from api.access import Caller
from api.disk import disk_room
from api.forms import Fields, read_form
from api.jobs.contents import Source
from api.jobs.desk import Desk
from api.jobs.identities import digest_of, digest_of_file
from api.jobs.records import Job, Outcome, Submission, Task
from api.jobs.store import JobStore
from api.permissions import Permissions
from api.problems import EncodingError
from api.settings import Settings
from api.tasks.models import FORM, LONGEST_NAME, bounded, is_json, media_type
from optimizer.errors import FormatError, OptionError, UnknownNameError
from optimizer.options import Options, option_infos, parse_option
from optimizer.process.version import program_id

NAME, PRIORITY, WAIT = "name", "priority", "wait"
BESIDE_OPTIONS = (NAME, PRIORITY, WAIT)
"""Query parameters that are no options."""
LARGEST_PRIORITY = 10
LONGEST_TYPE = 300
MODEL_FORM = Fields()
IDEMPOTENCY = "Idempotency-Key"
LONGEST_KEY = 255


@dataclass(frozen=True)
class Query:
    """What a request says outside of its body."""

    options: Mapping[str, Any]
    name: str | None
    priority: int
    wait_seconds: float | None
    """How long the client would wait for the answer itself; None: it does not say."""
    idempotency_key: str | None
    request_id: str

    @staticmethod
    def of(request: Request, others: Sequence[str] = (), options: Sequence[str] | None = None) -> Query:
        """Raises InputError for a query that cannot be accepted; options are spelled as in JSON or as flags.

        `others`: parameters that the route reads itself. `options`: those that it takes, if not all.
        """
        query = request.query_params
        beside = (*BESIDE_OPTIONS, *others)
        names = {key: key.replace("-", "_") for key in query if key not in beside}
        known = [info.name for info in option_infos()] if options is None else options
        for name in names.values():
            if name not in known:
                raise UnknownNameError("query parameter", name, (*known, *beside), node=name)
        chosen = {name: parse_option(name, query.getlist(key)) for key, name in names.items()}
        return Query(
            chosen,
            _name(query.get(NAME, "")),
            _whole(PRIORITY, query.get(PRIORITY, "0"), LARGEST_PRIORITY),
            _seconds(WAIT, query.get(WAIT)),
            _idempotency_key(request),
            request.state.request_id,
        )


async def take_in(
    request: Request,
    desk: Desk,
    caller: Caller,
    query: Query,
    task: Task,
    fields: Fields = MODEL_FORM,
    wants_job: bool = False,
) -> Job | Outcome:
    """Read the body of a request, the task's file alone or a form with these fields, and queue the task with it.

    Where the result is known nothing is stored and the result returned, unless the client wants a job.
    """
    _check_encoding(request)
    desk.check_takes_work()
    request.state.model, request.state.options = query.name, dict(query.options)
    with await request.app.state.spool.body(request.scope, request.receive) as body:
        hand_in = partial(_hand_in, desk.store, caller, query, task, fields)
        return await submitted(request, desk, await desk.call(hand_in, body.descriptor, wants_job))


async def use_stored(
    request: Request, desk: Desk, caller: Caller, query: Query, task: Task, contents: Sequence[str]
) -> Job | Outcome:
    """Queue a task whose bodies are in the store already; its result where that is known."""
    desk.check_takes_work()

    def hand_in() -> Job | Outcome:
        found = [desk.store.contents.get(content) for content in contents]
        asked = _submission(caller, query, task, [content.sha256 for content in found])
        known = desk.store.known(asked.natural_key)
        return known or desk.store.submit(replace(asked, bodies=tuple(contents)), caller.quota)

    return await submitted(request, desk, await desk.call(hand_in))


async def submitted(request: Request, desk: Desk, found: Job | Outcome) -> Job | Outcome:
    """What was found or queued, after the workers and the log know of it."""
    if isinstance(found, Job):
        request.state.job = found.id
        desk.submitted(found)
    return found


def task_of(request: Request, query: Query, kind: str, **arguments: Any) -> Task:
    """A task as a request words it, with the limits that the settings put to it."""
    settings: Settings = request.app.state.settings
    content_type = request.headers.get("content-type", "")[:LONGEST_TYPE]
    permissions = Permissions(programs=settings.allow_ttmetal)
    return Task(kind, content_type, query.name, query.options, arguments, settings.max_nodes, permissions)


def _hand_in(
    store: JobStore, caller: Caller, query: Query, task: Task, fields: Fields, body: int, wants_job: bool
) -> Job | Outcome:
    """What `take_in` does once the body is there; it waits for disk and database."""
    with disk_room(), ExitStack() as open_files:
        bodies = [body]
        if media_type(task.content_type) == FORM:
            bodies, task = _opened(body, task, fields, open_files)
        elif len(fields.required) > 1:
            wanted = " and ".join(f"'{name}'" for name in fields.required)
            raise FormatError(f"the body has to be a form with the files {wanted}", node="body", alternatives=(FORM,))
        if not all(os.fstat(body).st_size for body in bodies):
            raise FormatError("the body is empty: send an ONNX model or a JSON document", node="body")
        asked = _submission(caller, query, _checked(task), [digest_of_file(body) for body in bodies])
        known = None if wants_job else store.known(asked.natural_key)
        if known is not None:
            return known
        sources = [Source.plain(body, sha256) for body, sha256 in zip(bodies, asked.digests, strict=True)]
        return store.take_in(asked, sources, caller.quota)


def _submission(caller: Caller, query: Query, task: Task, digests: Sequence[str]) -> Submission:
    """The submission of a task with bodies of these hashes, which do not lie in the store yet."""
    return Submission(
        owner=caller.owner,
        task=task,
        natural_key=digest_of([program_id(api), *digests, task.to_json()]),
        digests=tuple(digests),
        name=task.name or "",
        priority=query.priority,
        request_id=query.request_id,
        idempotency_key=query.idempotency_key,
        # Without what the settings put into the task: they may have changed when the request comes again.
        fingerprint=digest_of([*digests, {**task.to_json(), "max_nodes": None, "permissions": None}]),
    )


def _opened(body: int, task: Task, fields: Fields, files: ExitStack) -> tuple[list[int], Task]:
    """The files in a form, and the task as if they had come without one."""
    file = files.enter_context(os.fdopen(os.dup(body), "rb"))
    file.seek(0)
    form = read_form(file, task.content_type, fields)
    for part, _ in form.files:
        files.enter_context(part)
    # The file's name is the client's own affair: what of it cannot be shown is left out.
    shown = "".join(filter(str.isprintable, form.files[0][1]))
    name = task.name or Path(shown).stem[:LONGEST_NAME] or None
    task = replace(task, content_type="", name=name, options={**form.options, **task.options})
    return [part.fileno() for part, _ in form.files], task


def _checked(task: Task) -> Task:
    """The task with all its options spelled out, so that equal requests look alike; the first wrong one raises.

    A JSON body may hold options of its own, which count less: then only those beside it are looked at here.
    """
    chosen = Options.from_mapping(bounded(task.options))
    task.permissions.check(chosen)
    if is_json(media_type(task.content_type)):
        return replace(task, content_type="application/json")
    return replace(task, content_type="", options=chosen.to_json())


def _check_encoding(request: Request) -> None:
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding != "identity":
        raise EncodingError(f"the body's encoding '{encoding}' is not taken", node="body", alternatives=("identity",))


def _name(text: str) -> str | None:
    if not text.isprintable():
        raise OptionError("a name consists of printable characters", node=NAME)
    return text[:LONGEST_NAME] or None


def _whole(name: str, text: str, most: int) -> int:
    try:
        number = int(text[:LONGEST_NAME])
    except ValueError:
        number = most + 1
    if abs(number) > most:
        raise OptionError(f"'{name}' must be a whole number from {-most} to {most}", node=name, limit=most)
    return number


def _seconds(name: str, text: str | None) -> float | None:
    if text is None:
        return None
    try:
        seconds = float(text[:LONGEST_NAME])
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise OptionError(f"'{name}' must be a number of seconds", node=name)
    return seconds


def _idempotency_key(request: Request) -> str | None:
    key = request.headers.get(IDEMPOTENCY)
    if key is not None and not (0 < len(key) <= LONGEST_KEY and key.isprintable()):
        raise OptionError(f"an idempotency key has 1 to {LONGEST_KEY} printable characters", node=IDEMPOTENCY)
    return key
