"""Tensor shapes of the sampled shape families.

Each family has activation shapes (used by element-wise, norm, data-movement and layout ops), matmul problems,
windows and attention heads. Families without windows or heads of their own borrow: a decision of the recorded
data set, kept so that fresh rows are distributed like recorded ones.
"""

from __future__ import annotations

from random import Random

FAMILIES = ("resnet50", "bert_base", "vit_b", "llama32_1b", "sd_unet", "random", "unaligned", "tiny", "huge")

Shape = tuple[int, ...]

# Stages of ResNet-50 as (pixels of one image, channels in the bottleneck, channels out of it).
RESNET_STAGES = ((12544, (64,)), (3136, (64, 128, 256)), (784, (128, 256, 512)), (196, (256, 512, 1024)))
TINY = ((32,), (7,), (1, 64), (2, 3), (1, 10), (1, 1000), (1, 1, 1, 1), (1, 1, 32, 1), (1, 1, 1, 32))
TINY += ((1, 1, 5, 5), (1, 1, 32, 32), (1, 1, 64, 64))
HUGE = ((1, 1, 65536, 1024), (1, 1, 16384, 4096), (1, 1, 8192, 8192), (1, 1, 4096, 16384), (1, 1, 2048, 128256))
HUGE += ((4, 1, 4096, 4096), (8, 16, 2048, 2048), (16, 64, 1024, 1024))
UNET_LEVELS = ((4096, 320), (1024, 640), (256, 1280), (64, 1280))
GROUP_NORM = ((1, 1, 4096, 960), (1, 1, 256, 64), (1, 1, 1024, 640), (1, 1, 256, 1280), (1, 1, 4096, 128))
GROUP_NORM += ((1, 1, 4096, 320), (1, 1, 1024, 480), (1, 1, 64, 1280))
UPSAMPLE = ((28, 256), (32, 320), (56, 64), (16, 640), (8, 1280), (13, 17))
IDS = ((1, 1), (1, 77), (1, 128), (1, 512), (1, 2048), (8, 128))
TABLES = ((1000, 100), (512, 768), (30522, 768), (128256, 2048))
# fmt: off
# (M, K, N) of the UNet's projections; (side, channels in, channels out, kernel, stride) of convolutions.
UNET_MATMULS = (
    (4096, 1280, 320), (256, 1280, 1280), (1024, 640, 5120), (4096, 320, 2560), (77, 768, 1280), (1024, 640, 640),
    (64, 1280, 1280), (4096, 320, 320), (77, 768, 320),
)
RESNET_CONVS = (
    (224, 3, 64, 7, 2), (56, 64, 64, 1, 1), (56, 64, 64, 3, 1), (56, 64, 256, 1, 1), (56, 256, 128, 1, 1),
    (56, 128, 128, 3, 2), (56, 256, 512, 1, 2), (28, 128, 128, 3, 1), (28, 512, 256, 1, 1), (28, 128, 512, 1, 1),
    (28, 256, 256, 3, 2), (14, 256, 256, 3, 1), (14, 256, 1024, 1, 1), (14, 1024, 512, 1, 1), (14, 512, 512, 3, 2),
    (14, 1024, 2048, 1, 2), (7, 512, 512, 3, 1), (7, 512, 2048, 1, 1), (7, 2048, 512, 1, 1),
)
UNET_CONVS = (
    (32, 640, 640, 3, 1), (32, 320, 640, 3, 1), (32, 1920, 640, 1, 1), (64, 320, 320, 3, 2), (8, 2560, 1280, 1, 1),
    (64, 4, 320, 3, 1), (8, 2560, 1280, 3, 1), (64, 320, 4, 3, 1), (16, 1280, 1280, 3, 1), (8, 1280, 1280, 3, 1),
    (16, 640, 1280, 3, 1), (64, 960, 320, 3, 1), (64, 320, 320, 3, 1),
)
# fmt: on


def activation(rng: Random, family: str) -> Shape:
    """One activation shape of the family, rank 1 to 4."""
    return _ACTIVATIONS[family](rng)


def _resnet(rng: Random) -> Shape:
    pixels, channels = rng.choice(
        [*RESNET_STAGES, (3136, (64, 512)), (784, (512, 1024)), (49, (512, 2048)), (196, (2048,))]
    )
    batch = rng.choice((1, 1, 1, 2, 8))
    return (1, 1, pixels * batch, rng.choice(channels))


def _bert(rng: Random) -> Shape:
    batch, seq = rng.choice((1, 1, 1, 2, 4, 8)), rng.choice((128, 128, 384, 512))
    forms = ((batch, 12, seq, 64), (batch, 12, seq, seq), (batch, seq, 768), (batch, 1, seq, 768), (batch, seq, 3072))
    return rng.choice(forms)


