"""PgBouncer in front of the run's PostgreSQL, from the path or from where proxies were unpacked."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from proxies import UNPACKED, free_port, program, running
from psycopg.conninfo import conninfo_to_dict, make_conninfo

CONFIG = """
[databases]
* = host=%(host)s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %(port)s
unix_socket_dir =
auth_type = trust
auth_file = %(folder)s/users.txt
pool_mode = %(mode)s
default_pool_size = 10
%(user)s
"""


class Pooler:
    """PgBouncer in a mode, "session" or "transaction", in front of the server of a DSN."""

    def __init__(self, folder: Path, mode: str, dsn: str) -> None:
        self.port = free_port()
        self.dsn = make_conninfo(dsn, host="127.0.0.1", port=self.port)
        told = {
            "folder": folder,
            "host": conninfo_to_dict(dsn)["host"],
            "mode": mode,
            "port": self.port,
            "user": "" if os.geteuid() else "user = nobody",  # it refuses to be root
        }
        self._folder = folder
        folder.mkdir()
        (folder / "own.ini").write_text(CONFIG % told, encoding="utf-8")
        (folder / "users.txt").write_text('"postgres" ""\n', encoding="utf-8")

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run it until the end of the block, which cuts off all its connections."""
        libraries = os.pathsep.join(str(path) for path in Path(UNPACKED or "/-").glob("usr/lib/*"))
        command = [program("pgbouncer"), str(self._folder / "own.ini")]
        with running(command, self._folder, {"LD_LIBRARY_PATH": libraries}, self._answers):
            yield

    def _answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        except OSError:
            return False
        return True
