"""Says what has become of a tool: its data, or why there is none."""

from __future__ import annotations

from ralphgen.runtime.errors import CodedError

from ..codes import EXECUTION_FAILED, TIMEOUT
from ..json_values import value_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..primitives.http_primitive import Response
    from ..primitives.subprocess_primitive import Outcome

SUCCESSFUL = range(200, 400)  # status codes
LONGEST_REASON = 300  # characters of what a tool says of its failure, in the sentence about it


def data_of_command(outcome: Outcome, timeout: float) -> dict[str, Any]:
    """What a command has written; raises `CodedError`, with that as `details`, if it failed."""
    data = _written(outcome)
    if failure := _failure(outcome, timeout):
        raise CodedError(*failure, details=data)
    text = outcome.stdout.strip()
    if text[:1] in ("{", "[") and not outcome.stdout_truncated:
        try:
            data["json"] = value_of(text)
        except ValueError:
            return data  # it only begins like JSON
    return data


def data_of_document(outcome: Outcome, timeout: float) -> Any:
    """What a Python tool has returned; raises `CodedError` where it did not, or says it failed."""
    details = _written(outcome)
    document = _document(outcome.stdout)
    if document is not None:
        del details["stdout"], details["return_code"]  # the runtime's own, and not the tool's
    value = document.get("value") if document else None
    if value is not None:
        details["data"] = value
    if outcome.timed_out:
        raise _timed_out(timeout, details)
    if document is None:
        _, ending = _failure(outcome, timeout) or ("", "the process ended with the exit code 0")
        text = f"{ending}, before the tool returned anything: let it return instead of exiting"
        raise CodedError(EXECUTION_FAILED, text, details=details)
    if not document["ok"]:
        raise CodedError(EXECUTION_FAILED, str(document.get("error")), details=details)
    if isinstance(value, dict) and value.get("success") is False:
        raise CodedError(EXECUTION_FAILED, _reason(value), details=details)
    return value


def data_of_response(response: Response) -> dict[str, Any]:
    """What a server has answered; raises `CodedError`, with that as `details`, if it is a no."""
    data: dict[str, Any] = {
        "status_code": response.status_code,
        "headers": dict(response.headers),
        "body": response.body,
    }
    if response.truncated:
        data["truncated"] = True
    if response.status_code not in SUCCESSFUL:
        text = f"the request was answered with the status {response.status_code}"
        raise CodedError(EXECUTION_FAILED, text, details=data)
    return data


def _written(outcome: Outcome) -> dict[str, Any]:
    data: dict[str, Any] = {
        "stdout": outcome.stdout,
        "stderr": outcome.stderr,
        "return_code": outcome.return_code,
    }
    if outcome.signal is not None:
        data["signal"] = outcome.signal
    for name in ("stdout_truncated", "stderr_truncated"):
        if getattr(outcome, name):
            data[name] = True
    return data


def _failure(outcome: Outcome, timeout: float) -> tuple[str, str] | None:
    """The code and the sentence of a command that has not ended well."""
    if outcome.timed_out:
        error = _timed_out(timeout, {})
        return error.code, str(error)
    if outcome.signal is not None:
        return EXECUTION_FAILED, f"the process was ended by the signal {outcome.signal}"
    if outcome.return_code != 0:
        return EXECUTION_FAILED, f"the process ended with the exit code {outcome.return_code}"
    return None


def _timed_out(timeout: float, details: dict[str, Any]) -> CodedError:
    text = f"it took longer than {timeout:g} seconds, and was ended with all that it had started"
    return CodedError(TIMEOUT, text, details=details)


def _document(text: str) -> dict[str, Any] | None:
    """What the runtime says of a tool; None where it did not come to that."""
    try:
        found = value_of(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) and isinstance(found.get("ok"), bool) else None


def _reason(value: dict[str, Any]) -> str:
    """What a tool says of its failure."""
    said = value.get("error")
    if not isinstance(said, str) or not said.strip():
        return "the tool says that it failed"
    return said if len(said) <= LONGEST_REASON else f"{said[: LONGEST_REASON - 1]}…"