def _vit(rng: Random) -> Shape:
    batch = rng.choice((1, 1, 2, 4, 8))
    forms = ((batch, 197, 768), (1, 1, 224 * batch, 768), (batch, 12, 197, 64), (batch, 12, 197, 197))
    return rng.choice((*forms, (batch, 196, 768), (batch, 197, 3072)))


def _llama(rng: Random) -> Shape:
    seq = rng.choice((32, 32, 128, 512, 1024, 2048))
    forms = ((1, 1, seq, 2048), (1, 1, seq, 2048), (1, 1, seq, 8192), (1, 32, seq, 64), (1, 8, seq, 64))
    return rng.choice((*forms, (1, 1, 32, 128256)))


def _unet(rng: Random) -> Shape:
    batch = rng.choice((1, 2))
    pixels, channels = rng.choice(UNET_LEVELS)
    size = {4096: 40, 1024: 80, 256: 160, 64: 160}[pixels]
    wide = {4096: 1280, 1024: 2560, 256: 5120, 64: 5120}[pixels]
    forms = ((batch, pixels, channels), (1, 1, batch * pixels, channels), (batch, 8, pixels, size))
    return rng.choice((*forms, (batch, 8, pixels, 77), (batch, pixels, wide)))


def _random(rng: Random) -> Shape:
    lead = rng.choice(((1, 1), (1, 1), (1, 4), (1, 8), (2, 1), (2, 4), (2, 8), (3, 1), (3, 4), (3, 8)))
    return (*lead, 32 * rng.randint(1, 64), 32 * rng.randint(1, 64))


def _unaligned(rng: Random) -> Shape:
    return (rng.randint(1, 3), rng.choice((1, 3, 5)), rng.randint(1, 700), rng.randint(1, 1500))


_ACTIVATIONS = {
    "resnet50": _resnet,
    "bert_base": _bert,
    "vit_b": _vit,
    "llama32_1b": _llama,
    "sd_unet": _unet,
    "random": _random,
    "unaligned": _unaligned,
    "tiny": lambda rng: rng.choice(TINY),
    "huge": lambda rng: rng.choice(HUGE),
}


def matmul(rng: Random, family: str) -> tuple[Shape, Shape]:
    """Shapes of A [..., M, K] and B [..., K, N]."""
    if family in ("bert_base", "vit_b", "sd_unet", "llama32_1b") and rng.random() < 0.18:
        return _batched(rng, family)
    if family == "random" and rng.random() < 0.2:
        return _batched(rng, "bert_base")
    m, k, n = _problem(rng, family)
    batch = 1 if family in ("resnet50", "random") else rng.choice((1, 1, 1, 2, 4, 8))
    form = rng.random()
    if form < 0.5:
        return (1, 1, m, k), (1, 1, k, n)
    if form < 0.68:
        return (m, k), (k, n)
    if form < 0.86:
        return (batch, m, k), (1, k, n)
    return (1, batch, m, k), (1, 1, k, n)


def _problem(rng: Random, family: str) -> tuple[int, int, int]:
    if family == "resnet50":
        pixels, inner = rng.choice(
            ((12544, 64), (3136, 64), (3136, 128), (784, 128), (784, 256), (196, 256), (196, 512), (49, 512))
        )
        k, n = rng.choice(
            ((inner, inner * 4), (inner * 4, inner), (inner * 4, inner * 2), (inner * 2, inner * 4), (inner, inner))
        )
        return pixels * rng.choice((1, 1, 2)), min(k, 2048), min(n, 2048)
    if family == "bert_base":
        k, n = rng.choice(((768, 768), (768, 2304), (768, 3072), (3072, 768)))
        return rng.choice((128, 384, 512)) * rng.choice((1, 1, 1, 2, 8)), k, n
    if family == "vit_b":
        k, n = rng.choice(((768, 768), (768, 2304), (768, 3072), (3072, 768), (768, 1000)))
        return 197 * rng.choice((1, 1, 1, 1, 2, 8)), k, n
    if family == "llama32_1b":
        k, n = rng.choice(((2048, 2048), (2048, 512), (2048, 3072), (2048, 8192), (8192, 2048), (2048, 128256)))
        return rng.choice((32, 32, 128, 512, 2048)), k, n
    if family == "sd_unet":
        m, k, n = rng.choice(UNET_MATMULS)
        return m * rng.choice((1, 1, 1, 2)), k, n
    if family == "random":
        return 32 * rng.randint(1, 64) * rng.choice((1, 1, 2)), 32 * rng.randint(1, 56), 32 * rng.randint(1, 64)
    if family == "unaligned":
        return rng.randint(1, 1000), rng.randint(1, 1000), rng.randint(1, 2000)
    if family == "tiny":
        return rng.choice((1, 2, 8, 32)), rng.choice((1, 8, 32, 64)), rng.choice((1, 10, 32, 64))
    return rng.choice(((16384, 2048, 2048), (32, 16384, 16384), (4096, 4096, 16384), (8192, 8192, 8192)))


