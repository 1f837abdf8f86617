"""Asks the user within a call, using a form that the client shows, if it can.

The call is repeated from its beginning once the answer is there, so no transaction waits for the
user. In the stateless version the client repeats the call with the answers. In a handshake version
the server sends its own request and repeats the call when the client answers (`OpenQuestions`).
"""

from __future__ import annotations

import _thread

from .encoding import sha256_hex, write_json
from .errors import AskError, ToolError, one_line
from .values import check_arguments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, TypeVar

    from .deferred import DeferredResult
    from .session import Session

    Answer = dict[str, Any] | DeferredResult

    Result = TypeVar("Result")

KEY_DIGITS = 16  # characters of the digest that identifies a question
CONFIRM = "confirm"
DECLINED = "the user declined"
SILENT = "the user gave no answer"
UNUSABLE = "the user's answer is not usable"
_told: dict[int, KnownWords] = {}  # by thread, while a call runs that something is known for


class Question:
    """A question: `message` gives the reason, `properties` the schema of each form field.

    All fields are required. An answer is valid for exactly the same question: a question about
    other rows is asked again.
    """

    __slots__ = ("key", "message", "schema")

    def __init__(self, message: str, properties: Mapping[str, Mapping[str, Any]]) -> None:
        self.message = message
        self.schema = {
            "type": "object",
            "properties": dict(properties),
            "required": [*properties],
        }
        self.key = sha256_hex(write_json([message, self.schema]).encode("utf-8", "replace"))[
            :KEY_DIGITS
        ]


def confirmation(message: str, title: str) -> Question:
    """Return a yes/no question; `title` labels the checkbox."""
    return Question(message, {CONFIRM: {"type": "boolean", "title": title}})


class Word:
    """The user's answer: `content` by field name, or None without an answer.

    `why` is then the reason, empty if the user could not be asked; `through` is the client.
    """

    __slots__ = ("content", "through", "why")

    def __init__(self, content: dict[str, Any] | None, *, through: str = "", why: str = "") -> None:
        self.content = content
        self.through = through
        self.why = why


class KnownWords:
    """Answers that are known when a call is repeated, by the key of their question.

    If the client cannot ask the user, `is_all` is true: no other answer will come.
    """

    __slots__ = ("is_all", "words")

    def __init__(self, *, is_all: bool) -> None:
        self.is_all = is_all
        self.words: dict[str, Word] = {}


def ask(question: Question) -> Word:
    """Return the user's answer to a question, without content if the answer is no.

    Raises `AskError` if the user was not asked yet; the call is then repeated. Ask before doing
    anything that cannot be undone.
    """
    told = _told.get(_thread.get_ident())
    word = None if told is None else told.words.get(question.key)
    if word is None:
        if told is None or not told.is_all:
            raise AskError("", question)
        word = Word(None)
    return word


def need(question: Question, refusal: str) -> Word:
    """Return the user's answer to a question, with content.

    Raises `AskError` as `ask` does, and `ToolError` with the refusal if the answer is not a yes.
    The refusal is unchanged if the user cannot be asked.
    """
    try:
        word = ask(question)
    except AskError as error:
        raise AskError(refusal, question) from error
    if word.content is None:
        raise ToolError(f"{refusal}; {word.why}: nothing was changed" if word.why else refusal)
    return word


def judged(question: Question, answer: Mapping[str, Any], through: str) -> Word:
    """Return the word in a client's answer: `action`, and where that is "accept" `content`."""
    action = answer.get("action")
    if action != "accept":
        return Word(None, through=through, why=DECLINED if action == "decline" else SILENT)
    try:
        content = check_arguments(
            {**question.schema, "additionalProperties": False}, answer.get("content")
        )
    except ToolError:
        return Word(None, through=through, why=UNUSABLE)
    if content.get(CONFIRM) is False:
        return Word(None, through=through, why=DECLINED)
    if any(isinstance(text, str) and not text.strip() for text in content.values()):
        return Word(None, through=through, why=SILENT)
    return Word(content, through=through)


def knowing(told: KnownWords, work: Callable[[], Result]) -> Result:
    """Return `work()`; its calls of `ask` find the answers in `told`."""
    thread = _thread.get_ident()
    _told[thread] = told
    try:
        return work()
    finally:
        del _told[thread]


MOST_QUESTIONS = 4  # questions of one call
LONGEST_CLIENT = 60  # characters of a client's name
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
    """Return the result of a call that needs the user's answer, or a request for that answer.

    `params` are the request's, empty if the session may not ask. `asks` in them is the name of a
    client that can ask, and `inputResponses` its answers so far. `call` repeats the call, and
    `refuse` makes the answer of a refusal.
    """
    client, answers = params.get("asks"), params.get("inputResponses") or {}
    told = KnownWords(is_all=client is None)
    for _ in range(MOST_QUESTIONS):
        question: Question = error.question
        if question.key in answers:
            through = one_line(str(client or "its client"))[:LONGEST_CLIENT]
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
    """Return the result that asks the client for the user's answer."""
    params = {"message": question.message, "requestedSchema": question.schema}
    asked = {question.key: {"method": METHOD, "params": params}}
    return {"resultType": "input_required", "inputRequests": asked}
