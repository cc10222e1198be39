"""`TTMetalOpModel`: the OpModel protocol answered by tt-metal itself, through a cache on disk."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from optimizer.device import DeviceSpec, preset_names
from optimizer.errors import FormatError, OpModelError
from optimizer.ir.vocabulary import opdef
from optimizer.opmodel.analytical.model import AnalyticalOpModel
from optimizer.opmodel.answer_cache import AnswerCache, shared_cache
from optimizer.opmodel.answer_records import Context
from optimizer.opmodel.base import LaunchTimes, OpConstraints, OpCost, OpQuery, ProgramSession, Rejection
from optimizer.opmodel.known_faults import fault
from optimizer.opmodel.spans import Span
from optimizer.opmodel.ttmetal import environment, location
from optimizer.opmodel.ttmetal.answers import answer_text, constraints_from, question_text, request
from optimizer.opmodel.ttmetal.child import ChildKey
from optimizer.opmodel.ttmetal.location import JOBS_VARIABLE, TIMEOUT_VARIABLE, Location, whole_number
from optimizer.opmodel.ttmetal.pool import DEFAULT_TIMEOUT_SECONDS, Pool, shared_pool
from optimizer.opmodel.ttmetal.session import open_session
from optimizer.opmodel.ttnn_calls import asked_inputs, call_text

MEMORY_ENTRIES = 500_000
NAMES = tuple(f"x{index}" for index in range(64))

log = logging.getLogger(__name__)


class TTMetalOpModel:
    """Constraints as tt-metal gives them; times are the analytical backend's, as a mock device has none.

    A question is looked up in memory, then in the answer cache, then asked of a child process. Without ttnn
    the first two still answer, if the cache holds anything for the board (an import from another machine).
    """

    name = "ttmetal"

    def __init__(self, device: DeviceSpec, l1_small_bytes: int, cache: AnswerCache | None = None) -> None:
        self.device = device
        self.l1_small_bytes = l1_small_bytes
        self.jobs = whole_number(JOBS_VARIABLE, 1)
        self.timeout_seconds = whole_number(TIMEOUT_VARIABLE, DEFAULT_TIMEOUT_SECONDS)
        self._analytical = AnalyticalOpModel(device, l1_small_bytes)
        self.launch: LaunchTimes | None = self._analytical.launch
        self.spans: Mapping[str, Span] = self._analytical.spans
        self._cache = shared_cache() if cache is None else cache
        self._known: OrderedDict[OpQuery, OpConstraints] = OrderedDict()
        self._checked: Pool | None = None
        self._location, self._missing = self._found()
        self.context = self._context()
        self._check_board()

    # -- the protocol ----------------------------------------------------------------------------------------
    def constraints(self, query: OpQuery) -> OpConstraints:
        """tt-metal's verdict on an otherwise empty L1. OpModelError when it cannot be asked."""
        known = self._known.get(query)
        if known is not None:
            return known
        return self.constraints_many((query,))[0]

    def constraints_many(self, queries: Sequence[OpQuery], jobs: int | None = None) -> list[OpConstraints]:
        """`constraints` of each query in order, what is not known yet by up to `jobs` children at once."""
        answers: list[OpConstraints | None] = [self._known.get(query) for query in queries]
        asked: dict[str, list[int]] = {}
        for index, query in enumerate(queries):
            if answers[index] is None:
                answers[index] = self._without_asking(query, index, asked)
        if asked:
            for text, answer in zip(asked, self._ask(list(asked), jobs or self.jobs), strict=True):
                for index in asked[text]:
                    answers[index] = self._remember(queries[index], answer)
        return [answer for answer in answers if answer is not None]

    def cost(self, query: OpQuery) -> OpCost:
        """The analytical backend's prediction."""
        return self._analytical.cost(query)

    def runtime_ns(self, query: OpQuery) -> int:
        return self.cost(query).time_ns

    @contextmanager
    def program(self, source: str) -> Iterator[ProgramSession]:
        """Run a program statement by statement in a child of its own. OpModelError if its module fails."""
        with open_session(self._key(), source, self.timeout_seconds, self._check_hello) as session:
            yield session

    def describe(self) -> str:
        """Who answers, for people."""
        who = f"answers kept of ttnn {self.context.version}" if self._location is None else self._location.describe()
        return f"{who}, board {self.device.name}, l1_small {self.l1_small_bytes} B; times by the analytical backend"

    # -- answers ---------------------------------------------------------------------------------------------
    def _without_asking(self, query: OpQuery, index: int, asked: dict[str, list[int]]) -> OpConstraints | None:
        """The kept answer of a query; None after noting it in `asked`. What tt-metal takes and computes wrongly is not
        asked."""
        wrong = fault(query)
        if wrong is not None:
            return self._remember(query, OpConstraints.rejected(Rejection.WRONG_VALUES, wrong))
        call = self._call(query)
        if call is None:
            return self._remember(query, self._analytical.constraints(query))
        text = question_text(asked_inputs(query), call)
        if text not in asked:
            kept = self._kept(text)
            if kept is not None:
                return self._remember(query, kept)
        asked.setdefault(text, []).append(index)
        return None

    def _call(self, query: OpQuery) -> str | None:
        """The TTNN call; None for ops that no backend knows, which the analytical one answers by its rule."""
        try:
            return call_text(query, NAMES[: len(query.inputs)])
        except OpModelError:
            if opdef(query.op).opaque:
                return None
            raise

    def _remember(self, query: OpQuery, answer: OpConstraints) -> OpConstraints:
        self._known[query] = answer
        if len(self._known) > MEMORY_ENTRIES:
            self._known.popitem(last=False)
        return answer

    def _kept(self, text: str) -> OpConstraints | None:
        """The answer on disk, unless it is a timeout under a shorter limit than today's."""
        if self._cache is None:
            return None
        found = self._cache.get(self.context, text)
        if found is None:
            return None
        try:
            answer, limit = constraints_from(found)
        except (FormatError, KeyError, TypeError, ValueError) as error:
            log.warning("answer cache %s: an unreadable answer is asked again: %r", self._cache.path, error)
            return None
        return None if limit is not None and limit < self.timeout_seconds else answer

    def _ask(self, questions: list[str], jobs: int) -> list[OpConstraints]:
        """New answers, kept on disk but for those that say more of the moment than of the question."""
        pool = self._pool(questions[0])
        answers = []
        for question, message in zip(questions, pool.ask([request(q) for q in questions], jobs), strict=True):
            text = answer_text(message)
            if self._cache is not None and not message.get("passing"):
                self._cache.put(self.context, question, text)
            answers.append(constraints_from(text)[0])
        return answers

    # -- the child -------------------------------------------------------------------------------------------
    def _found(self) -> tuple[Location | None, OpModelError | None]:
        """Where ttnn is, or why it is not."""
        try:
            return location.find(), None
        except OpModelError as error:
            return None, error

    def _context(self) -> Context:
        """Whose answers count: this ttnn's, or without one the newest kept for this board."""
        source = location.device_source()
        if self._location is not None:
            return Context(self._location.version, self._location.build, self.device.name, self.l1_small_bytes, source)
        assert self._missing is not None
        kept = [] if self._cache is None else self._cache.contexts()
        fitting = [
            c for c in kept if (c.board, c.l1_small_bytes, c.source) == (self.device.name, self.l1_small_bytes, source)
        ]
        if not fitting:
            raise self._missing
        return max(fitting, key=lambda c: [int(part) if part.isdigit() else -1 for part in c.version.split(".")])

    def _check_board(self) -> None:
        """Not a simulator; a mock device needs a cluster description, and a known board's name that board's figures."""
        if self.context.source == "real":
            return
        if self.context.source == "sim":
            raise OpModelError(
                "a simulated device executes programs; what tt-metal accepts is asked of the mock device, as the "
                "simulator has more cores than the board"
            )
        if self.device.name not in environment.boards():
            raise OpModelError(
                f"tt-metal has no mock device for board '{self.device.name}'", alternatives=environment.boards()
            )
        if self.device.name in preset_names():
            self._check_hello(_figures(DeviceSpec.preset(self.device.name), self.l1_small_bytes))

    def _key(self) -> ChildKey:
        if self._location is None:
            assert self._missing is not None
            raise self._missing
        return ChildKey(self._location, self.device.name, self.l1_small_bytes)

    def _pool(self, question: str) -> Pool:
        """The children of this board, checked once against the board's description."""
        if self._location is None:
            raise OpModelError(
                f"the answer cache has no answer of ttnn {self.context.version} for board '{self.device.name}' to "
                f"{question}; {location.HOW_TO_INSTALL}"
            )
        pool = shared_pool(self._key(), self.timeout_seconds)
        if self._checked is not pool:
            self._check_hello(pool.hello())
            self._checked = pool
        return pool

    def _check_hello(self, found: Mapping[str, object]) -> None:
        """The open device must be the board that the plan is made for."""
        expected = _figures(self.device, self.l1_small_bytes)
        wrong = [f"{name} {found[name]} instead of {value}" for name, value in expected.items() if found[name] != value]
        if wrong:
            raise OpModelError(
                f"board '{self.device.name}' is not what tt-metal opens by that name "
                f"({self.context.source} device): {', '.join(wrong)}"
            )


def _figures(device: DeviceSpec, l1_small_bytes: int) -> dict[str, object]:
    """What a child says of its device in its greeting."""
    return {
        "arch": device.arch,
        "grid_yx": list(device.grid_yx),
        "l1_bank_bytes": device.l1_bank_bytes(l1_small_bytes),
        "cb_base_bytes": device.cb_base_bytes,
        "worker_l1_bytes": device.worker_l1_bytes,
        "dram_banks": device.dram_banks,
        "dram_bank_bytes": device.dram_bank_bytes,
    }
