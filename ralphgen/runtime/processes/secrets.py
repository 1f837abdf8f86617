"""Masks the secrets of the environment in text that other programs write."""

from __future__ import annotations

import json
import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

MASK = "***"
SHORTEST = 6  # characters; shorter values are part of many words
SHORTEST_REST = 4  # characters of a value that was cut off
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
# How a word in the name of a secret ends: DB_PASS, PGPASSWORD, apiKey, SECRET_KEY_BASE.
_SECRET_WORD = re.compile(
    r"(?:PASS|PASSWORD|PASSWD|PASSPHRASE|PASSCODE|PWD|PW|SECRET|TOKEN|CREDENTIAL|CRED|COOKIE|KEY"
    r"|AUTH|AUTHORIZATION|BEARER|JWT|DSN|PEM|SALT|WEBHOOK|CONNSTR|CONNECTIONSTRING)S?$"
)
_SHORT_WORDS = frozenset(("PAT", "OTP", "PIN", "SAS", "SK"))  # that many other words end with
_OTHER_WORD = re.compile(
    r"(?:ASK|BY|COM|ENCOM|OVER|SUR|TRES|UNDER)PASS|BASALTS?|COBALTS?|OLDPWD|(?:DON|HOC|HOT|JOC|MON|PASS|TUR|WHIS)KEYS?"
)
_FOLDERS = frozenset(("PWD", "OLDPWD"))  # the variables of shells
_PUBLIC = re.compile(r"PUBL(?:IC|ISHABLE)_KEYS?$")
_PHRASE = re.compile(r"CONNECTION_STR(?:ING)?S?(?:_|$)|(?:^|_)PRIVATE$")
_NUMBER = frozenset(("COUNT", "LIMIT", "MAX", "MIN", "NUM", "PER", "TOTAL"))
# Last words of settings that are about a secret and hold none, such as DB_PASSWORD_FILE.
_ABOUT = re.compile(
    r"ALG|ALGORITHM|AUDIENCE|BACKEND|COUNT|DIR|DIRECTORY|DISABLED|DOMAIN|ENABLED|ENDPOINT"
    r"|EXPIRATION|EXPIRES|EXPIRY|FILE|FOLDER|HELPER|HOME|HOST|ISSUER|LENGTH|LIMIT|MAX|METHOD|MIN"
    r"|MODE|NAME|PARALLELISM|PATH|PORT|PROVIDER|REGION|REQUIRED|SCOPES?|SIZE|SOCK|SOCKET|STORE"
    r"|TIMEOUT|TTL|TYPE|URI|URL|USER|USERNAME|VERSION"
)
_SETTING = re.compile(r"(?i)always|bearer|default|(?:en|dis)abled?|optional|prompt|required")
_IN_URL = re.compile(r"""(://[^/\s:@"'<>]*:)[^/\s"'<>]+@""")
_USER_INFO = re.compile(r"://([^\s/?#]*)@|://([^\s/?#:]*:[^\s]*)@")
_PAIR = re.compile(r"""\b([A-Za-z][\w .-]{0,60}?)\s*=\s*("[^"]*"|'[^']*'|[^;&\s"']+)""")
LONGEST_USER = 16  # characters; a longer one that has no password is a token


def is_secret(name: str) -> bool:
    """Return whether a variable of this name usually holds a secret."""
    words = [word.upper() for word in _WORD.findall(name)]
    joined = "_".join(words)
    if not words or name.upper() in _FOLDERS or _PUBLIC.search(joined):
        return False
    if _ABOUT.fullmatch(words[-1]) and "WEBHOOK" not in words:
        return False
    if _NUMBER.intersection(words):  # MAX_TOKENS is a number of tokens, MAX_TOKEN is a token
        words = [word for word in words if not word.endswith("S") or word.endswith("PASS")]
    return _PHRASE.search(joined) is not None or any(
        word in _SHORT_WORDS or (_SECRET_WORD.search(word) and not _OTHER_WORD.fullmatch(word))
        for word in words
    )


