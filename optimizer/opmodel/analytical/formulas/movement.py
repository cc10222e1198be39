"""Time of data movement: tiles, lines, row-major sticks, reshards, halo, transfers to and from the host."""

from __future__ import annotations

from optimizer.layouts.tiling import ceil_div
from optimizer.opmodel.analytical.formulas.basics import (
    Clock,
    Terms,
    dram,
    dram_both_ways,
    most_tiles,
    noc,
    pick,
    read_trip,
    sticks,
    sticks_read_ns,
    sticks_written_ns,
    tile_trips,
    tiles_per_core,
    write_trip,
)
from optimizer.opmodel.analytical.work import Place, Work
from optimizer.opmodel.base import Bound


def movement(t: Clock, work: Work, terms: Terms) -> float:
    """Slices, concats, transposes, permutes, reshapes of whole tensors."""
    dram_both_ways(t, work, terms)
    sticks(t, work, terms)
    tiled = not any(p.sticks for p in (*work.reads, *work.writes))
    if work.lines:
        terms.add(Bound.NOC, ceil_div(work.lines, work.cores) * pick(t, "line_ns", work))
        tiles = ceil_div(most_tiles(work.writes), work.cores)
        terms.add(Bound.NOC, tiles * pick(t, "part_tile_ns", work))
    elif tiled:
        terms.add(Bound.NOC, t.cycles(tiles_per_core(work) * tile_trips(t, work)))
    else:
        noc(t, work, terms)
        if work.window is not None:  # untilized on the way
            rows, tiles = work.window.untilized
            terms.add(Bound.COMPUTE, rows * t.k["slice_row_ns"] + tiles * t.k["slice_tile_ns"])
    return 0.0


def reshard(t: Clock, work: Work, terms: Terms) -> float:
    """Shards from and to DRAM, other shards, or the same shards elsewhere in L1."""
    dram(t, work, terms)
    sticks(t, work, terms)
    parts = (*work.reads, *work.writes)
    away = [p for p in parts if p.place is not Place.SHARD]
    if not away:
        home = sum(p.size for p in parts) / 2
        terms.add(Bound.NOC, t.cycles(home / work.cores / t.k["l1_copy_bytes_per_cycle"]))
    elif away[0].place is Place.L1:
        terms.add(Bound.NOC, t.cycles(away[0].size / work.cores / t.k["reshard_bytes_per_cycle"]))
    else:
        per_core = away[0].size / work.cores / t.k["dram_core_bytes_per_cycle"]
        if work.columns:  # packets of all DRAM banks turn into the columns of the cores, which share what these carry
            per_core = max(per_core, away[0].size / work.columns / t.k["noc_column_bytes_per_cycle"])
        terms.add(Bound.NOC, t.cycles(per_core))
    if away and away[0].tiles and not away[0].sticks:
        terms.add(Bound.NOC, t.cycles(ceil_div(away[0].tiles, work.cores) * t.k["reshard_tile_cycles"]))
    return 0.0


def halo(t: Clock, work: Work, terms: Terms) -> float:
    """Pixels at the edges of a shard go to the cores that convolve them; tiled input is untilized first."""
    w = work.window
    assert w is not None, "a halo has a window"
    rows, tiles = w.untilized
    terms.add(Bound.COMPUTE, t.cycles(rows * t.k["halo.row_cycles"] + tiles * t.k["halo.tile_cycles"]))
    foreign = max(0, w.sticks - w.inputs - w.padding) * w.stick_bytes
    local = min(w.sticks, w.inputs) * w.stick_bytes
    cycles = local / t.k["l1_copy_bytes_per_cycle"] + foreign / t.k["halo.foreign_bytes_per_cycle"]
    # All cores exchange at once: together they are limited by the links between neighbours.
    cycles += foreign * work.cores / t.k["halo.chip_bytes_per_cycle"]
    terms.add(Bound.NOC, t.cycles(cycles + w.padding * t.k["halo.padding_cycles"]))
    return 0.0


def tilize(t: Clock, work: Work, terms: Terms) -> float:
    """Row-major to tiles and back: reader, unpacker and writer, a row of tiles behind each other.

    The first row of tiles goes through all three; a core that has but one hides nothing. Sources: tt-metal's kernels
    `reader_unary_stick_layout_split_rows_interleaved`, `reader_unary_start_id`, `writer_unary_interleaved_start_id`.
    """
    w = work.window
    rows, tiles = w.untilized if w is not None else (0, tiles_per_core(work))
    compute = t.cycles(rows * t.k["tilize.row_cycles"] + tiles * t.k["tilize.tile_cycles"])
    reader = sticks_read_ns(t, work) + t.cycles(tiles * read_trip(t, work))
    if w is not None:
        reader += t.cycles(w.padding * t.k["tilize.padding_cycles"])
    writer = sticks_written_ns(t, work) + t.cycles(tiles * write_trip(t, work))
    terms.add(Bound.COMPUTE, compute)
    terms.add(Bound.NOC, max(reader, writer))
    dram_both_ways(t, work, terms)
    through = (compute, reader, writer)
    return (sum(through) - max(through)) / max(1, rows)


def view(t: Clock, work: Work, terms: Terms) -> float:
    """Nothing runs on the device."""
    return 0.0


def transfer(t: Clock, work: Work, terms: Terms) -> float:
    """What one blocking transfer takes however small, and bytes over PCIe; DRAM is far faster than the link."""
    way = "pcie_read" if any(p.place is Place.HOST for p in work.writes) else "pcie_write"
    terms.add(Bound.PCIE, t.k[f"{way}_ns"] + sum(p.size for p in work.reads) / t.k[f"{way}_gbps"])
    return 0.0
