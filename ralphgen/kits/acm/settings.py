"""The kit's own table of the config."""

from pydantic import BaseModel, ConfigDict


class AcmSettings(BaseModel):
    """`[acm]`: the folders of the documents and of the capabilities registry.

    A path may begin with `~`; a relative one is the project's. The variables ACM_ROOT and
    ACM_REGISTRY_ROOT go first; where nothing is said, the usual places are looked at.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    root: str = ""
    registry: str = ""
