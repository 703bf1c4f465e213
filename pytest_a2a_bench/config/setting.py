"""A setting: a field of a typed model, with its description and how its text is read."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from pydantic import AfterValidator, BeforeValidator, PlainValidator, TypeAdapter, ValidationError

from pytest_a2a_bench.config.values import one_of


@dataclass(frozen=True, slots=True)
class About:
    """The description of a setting.

    :param text: one plain sentence, as ``pytest --help`` and the reference show it.
    :param metavar: the form of its value, such as ``SECONDS``.
    """

    text: str
    metavar: str = ""


@dataclass(frozen=True, slots=True)
class Located:
    """Marks a setting whose value is a path.

    :param resolve: makes the value absolute, given the directory that relative paths start from.
    """

    resolve: Callable[[Any, Path], Any]


@dataclass(frozen=True, slots=True)
class Choice:
    """The valid words of a setting."""

    words: tuple[str, ...]


def choice(*words: str) -> tuple[Choice, AfterValidator]:
    """Return the metadata of a setting that is one of some words: ``Annotated[str, *choice("on", "off"), ...]``."""
    return Choice(words), AfterValidator(one_of(*words))


def text(read: Callable[[str], Any]) -> BeforeValidator:
    """Return the metadata of a setting whose text a function reads.

    :param read: returns the value, or raises ``ValueError`` that says which text is valid.
    """
    return BeforeValidator(lambda value: read(value) if isinstance(value, str) else value)


def whole_text(read: Callable[[str], Any]) -> PlainValidator:
    """Return likewise metadata for a function whose value is used as it is, of whichever type."""
    return PlainValidator(lambda value: None if value is None else read(str(value)))


@dataclass(frozen=True, slots=True)
class Setting:
    """One field of a model of settings.

    :param name: the field's name, such as ``max_steps``.
    :param annotation: its type with pydantic's metadata.
    :param default: its default, or what a default factory makes.
    """

    name: str
    annotation: Any
    default: Any
    about: About
    locate: Callable[[Any, Path], Any] | None
    words: tuple[str, ...]
    has_reader: bool

    @property
    def key(self) -> str:
        """Its name in the table and in ``--a2a-set``: ``max-steps``."""
        return self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        """Its environment variable: ``A2A_MAX_STEPS``."""
        return f"A2A_{self.name.upper()}"

    @property
    def help(self) -> str:
        """Its description."""
        return self.about.text

    @property
    def metavar(self) -> str:
        """The form of its value."""
        return self.about.metavar or "|".join(self.words) or ("on|off" if isinstance(self.default, bool) else "VALUE")

    @property
    def shown_default(self) -> str:
        """Its default as help and reference show it."""
        if self.default is None or self.default in ((), {}):
            return "none"
        if isinstance(self.default, bool):
            return "on" if self.default else "off"
        return f"{self.default:g}" if isinstance(self.default, float) else str(self.default)

    def read(self, value: Any) -> Any:
        """Validate a value: text of a command line or variable, or a native value of a table.

        :raises ValueError: if it is wrong, with one line that says which value is valid.
        """
        given = value
        if (self.has_reader or self.words) and not isinstance(value, str):
            value = _as_text(value)
        elif isinstance(value, bool) and not isinstance(self.default, bool):
            raise ValueError(f"{_shown(value)} is not {_valid(self.annotation)}")  # to Python true is 1
        try:
            found = _adapter(self.annotation).validate_python(value)
        except ValidationError as error:
            raise ValueError("; ".join(dict.fromkeys(self._message(one) for one in error.errors()))) from None
        # A reader of any text, such as a path, takes the words and lines that true and a list were made into.
        is_made = isinstance(value, str) and value is not given
        if is_made and found == value and (isinstance(given, bool) or "\n" in value) and value not in self.words:
            raise ValueError(f"{_shown(given)} is not text")
        return found

    def _message(self, error: Any) -> str:
        """Return the text of a reader's ``ValueError``, or which values are valid."""
        raised = error.get("ctx", {}).get("error")
        return str(raised) if raised is not None else f"{_shown(error['input'])} is not {_valid(self.annotation)}"


@functools.cache
def _adapter(annotation: Any) -> TypeAdapter[Any]:
    return TypeAdapter(annotation)


_KINDS = {
    "integer": "a whole number",
    "number": "a number",
    "boolean": "on or off",
    "string": "text",
    "array": "a list",
    "object": "a table",
}


@functools.cache
def _valid(annotation: Any) -> str:
    """Return which values a type with constraints accepts, such as ``a whole number of at least 1``."""
    schema = _adapter(annotation).json_schema()
    schema = next((one for one in schema.get("anyOf", ()) if one.get("type") != "null"), schema)
    if "enum" in schema:
        return f"one of {', '.join(map(str, schema['enum']))}"
    bounds = {"minimum": "of at least", "exclusiveMinimum": "above", "maximum": "up to", "exclusiveMaximum": "below"}
    limits = " and ".join(f"{words} {schema[name]:g}" for name, words in bounds.items() if name in schema)
    return f"{_KINDS[schema['type']]} {limits}".rstrip()


def _shown(value: Any) -> str:
    """Return a value as the command line or a TOML file has it."""
    return repr(value) if isinstance(value, str) else json.dumps(value, default=str)


def _as_text(value: Any) -> Any:
    """Return a TOML value in the form in which a command line has it, since one reader reads both.

    Lists and tables become lines, ``NAME=VALUE`` for the members of a table.
    """
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, list):
        return "\n".join(str(_as_text(one)) for one in value)
    if isinstance(value, dict) and not any(isinstance(one, dict) for one in value.values()):
        return "\n".join(f"{name}={_as_text(one)}" for name, one in value.items())
    return value


@functools.cache
def settings_of(model: type, prefix: str = "") -> Mapping[str, Setting]:
    """Return the settings of a model by name: the fields of a dataclass whose annotations have an :class:`About`.

    :param prefix: precedes the names of the fields, such as ``crm_``.
    """
    hints = get_type_hints(model, include_extras=True)
    found = {}
    for field in dataclasses.fields(model):
        metadata = get_args(hints[field.name])[1:] if get_origin(hints[field.name]) is Annotated else ()
        about = next((one for one in metadata if isinstance(one, About)), None)
        if about is None:
            continue
        made = field.default_factory() if field.default_factory is not dataclasses.MISSING else None
        found[prefix + field.name] = Setting(
            name=prefix + field.name,
            annotation=hints[field.name],
            default=made if field.default is dataclasses.MISSING else field.default,
            about=about,
            locate=next((one.resolve for one in metadata if isinstance(one, Located)), None),
            words=next((one.words for one in metadata if isinstance(one, Choice)), ()),
            has_reader=any(isinstance(one, BeforeValidator | PlainValidator) for one in metadata),
        )
    return found