class Masker:
    """Replaces the secrets that the environment holds now, however programs spell them."""

    __slots__ = ("_spellings",)

    def __init__(self, variables: Mapping[str, str] | None = None) -> None:
        """Take the secrets of the variables, which are those of this process by default."""
        found: dict[str, None] = {}
        for name, value in (os.environ if variables is None else variables).items():
            for secret in _secrets(name, value):
                found.update(dict.fromkeys(_spellings(secret)))
        self._spellings = sorted(found, key=len, reverse=True)

    def text(self, text: str, *, cut: bool = False) -> str:
        """Return the text without secrets; of one that is `cut`, the beginning is missing."""
        if cut:
            text = self._without_rest(text)
        for begin, end in reversed(self._spans(text)):
            text = f"{text[:begin]}{MASK}{text[end:]}"
        return _IN_URL.sub(rf"\1{MASK}@", text) if "://" in text else text

    def value(self, value: Any) -> Any:
        """Return a JSON value without secrets in its strings, however deep it is."""
        whole = [value]
        waiting: list[Any] = [whole]
        while waiting:
            part = waiting.pop()
            entries = list(part.items() if isinstance(part, dict) else enumerate(part))
            if isinstance(part, dict):
                part.clear()
            for key, item in entries:
                new = self.text(item) if isinstance(item, str) else item
                if isinstance(item, dict | list | tuple):
                    new = dict(item) if isinstance(item, dict) else list(item)
                    waiting.append(new)
                part[self.text(key) if isinstance(key, str) else key] = new
        return whole[0]

    def _spans(self, text: str) -> list[tuple[int, int]]:
        """Return the parts of a text that secrets cover, in order; those that overlap are one."""
        found: list[tuple[int, int]] = []
        for spelling in self._spellings:
            at = text.find(spelling)
            while at >= 0:
                found.append((at, at + len(spelling)))
                at = text.find(spelling, at + len(spelling))
        spans: list[tuple[int, int]] = []
        for begin, end in sorted(found):
            if spans and begin < spans[-1][1]:
                spans[-1] = spans[-1][0], max(end, spans[-1][1])
            else:
                spans.append((begin, end))
        return spans

    def _without_rest(self, text: str) -> str:
        """Return the text without the end of a secret that it begins with."""
        for spelling in self._spellings:
            for begin in range(1, len(spelling) - SHORTEST_REST + 1):
                if text.startswith(spelling[begin:]):
                    return MASK + text[len(spelling) - begin :]
        return text


def masked(text: str, *, cut: bool = False) -> str:
    """Return a text without the secrets of the environment, as `Masker.text` does."""
    return Masker().text(text, cut=cut)


def _secrets(name: str, value: str) -> Iterator[str]:
    """Yield the secrets in a variable: all of it, its lines, and passwords in it."""
    if is_secret(name):
        yield from _lines(value)
    for user_info, other in _USER_INFO.findall(value):
        user, colon, password = (user_info or other).partition(":")
        if colon:
            yield from _lines(password)
        elif len(user) >= LONGEST_USER:
            yield user
    for key, text in _PAIR.findall(value):
        if is_secret(key.replace(" ", "_")):
            yield from _lines(text.strip("\"'"))
    if value.lstrip()[:1] in ("{", "["):
        try:
            parsed = json.loads(value)
        except (ValueError, RecursionError):
            return
        yield from _members(name, parsed)


def _members(name: str, value: Any) -> Iterator[str]:
    """Yield the secrets in a JSON value that has a name."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _members(str(key), item)
    elif isinstance(value, list):
        for item in value:
            yield from _members(name, item)
    elif isinstance(value, str) and is_secret(name):
        yield from _lines(value)


def _lines(value: str) -> Iterator[str]:
    """Yield a value and each of its lines, as far as they are long enough to be a secret."""
    for text in (value, *value.replace("\\n", "\n").splitlines()):
        secret = text.strip()
        if len(secret) < SHORTEST or _SETTING.fullmatch(secret):
            continue
        if not (os.path.isabs(secret) and os.path.lexists(secret)):
            yield secret


def _spellings(secret: str) -> Iterator[str]:
    """Yield how programs write a secret: quoted, in URLs, in base64, in hex."""
    from base64 import b64encode
    from urllib.parse import quote, quote_plus, unquote

    yield secret
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    yield repr(secret)[1:-1]
    yield ascii(secret)[1:-1]
    yield re.sub(r"[^\w@%+=:,./-]", r"\\\g<0>", secret)  # by printf '%q'
    yield re.sub(r'["$`\\]', r"\\\g<0>", secret)  # by export -p
    markup = secret.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    yield from (markup, markup.replace('"', "&quot;"))
    for quote_mark in ("&#x27;", "&#39;", "&apos;"):
        yield markup.replace('"', "&quot;").replace("'", quote_mark)
    yield secret.replace("'", "'\\''")
    yield secret.replace("'", "'\"'\"'")
    data = secret.encode("utf-8", "surrogateescape")
    yield from (quote(data), quote(data, safe=""), quote_plus(data), data.hex())
    if len(plain := unquote(secret)) >= SHORTEST:
        yield plain
    yield b64encode(data).decode()
    for before in range(3):  # what precedes the value decides how its bytes fall into groups
        written = b64encode(bytes(before) + data).decode().rstrip("=")
        end = len(written) - ((before + len(data)) % 3 > 0)
        inner = written[(0, 2, 3)[before] : end]
        if len(inner) > SHORTEST:
            yield from (inner, inner.replace("+", "-").replace("/", "_"))
