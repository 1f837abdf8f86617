"""Asks people in the middle of a call: what the protocol calls elicitation, by forms.

The call is made again, from its beginning, once the answer is there; so nothing waits for a person
inside a transaction. In the stateless version the client makes it again itself, with the answers;
in a handshake version the server sends a request of its own and makes it again when that is
answered (`questions.py`).
"""

from __future__ import annotations

from ..elicitation import KnownWords, judged, knowing
from ..errors import AskError, one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from ..elicitation import Question
    from ..session import Session
    from .tools import Answer

MOST = 4  # questions of one call
LONGEST_NAME = 60  # characters of a client's name
METHOD = "elicitation/create"


def may_ask(session: Session) -> bool:
    """Return whether the server may ask the user questions in a session.

    The session's context decides, not the client: an agent can send any answer.
    """
    return session.user is not None


def answered_by_person(
    error: AskError,
    params: Mapping[str, Any],
    call: Callable[[], Answer],
    refuse: Callable[[str], dict[str, Any]],
) -> Answer:
    """Return what a call comes to that needs a person's word, or what asks for it.

    `params` are the request's, empty if the session may not ask: with `asks`, the name of a client
    that can ask, and `inputResponses` where it has. `call` makes it again, and `refuse` makes the
    answer of a refusal.
    """
    client, answers = params.get("asks"), params.get("inputResponses") or {}
    told = KnownWords(is_all=client is None)
    for _ in range(MOST):
        question: Question = error.question
        if question.key in answers:
            through = one_line(str(client or "its client"))[:LONGEST_NAME]
            told.words[question.key] = judged(question, answers[question.key], through)
        elif client is not None:
            return input_required(question)
        elif str(error):
            break
        try:
            return knowing(told, call)
        except AskError as another:
            error = another
    return refuse(str(error) or "this call requires too many confirmations: nothing was changed")


def input_required(question: Question) -> dict[str, Any]:
    """Return the result that asks the client for a person's answer."""
    params = {"message": question.message, "requestedSchema": question.schema}
    asked = {question.key: {"method": METHOD, "params": params}}
    return {"resultType": "input_required", "inputRequests": asked}
