"""Written-out chains as oracles, and entries of such chains: shared by the tests of the chain solvers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from optimizer.errors import StateError
from optimizer.solver.chains.bitset import contains
from optimizer.solver.chains.chain_problem import Edge, ReshardOption
from optimizer.solver.chains.materialise import EdgeTable, MaterialisedChain, Matrix


def entry(
    direct: int, reshards: tuple[ReshardOption, ...] = (), direct_ns: tuple[int, ...] = (), reshard_ns: Matrix = ()
) -> EdgeTable:
    """What the entry of a chain allows and costs: `direct_ns` per config, `reshard_ns` per option and config."""
    return EdgeTable((direct,), reshards, (direct_ns,) if direct_ns else (), (), reshard_ns)


class TableOracle:
    """A materialised chain as an `EdgeOracle`: answers come from its tables."""

    def __init__(self, chain: MaterialisedChain) -> None:
        self._edges = dict(zip(chain.problem.edges, chain.edges, strict=True))
        self._entries = dict(zip(chain.problem.entries, chain.entries, strict=True))

    def external(self, op: int, consumer_mask: int) -> int:
        return self._entries[op].direct[0] & consumer_mask

    def external_reshards(self, op: int, consumer_mask: int) -> Sequence[ReshardOption]:
        return _narrowed(self._entries[op].reshards, 1, consumer_mask)

    def paths(self, edge: Edge, producer_mask: int, consumer_mask: int) -> Sequence[int]:
        rows = self._edges[edge].direct
        return [row & consumer_mask if contains(producer_mask, config) else 0 for config, row in enumerate(rows)]

    def reshards(self, edge: Edge, producer_mask: int, consumer_mask: int) -> Sequence[ReshardOption]:
        return _narrowed(self._edges[edge].reshards, producer_mask, consumer_mask)

    def direct_ns(self, edge: Edge, producer_config: int, consumer_config: int) -> int:
        return _cell(self._edges[edge].direct_ns, producer_config, consumer_config)

    def reshard_ns(self, edge: Edge, producer_config: int, layout_id: int) -> int:
        table = self._edges[edge]
        return _cell(table.reshard_ns, _option_number(table.reshards, layout_id), producer_config)

    def resharded_ns(self, edge: Edge, layout_id: int, consumer_config: int) -> int:
        table = self._edges[edge]
        return _cell(table.resharded_ns, _option_number(table.reshards, layout_id), consumer_config)

    def external_ns(self, op: int, config: int) -> int:
        return _cell(self._entries[op].direct_ns, 0, config)

    def external_reshard_ns(self, op: int, layout_id: int, config: int) -> int:
        table = self._entries[op]
        return _cell(table.resharded_ns, _option_number(table.reshards, layout_id), config)


def _cell(matrix: Matrix, row: int, column: int) -> int:
    return matrix[row][column] if matrix else 0


def _option_number(options: Sequence[ReshardOption], layout_id: int) -> int:
    for number, option in enumerate(options):
        if option.layout_id == layout_id:
            return number
    raise StateError(f"no reshard option with layout {layout_id}")


def _narrowed(options: Sequence[ReshardOption], producers: int, consumers: int) -> tuple[ReshardOption, ...]:
    """Options as finite sets of allowed configs, without those that enable nothing."""
    finite = (
        replace(option, enables=option.enables & consumers, producers=option.producers & producers)
        for option in options
    )
    return tuple(option for option in finite if option.enables and option.producers)
