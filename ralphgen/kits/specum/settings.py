"""The kit's own table of the config."""

from pydantic import BaseModel, ConfigDict

from ralphgen.planning.kit import RelativePath


class SpecumSettings(BaseModel):
    """`[specum]`: `root` is the folder that holds `specs/`, relative to the project's."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    root: RelativePath = ""
