"""Variables for programs without the server's secrets, and masks for secrets in texts."""

from __future__ import annotations

import json
import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any


# What signs tokens of sessions, opens the database, as a server or as its owner, and is a session.
SECRETS = ("RALPH_KEY", "RALPH_DSN", "RALPH_ADMIN_DSN", "RALPH_TOKEN")
# Variables that a program needs on any machine; a project need not list them.
STANDARD = re.compile(
    r"PATH|HOME|USER|LOGNAME|SHELL|PWD|TMPDIR|TMP|TEMP|TZ|TERM|COLORTERM|COLUMNS|LINES|NO_COLOR"
    r"|FORCE_COLOR|CI|LANG|LANGUAGE|LC_.*|XDG_.*|RALPHGEN_.*|RALPH_DATABASE"
    r"|(?:HTTP|HTTPS|ALL|NO|FTP)_PROXY|SSL_CERT_(?:FILE|DIR)|(?:REQUESTS|CURL)_CA_BUNDLE"
    r"|NODE_EXTRA_CA_CERTS|NODE_(?:ENV|PATH|OPTIONS)|NVM_DIR"
    r"|VIRTUAL_ENV|CONDA_PREFIX|PYENV_ROOT"
    r"|PYTHON(?:PATH|HOME|UTF8|HASHSEED|DONTWRITEBYTECODE|IOENCODING)"
    r"|GO(?:PATH|ROOT|CACHE|BIN|FLAGS|PROXY)|CARGO_HOME|RUSTUP_HOME|RUSTFLAGS"
    r"|(?:JAVA|M2|MAVEN|GRADLE|ANDROID)_HOME|GRADLE_USER_HOME|DOTNET_ROOT"
    r"|GEM_HOME|GEM_PATH|RBENV_ROOT|RUBYLIB|PERL5LIB|PHPRC"
    r"|SYSTEMROOT|WINDIR|COMSPEC|PATHEXT|USERPROFILE|APPDATA|LOCALAPPDATA|PROGRAMFILES"
)


def passed_on(folder: str, *, to_agent: bool = False, also: Iterable[str] = ()) -> dict[str, str]:
    """Return the variables of this process without secrets of the project.

    `folder` is that of the emitted server. Its facts may give these secrets other names, and may
    list the variables that are passed on; then only those, the standard ones and the names in
    `also` are. An agent keeps the variable that opens the database, which its servers need.
    """
    config = _config(folder)
    database = str(config.get("postgresql", {}).get("dsn_env", ""))
    secrets = {*SECRETS, str(config.get("http", {}).get("key_env", "")), database}
    if to_agent:
        secrets.discard(database)
    names = config.get("environment", {}).get("variables")
    names = tuple(map(str, names)) if isinstance(names, list) else None
    if names is not None:
        names = (*names, *also, *((database,) if to_agent else ()))
    return {
        name: value
        for name, value in os.environ.items()
        if name not in secrets and (names is None or _is_among(name, names))
    }


def _is_among(name: str, names: Iterable[str]) -> bool:
    """Return whether a name is standard, or matches one of the names; some of them end with "*"."""
    if STANDARD.fullmatch(name.upper()):  # proxies have small letters as well
        return True
    return any(name.startswith(one[:-1]) if one.endswith("*") else name == one for one in names)


