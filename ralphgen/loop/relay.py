"""Joins standard input and output to a socket: the MCP server that an agent on a worker starts."""

import os
import select
import socket
import sys

SIZE = 1 << 16


def main(path: str) -> None:
    """Copy both ways until the other side closes."""
    with socket.socket(socket.AF_UNIX) as other:
        other.connect(path)
        joined = {0: other.fileno(), other.fileno(): 1}
        while other.fileno() in joined:
            for source in select.select(list(joined), [], [])[0]:
                data = os.read(source, SIZE)
                if not data:
                    del joined[source]
                    if not source:
                        other.shutdown(socket.SHUT_WR)
                while data:
                    data = data[os.write(joined[source], data) :]


if __name__ == "__main__":
    main(sys.argv[1])
