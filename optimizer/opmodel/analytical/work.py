"""What an op does, in numbers that its time depends on: the bridge between a query and the time formulas."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Place(StrEnum):
    """Where the bytes of an operand or result are."""

    DRAM = "dram"
    L1 = "l1"
    """In L1, but of other cores: interleaved, or shards that are not where they are needed."""
    SHARD = "shard"
    """In the L1 of the core that uses it."""
    HOST = "host"


class Feed(StrEnum):
    """How an operand of a matmul gets to the cores that multiply it."""

    LOCAL = "local"
    """It is there: a shard of the core itself."""
    SHARED = "shared"
    """Shards that their cores multicast in turn."""
    DRAM_SHARED = "dram_shared"
    """One core per row, column or grid reads it from DRAM and multicasts it."""
    DRAM_EACH = "dram_each"
    """Every core reads from DRAM what it needs."""
    L1_SHARED = "l1_shared"
    """As `DRAM_SHARED`, from interleaved L1."""
    L1_EACH = "l1_each"


@dataclass(frozen=True, slots=True)
class Piece:
    """One operand or result."""

    size: int
    """Bytes moved, padding included."""
    tiles: int
    """32x32 tiles (for row-major data: the tiles its elements would fill)."""
    place: Place
    sticks: int = 0
    """Rows that are moved one by one; 0 for tiled data."""


@dataclass(frozen=True, slots=True)
class BankReads:
    """Operand B of a product in shards in the DRAM banks."""

    size: int
    """Bytes that the fullest bank gives."""
    readers: int
    """Cores that read one bank."""
    gathered: bool
    """A block of A is put together from several shards before it is multicast."""


@dataclass(frozen=True, slots=True)
class Product:
    """The matmul of one core. All counts in tiles."""

    rows: int
    columns: int
    """Output tiles of one core, of one batch."""
    depth: int
    """Inner tiles."""
    k_block: int
    """Inner tiles that arrive at a time (`in0_block_w`)."""
    tile_bytes: tuple[int, int]
    """Bytes of a tile of A and of B."""
    batches: int = 1
    """Such products that one core computes one after the other."""
    block_rows: int = 0
    block_columns: int = 0
    """Output tiles computed at a time; 0: all. Operands come again for every further block."""
    feeds: tuple[Feed, Feed] = (Feed.DRAM_SHARED, Feed.DRAM_SHARED)
    fidelity: str = "HiFi2"
    fp32: bool = False
    """32-bit accumulation in the destination registers."""
    subblock: tuple[int, int] = (1, 1)
    """Output tiles (rows, columns) that the destination registers hold at a time."""
    fused: str = ""
    """An activation that is applied to every output tile before it is packed."""


@dataclass(frozen=True, slots=True)
class Window:
    """The sliding window of a convolution, pool or halo, as one core goes through it."""

    sticks: int
    """Output pixels of one core."""
    inputs: int = 0
    """Input pixels that the core holds."""
    padding: int = 0
    """Output pixels of a halo that are padding."""
    height: int = 1
    width: int = 1
    """The kernel. A row of it is gathered at once."""
    stick_bytes: int = 0
    """Bytes of the channels of one pixel in one core."""
    tilized: int = 0
    """Gathered tiles that the core tilizes."""
    block_rows: int = 1
    """Rows of output tiles gathered at a time (`act_block_h`)."""
    shared: bool = False
    """Block or width shards: gathered tiles go to the cores of a row."""
    untilized: tuple[int, int] = (0, 0)
    """Rows of tiles, and tiles, that the core untilizes (a convolution: of its result)."""
    gathers_ahead: bool = False
    """A second buffer: the next block of windows is gathered while one is multiplied."""
    weights_ahead: bool = False
    """The same of weights."""


@dataclass(frozen=True, slots=True)
class Groups:
    """Groups of channels that are normalised together, as one core goes through them."""

    groups: int
    rows: int
    """Rows of tiles of one core."""
    sharers: int
    """Cores that hold parts of the same group."""


@dataclass(frozen=True, slots=True)
class Attention:
    """Attention over a sequence, as the busiest core goes through it. Chunks and heads in tiles."""

    q: int
    k: int
    head: int
    steps: int
    """Pairs of a query chunk and a key chunk."""
    fidelity: str
    fp32: bool
    """32-bit accumulation: exponentials wait for the products."""
    key_bytes: int
    """Bytes of the keys and values of one step, and of a named mask."""
    masked: bool = False
    """A mask is an operand."""


@dataclass(frozen=True, slots=True)
class Compute:
    """What the compute thread of one core goes through in one of our kernels."""

    arithmetic: tuple[tuple[str, int, int], ...]
    """(op whose cycles a tile takes, its operands in DST, times). `copy` brings a tile to DST, `reduce` folds one."""
    unpacked_bytes: int
    packed: int
    """Tiles."""
    sections: int
    """Times that DST is acquired."""
    inits: int
    waits: int
    """Calls that wait for a circular buffer, or hand a block on."""
    products: int = 0
    """Products of two tiles."""
    fidelity: str = "HiFi4"
    wide: bool = False
    """DST holds 32 bits."""
    subblock: tuple[int, int] = (1, 1)
    """Rows and columns of products that it computes at a time, which share operands."""
    local: bool = False
    """The rows that are multiplied lie on the core."""


@dataclass(frozen=True, slots=True)
class Transfer:
    """Tiles of one tensor that every core of one of our kernels brings or takes one by one."""

    tiles: int
    """Of the busiest core."""
    tile_bytes: int
    bursts: int
    """Times that the core asks and then waits."""
    place: Place
    distinct: int
    """Tiles that all cores together move, each counted once: as many places can serve them."""
    holders: int
    """DRAM banks or cores that the tensor is spread over."""
    first: bool = False
    """All of them before the first block, not block by block."""
    multiplied: bool = False
    """Operand of a product of matrices."""
    feed: Feed | None = None
    """How it is brought where a kernel multicasts: as to a matmul of TTNN."""
    readers: int = 0
    """Cores that read it, for themselves or for others; 0: all."""
    everywhere: bool = False
    """Multicast to the whole grid, not along its rows or columns."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """One of our kernels, whose reader, compute thread and writer hand blocks on to each other."""

    compute: Compute
    blocks: int
    """Of one core."""
    reads: tuple[Transfer, ...] = ()
    read_by_writer: tuple[Transfer, ...] = ()
    """What the thread that writes reads before."""
    writes: tuple[Transfer, ...] = ()
    launches: tuple[tuple[str, str], ...] = ()
    """(op, family) of what TTNN would launch for it."""
    rated: tuple[tuple[Work, Compute], ...] = ()
    """Ops for which a time per tile was measured as a whole, and what the compute thread does for each."""
    pieces: int = 1
    """In which the operands of its product come along the depth."""
    after: Compute | None = None
    """What is computed when the product is summed up; `compute` is the product alone then."""


@dataclass(frozen=True, slots=True)
class Work:
    """One device program on one board."""

    family: str
    """Which formula: a key of `formulas.FORMULAS`."""
    op: str
    """Short op name (`relu`), for constants that differ by op."""
    cores: int
    reads: tuple[Piece, ...] = ()
    writes: tuple[Piece, ...] = ()
    product: Product | None = None
    window: Window | None = None
    groups: Groups | None = None
    lines: int = 0
    """Rows of part tiles that are moved one by one, all cores together (reshape, permute of tiled data)."""
    share: int = 0
    """Tiles that the busiest core moves; 0: an even part."""
    burst: int = 1
    """Tiles that a reader asks for before it waits for them."""
    columns: int = 0
    """Columns of the grid that the cores lie in; 0: unknown. Tensors from elsewhere come down these."""
    gap: bool = False
    """Host time with a trace: the gap between ops is part of it."""
    traits: frozenset[str] = field(default_factory=frozenset)
    """`broadcast`: a row of one operand is spread over its tiles. `number`: an operand is a number, of which a tile is
    filled first."""
    first: tuple[str, ...] = ()
    """Activations that operands go through before the op itself."""
    kernel: Kernel | None = None
    banks: BankReads | None = None
    attention: Attention | None = None
