"""Settings of the network: its backbone and its classification head."""

from typing import Annotated

from pydantic import Field

from remem.settings import Settings

Count = Annotated[int, Field(ge=1, le=65536)]


class NetSettings(Settings):
    """Which backbone, and what differs from its own defaults (None: the default of that backbone)."""

    name: str = "auto"  # `small` for images, `mlp` for vectors
    width: Count | None = None  # channels of the first stage; for `mlp` the number of features
    blocks: Annotated[tuple[Count, ...], Field(min_length=1)] | None = None  # residual blocks of each stage
    hidden: tuple[Count, ...] | None = None  # units of each hidden layer
    batch_norm: bool | None = None
    last_relu: bool | None = None


class HeadSettings(Settings):
    """Which classification head, and its constants."""

    name: str = "cosine"
    scale: float = 1.0  # initial value of the learned scale (sigma of LUCIR, eta of PODNet)
    proxies: Annotated[int, Field(ge=1)] = 10  # per class
