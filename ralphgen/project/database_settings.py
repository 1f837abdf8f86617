"""What the config says of the project's database: a file of SQLite, or a place in PostgreSQL."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from ralphgen.project.config_values import RelativePath, SchemaName, VariableName
from ralphgen.project.root import DatabasePlace


class DatabaseSettings(BaseModel):
    """`[database]`: where the project's rows are.

    `path` is the file of SQLite, from the project's folder. With `engine = "postgresql"`, `dsn_env`
    is the variable that holds the DSN, which stands in no file, and `db_schema` has the tables.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    engine: Literal["sqlite", "postgresql"] = "sqlite"
    path: RelativePath | None = None
    dsn_env: VariableName | None = None
    db_schema: SchemaName | None = Field(default=None, alias="schema")

    @model_validator(mode="after")
    def _of_one_engine(self) -> "DatabaseSettings":
        """Raise PydanticCustomError for keys of the other engine."""
        wrong = ["path"] if self.engine == "postgresql" else ["dsn_env", "db_schema"]
        named = [name.removeprefix("db_") for name in wrong if getattr(self, name) is not None]
        if named:
            said = {"key": named[0], "engine": self.engine}
            raise PydanticCustomError("engine", 'no "{key}" with engine = "{engine}"', said)
        return self

    @property
    def place(self) -> DatabasePlace | None:
        """Where the database is, None for a file of SQLite."""
        if self.engine != "postgresql":
            return None
        given = {"dsn_env": self.dsn_env, "schema": self.db_schema}
        return DatabasePlace(**{key: value for key, value in given.items() if value is not None})