def _batched(rng: Random, family: str) -> tuple[Shape, Shape]:
    lead = (rng.choice((1, 1, 2, 4, 8)), rng.choice((8, 12, 32)))
    seq, size = {
        "bert_base": (rng.choice((128, 384)), 64),
        "vit_b": (197, 64),
        "sd_unet": (rng.choice((256, 1024)), rng.choice((40, 80, 160))),
        "llama32_1b": (rng.choice((128, 512)), 64),
    }[family]
    if rng.random() < 0.5:
        return (*lead, seq, size), (*lead, size, seq)
    return (*lead, seq, seq), (*lead, seq, size)


def convolution(rng: Random, family: str) -> dict[str, int | list[int]]:
    """n, h, w, cin, cout, k, s, p of a 2D convolution."""
    if family == "vit_b":
        return _window(rng.choice((1, 8)), 224, 3, 768, 16, 16, 0)
    if family == "resnet50":
        side, cin, cout, k, s = rng.choice(RESNET_CONVS)
        return _window(rng.choice((1, 1, 2, 8, 16)), side, cin, cout, k, s, {7: 3, 3: 1, 1: 0}[k])
    if family == "sd_unet":
        side, cin, cout, k, s = rng.choice(UNET_CONVS)
        return _window(rng.choice((1, 2)), side, cin, cout, k, s, k // 2)
    if family == "tiny":
        side, cin, cout, k = rng.choice(((28, 1, 6, 5), (14, 6, 16, 5), (16, 3, 16, 3), (4, 16, 16, 1), (8, 1, 8, 3)))
        return _window(rng.choice((1, 2)), side, cin, cout, k, 1, k // 2)
    if family == "huge":
        side, cin, cout = rng.choice(((512, 64, 64), (512, 3, 64), (256, 128, 128), (256, 256, 256), (224, 512, 512)))
        k = rng.choice((1, 3, 5))
        return _window(rng.choice((1, 2, 4)), side, cin, cout, k, rng.choice((1, 1, 2)), k // 2)
    step, top = (1, 128) if family == "unaligned" else (8, 64)
    k = rng.choice((1, 3, 5))
    cin, cout = step * rng.randint(1, top), step * rng.randint(1, top)
    return _window(rng.choice((1, 2)), rng.randint(4, 80), cin, cout, k, rng.choice((1, 1, 2)), k // 2)


def _window(n: int, side: int, cin: int, cout: int, k: int, s: int, p: int) -> dict[str, int | list[int]]:
    return {"n": n, "h": side, "w": side, "cin": cin, "cout": cout, "k": [k, k], "s": [s, s], "p": [p, p]}


def pool(rng: Random, family: str) -> dict[str, int | list[int]]:
    """n, h, w, c, k, s, p of a pooling window."""
    k, s, p = rng.choice(((2, 2, 0), (3, 2, 1), (3, 1, 1), (5, 1, 2), (7, 7, 0)))
    if family == "tiny":
        side, c = rng.choice(((14, 16), (4, 16), (8, 8)))
    elif family == "huge":
        side, c = rng.choice(((224, 512), (512, 64), (256, 128)))
    elif family == "unaligned":
        side, c = rng.randint(7, 80), rng.randint(3, 200)
    elif family == "resnet50" and rng.random() < 0.5:
        side, c = rng.choice(((112, 64), (56, 64), (28, 256), (7, 2048), (14, 512)))
    else:
        side, c = rng.randint(7, 80), 16 * rng.randint(1, 40)
    return {"n": rng.choice((1, 1, 4, 8)), "h": side, "w": side, "c": c, "k": [k, k], "s": [s, s], "p": [p, p]}


def heads(rng: Random, family: str) -> tuple[int, int, int, int, int]:
    """(batch, query heads, key heads, sequence length, head size) of an attention layer."""
    if family in ("resnet50", "llama32_1b", "tiny"):
        return 1, 32, 8, rng.choice((128, 512, 2048)), 64
    if family == "sd_unet":
        return rng.choice((1, 2)), 8, 8, rng.choice((64, 256, 1024, 4096)), rng.choice((40, 80, 160))
    if family == "huge":
        return 8, 32, 8, 8192, 128
    if family in ("vit_b", "unaligned"):
        return rng.choice((1, 8)), 12, 12, 197, 64
    return rng.choice((1, 8)), 12, 12, rng.choice((128, 384)), 64
