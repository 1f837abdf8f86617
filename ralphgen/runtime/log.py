"""Log lines: one JSON object a line, on standard error only."""

import sys
import time


def log_exception(logger: str, **data: object) -> None:
    """Write one line on the exception that is being handled, with its traceback."""
    import traceback

    log("error", logger, {**data, "traceback": traceback.format_exc()})


def log(level: str, logger: str, data: object) -> None:
    """Write one line; `level` is a syslog word of the protocol (info, warning, error).

    A client that has closed standard error loses the line, and nothing else.
    """
    import json

    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    line = {"level": level, "logger": logger, "data": data, "timestamp": stamp}
    try:
        sys.stderr.write(json.dumps(line, default=str) + "\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        return
