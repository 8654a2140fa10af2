"""Settings of the network: its backbone and its classification head."""

from typing import Annotated

from pydantic import Field

from remem.settings import Settings

Count = Annotated[int, Field(ge=1, le=65536)]


class NetSettings(Settings):
    """Which backbone, and what differs from its own defaults (None: the default of that backbone)."""

    name: str = Field(
        default="auto", description="Network (see `remem list backbones`); auto: small for images, mlp for vectors."
    )
    width: Count | None = Field(
        default=None, description="small: channels of the first stage; mlp: number of features."
    )
    blocks: Annotated[tuple[Count, ...], Field(min_length=1)] | None = Field(
        default=None, description="small: residual blocks of each stage."
    )
    hidden: tuple[Count, ...] | None = Field(default=None, description="mlp: units of each hidden layer.")
    batch_norm: bool | None = Field(default=None, description="mlp: whether there is batch normalisation.")
    last_relu: bool | None = Field(
        default=None, description="Whether there is a ReLU before pooling; without one, features are signed."
    )


class HeadSettings(Settings):
    """Which classification head, and its constants."""

    name: str = Field(default="cosine", description="Classification head: linear, cosine or proxies.")
    scale: float = Field(default=1.0, description="Initial value of the learned scale (sigma of LUCIR, eta of PODNet).")
    proxies: Annotated[int, Field(ge=1)] = Field(default=10, description="Proxies per class.")
