"""The kit's own table of the config."""

from pydantic import BaseModel, ConfigDict, Field

from ralphgen.planning.kit import RelativePath


class DelaSettings(BaseModel):
    """`[dela]`: where tasks are looked for, what may be run, and how much is kept of it.

    `root` is the folder of the tasks, relative to the project's, `allowlist` a file instead of the
    user's own one. At most `max_jobs` tasks run at once; of each the last `lines` lines and `bytes`
    bytes of output are kept, for `ttl` seconds after its end. Without `allow_args` tasks run as
    they are, with no further arguments or environment variables.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    root: RelativePath = ""
    allowlist: str = ""
    max_jobs: int = Field(default=50, ge=1, le=1_000)
    lines: int = Field(default=1_000, ge=1, le=1_000_000)
    bytes: int = Field(default=5 * 1024 * 1024, ge=8_192, le=1 << 30)
    ttl: int = Field(default=3_600, ge=0, le=1_000_000)
    allow_args: bool = True