def _config(folder: str) -> dict[str, Any]:
    """Return the settings in the facts of a server; nothing if they cannot be read."""
    try:
        with open(os.path.join(folder, "project.json"), encoding="utf-8") as file:
            config = json.load(file)["config"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return {}
    found = config if isinstance(config, dict) else {}
    return {key: value for key, value in found.items() if isinstance(value, dict)}


MASK = "***"
SHORTEST = 6  # characters; shorter values are part of many words
SHORTEST_REST = 4  # characters of a value that was cut off
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
# How a word in the name of a secret ends: DB_PASS, PGPASSWORD, apiKey, SECRET_KEY_BASE.
_SECRET_WORD = re.compile(
    r"(?:PASS|PASSWORD|PASSWD|PASSPHRASE|PASSCODE|PWD|PW|SECRET|TOKEN|CREDENTIAL|CRED|COOKIE|KEY"
    r"|AUTH|AUTHORIZATION|BEARER|JWT|DSN|MNEMONIC|PEM|SALT|WEBHOOK|CONNSTR|CONNECTIONSTRING)S?$"
)
_SHORT_WORDS = frozenset(("PAT", "OTP", "PIN", "PSK", "SAS", "SK"))  # many other words end so
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
_AUTHORIZATION = re.compile(r"(?i)\bauthorization\W{0,2}[:=]\s*(?:[a-z]+\s+)?([^\s\"',;]+)")
_IN_URL = re.compile(r"""(://[^/\s:@"'<>]*:)[^/\s"'<>]+@""")
_USER_INFO = re.compile(r"://([^\s/?#]*)@|://([^\s/?#:]*:[^\s]*)@")
_PAIR = re.compile(r"""\b([A-Za-z][\w .-]{0,60}?)\s*=\s*("[^"]*"|'[^']*'|[^;&\s"']+)""")
LONGEST_USER = 16  # characters; a longer user without a password is a token
_WHOLE = ("env", "headers")  # of an MCP server: every value in them may be secret
_NAMES = ("name", "type")  # of an MCP server: never secret
_USER_OPTIONS = ("-u", "--user")  # their value is a user with a password, as curl has it
# The patterns of masks for arguments are compiled at their first use.
_OPTION = r"--?[A-Za-z][\w.-]*|(?i:bearer)"
_GLUED_VALUE = r"-p(?![a-z-]*(?:=|$)).+"  # -phunter2, not -path or -prod=1
_OPTION_IN_TEXT = r"""(?<![\w-])(--?([A-Za-z][\w.-]*)[ =])(?!-)("[^"]*"|'[^']*'|[^\s"']+)"""
_NAMED_VALUE = r"""\b(([A-Za-z_][\w.-]*)=)("[^"]*"|'[^']*'|[^&;\s"']+)"""
_MEMBER = r"""((["'])([\w.-]+)\2\s*:\s*)("(?:\\.|[^"\\])*"|'[^']*'|[^\s,}\]]+)"""
_HEADER = r"""(?<![\w:/.])([A-Za-z][\w-]*):(?!//)\s*([^\s"'{}][^"'{}]*)"""
_SCHEME = r"""(?i)\b((?:bearer|basic)[ =:]+)[^\s"',;&]+"""
_URL = r"""[A-Za-z][A-Za-z0-9+.-]*://[^\s"'<>]+"""
_USER_OF_URL = r"(://)(?:[^/?#:@]*:(?!\d+(?:[/?#]|$)).*|[^/?#:@]*)@"
_PARAMETER = r"([?&][^=&#]*=)[^&#]+"
_RANDOM_PART = r"(?<=/)(?=[^/]*\d)(?=[^/]*[A-Za-z])[\w~-]{20,}(?=/|$)"
_KNOWN_FORM = (  # keys of services, private keys, and JSON Web Tokens
    r"(?<![A-Za-z0-9])(?:gh[opsur]_|github_pat_|glpat-|(?:sk|rk|pk)[-_]|AKIA|ASIA|AIza|ya29\."
    r"|xox[a-z]-|xapp-|npm_|pypi-|hf_|shpat_|SG\.|lin_api_|ntn_|dop_v1_|dckr_pat_|whsec_)"
    r"(?=[\w./+=-]*\d)[\w./+=-]{8,}|eyJ[\w-]{5,}(?:\.[\w-]*)+|-----BEGIN [A-Z ]*KEY-----(?s:.*)"
)


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
        """Take the secrets of the variables, by default from this process."""
        found: dict[str, None] = {}
        for name, value in (os.environ if variables is None else variables).items():
            for secret in _secrets(name, value):
                found.update(dict.fromkeys(_spellings(secret)))
        self._spellings = sorted(found, key=len, reverse=True)

    def text(self, text: str, *, cut: bool = False) -> str:
        """Return the text without secrets; with `cut`, the beginning of the text is missing."""
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
        """Return the parts of a text that secrets cover, in order; overlapping parts are one."""
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


def masked_server(server: Mapping[str, Any]) -> dict[str, Any]:
    """Return an MCP server as it may be shown: its keys, with masked credentials.

    Every value of the environment and of headers is masked, of other values only the parts that
    look like a credential.
    """
    return {key: _masked_entry(key, value) for key, value in server.items()}


def masked_arguments(arguments: Sequence[Any]) -> list[Any]:
    """Return the arguments of a command with masked credentials, each at its place."""
    found: list[Any] = []
    option = ""
    for argument in arguments:
        is_option = isinstance(argument, str) and re.fullmatch(_OPTION, argument) is not None
        is_secret_value = option == "-p" or is_secret(option.lstrip("-"))
        if not isinstance(argument, str):
            found.append(_masked_entry(option, argument))
        elif option in _USER_OPTIONS and ":" in argument:
            found.append(f"{argument.partition(':')[0]}:{MASK}")
        elif is_secret_value and not is_option and not _SETTING.fullmatch(argument):
            found.append(MASK)
        else:
            found.append(masked_text(argument))
        option = argument if is_option else ""
    return found


def masked_text(text: str) -> str:
    """Return a text, such as an argument or a URL, with masks for apparent credentials.

    Masking a masked text again does not change it.
    """
    if re.fullmatch(_GLUED_VALUE, text):
        return f"-p{MASK}"
    text = re.sub(_URL, lambda url: _masked_url(url[0]), text)
    text = re.sub(_SCHEME, rf"\1{MASK}", re.sub(_KNOWN_FORM, MASK, text))
    text = re.sub(_MEMBER, lambda found: _hidden(found[1], found[3], found[4]), text)
    for pattern in (_OPTION_IN_TEXT, _NAMED_VALUE):
        text = re.sub(pattern, lambda found: _hidden(found[1], found[2], found[3]), text)
    begin = 0
    while header := re.compile(_HEADER).search(text, begin):
        begin = header.start(2)
        if is_secret(header[1]) and not re.search(_SCHEME, header[2]):
            text = f"{text[:begin]}{MASK}{text[header.end() :]}"
            begin += len(MASK)
    return text


def _masked_entry(key: str, value: Any) -> Any:
    """Return a value of an MCP server, or of a part of it, under this key."""
    if isinstance(value, dict):
        if key in _WHOLE:
            return dict.fromkeys(value, MASK)
        return {name: _masked_entry(str(name), one) for name, one in value.items()}
    if isinstance(value, list):
        is_whole = key in _WHOLE or is_secret(key)
        return [MASK] * len(value) if is_whole else masked_arguments(value)
    if isinstance(value, str) and key not in _NAMES:
        return MASK if key in _WHOLE or is_secret(key) else masked_text(value)
    return value


def _hidden(before: str, name: str, value: str) -> str:
    """Return a value with the text before it, masked if its name is that of a secret."""
    plain = value.strip("\"'")
    is_open = not (is_secret(name) or before == "-p ") or _SETTING.fullmatch(plain) is not None
    if is_open or not plain or re.search(_SCHEME, value):
        return before + value
    mark = value[0] if value[0] in "\"'" else ""
    return f"{before}{mark}{MASK}{mark}"


def _masked_url(url: str) -> str:
    """Return a URL without its user, the values of its query, its fragment and random parts."""
    rest, fragment, _ = re.sub(_USER_OF_URL, rf"\1{MASK}@", url).partition("#")
    place, mark, query = rest.partition("?")
    query = re.sub(_PARAMETER, rf"\1{MASK}", mark + query)
    return re.sub(_RANDOM_PART, MASK, place) + query + (f"#{MASK}" if fragment else "")


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
    for text in _AUTHORIZATION.findall(value):  # for example in GIT_CONFIG_VALUE_0
        yield from _lines(text)
    for text in re.findall(_KNOWN_FORM, value):
        if len(text) >= LONGEST_USER:
            yield from _lines(text)
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
    """Yield a value and each of its lines, if long enough to be a secret."""
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
    for before in range(3):  # the length of the text before the value shifts its groups of bytes
        written = b64encode(bytes(before) + data).decode().rstrip("=")
        end = len(written) - ((before + len(data)) % 3 > 0)
        inner = written[(0, 2, 3)[before] : end]
        if len(inner) > SHORTEST:
            yield from (inner, inner.replace("+", "-").replace("/", "_"))
