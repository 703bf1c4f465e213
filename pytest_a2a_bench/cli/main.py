"""The console script ``a2a-bench``: finds the subcommand, runs it, and turns trouble into one line and exit code 2."""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import re
import sys
import traceback
from argparse import SUPPRESS, Action, ArgumentParser, HelpFormatter, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import import_module
from typing import Any, NoReturn, Protocol, TextIO, cast

from pytest_a2a_bench import __version__
from pytest_a2a_bench.errors import A2ABenchError, ConfigurationError, Terminated
from pytest_a2a_bench.redact import KNOWN, in_environment, in_url
from pytest_a2a_bench.text import did_you_mean, sanitise

# As argparse itself exits for arguments that it refuses.
USAGE_ERROR = 2
# What a shell reports of a process that a signal ended (128 + its number): SIGINT, SIGTERM, SIGPIPE.
INTERRUPTED = 130
TERMINATED = 143
CLOSED = 141

GROUPS = {
    "set up": {
        "init": "write settings, starter tests and a gate for CI",
        "doctor": "show installation and settings, try an agent",
    },
    "judge": {
        "check": "check an agent's protocol and card",
        "gate": "judge finished trials, write a baseline, or rescore",
        "compare": "compare two runs, or the runs of a history",
    },
    "look at results": {
        "show": "show a conversation, why trials failed, or the page",
        "merge": "join the results of shards",
        "export": "write a page, tau2's files, leaderboards, metrics, schemas",
    },
    "other programs": {
        "agent": "serve a built-in agent",
        "assess": "serve the assessor for platforms, or ask it once",
        "controller": "start, reset and forward to an agent for a platform",
        "adk": "write or serve an agent for Google's ADK",
        "tau2": "run tau2's own command line with an agent behind A2A",
    },
}
"""Every subcommand with its line in the help text, by purpose; each is the module of that name in this package."""

COMMANDS = {name: line for commands in GROUPS.values() for name, line in commands.items()}


class Command(Protocol):
    """The interface of a subcommand's module, which is imported only when its command is given."""

    def configure(self, parser: ArgumentParser) -> None:
        """Declare the command's arguments."""
        ...

    def run(self, namespace: Namespace) -> int:
        """Do it, and return the exit code; raises A2ABenchError for wrong input, with a line for each problem."""
        ...


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``a2a-bench`` and return its exit code.

    :param argv: the arguments; by default the process's own.
    """
    # First of all, since the line of an error quotes what agents and files say, too.
    _write_whatever_it_is()
    argv = sys.argv[1:] if argv is None else argv
    with harmless(), _secrets_remembered(argv):
        try:
            return _run(argv)
        except KeyboardInterrupt as error:
            return TERMINATED if isinstance(error, Terminated) else INTERRUPTED


def _run(argv: Sequence[str]) -> int:
    completing = "_ARGCOMPLETE" in os.environ  # set by the shell function that argcomplete registers
    words = os.environ.get("COMP_LINE", "").split()[1:] if completing else argv
    # No option before the command takes a value, so the first word is the command.
    parser = make_parser(next((word for word in words if word in COMMANDS or not word.startswith("-")), None))
    if completing:
        from argcomplete import autocomplete

        autocomplete(parser)
    if given := next(filter(None, map(_TOKEN_OPTION.match, argv)), None):
        # Before any parser, ours or tau2's, which would print its value.
        print(
            f"a2a-bench: {given[0]}: a token does not belong into a command line; put it into an environment variable, "
            f"and name that with {given[0].removesuffix('token')}env NAME",
            file=sys.stderr,
        )
        return USAGE_ERROR
    try:
        # Some options print and leave.
        namespace, rest = parser.parse_known_args(argv)
        parser.take(namespace, rest)
        return int(namespace.run(namespace))
    except A2ABenchError as error:
        from pytest_a2a_bench.config.load import of_command  # imports every setting

        for line in error.args if isinstance(error, ConfigurationError) else [str(error)]:
            print(f"a2a-bench: {of_command(parser.options).words(' '.join(str(line).split()))}", file=sys.stderr)
        return USAGE_ERROR
    except BrokenPipeError:  # `a2a-bench compare A B | head`: a message would not be read
        # What is left in the buffer cannot be written when the process ends. The verdict may not be known: no success.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CLOSED


_TOKEN_OPTION = re.compile(r"--(?:(?:agent-|user-)?a2a-)?auth-token(?![\w-])")
_SECRET_OPTION = re.compile(
    r"--(?:(?:agent|user)-)?(?:a2a-)?(?:(?:controller-|assessor-)?auth|oauth-client-secret|client-key|client-passphrase)-env"
)
"""Options that name an environment variable with a secret in it."""


@contextlib.contextmanager
def _secrets_remembered(argv: Sequence[str]) -> Iterator[None]:
    """Let no output show a secret of the environment or of a URL among the arguments; a traceback neither."""
    given = [*itertools.pairwise(argv), *(word.partition("=")[::2] for word in argv)]
    named = [value for option, value in given if _SECRET_OPTION.fullmatch(option)]
    in_urls = (secret for word in argv for secret in in_url("a URL of the command line", word))
    forget = KNOWN.remember([*in_environment(os.environ, *named), *in_urls])
    try:
        yield
    except Exception as error:
        traceback.print_exception(error)
        raise SystemExit(1) from None
    finally:
        # What is printed waits for its line to end.
        with contextlib.suppress(BrokenPipeError):
            sys.stdout.flush()
            sys.stderr.flush()
        forget()
        settings = sys.modules.get(f"{__package__}._settings")
        while settings is not None and settings.FORGET:
            settings.FORGET.pop()()


def _write_whatever_it_is() -> None:
    """Escape characters that the terminal's encoding lacks: a report must not end at an agent's words."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


class OneLineParser(ArgumentParser):
    """A parser that reports a wrong argument in one line, without the usage text around it.

    :ivar options: every option that it, or the command that was chosen, has.
    :ivar command: that command after a blank; empty in its own parser.
    """

    options: tuple[str, ...] = ()
    command = ""
    operands: Action | None = None
    """The operands of which that command takes any number."""

    def take(self, namespace: Namespace, rest: Sequence[str]) -> None:
        """Add operands that stand after an option to those before it: argparse takes only the first ones."""
        if not rest:
            return
        if self.operands is None or any(word.startswith("-") for word in rest):
            self.error(f"unrecognized arguments: {' '.join(rest)}")
        read = cast("Callable[[str], object]", self.operands.type or str)
        getattr(namespace, self.operands.dest).extend(map(read, rest))

    def error(self, message: str) -> NoReturn:
        """Print the message and leave with exit code 2."""
        self.exit(USAGE_ERROR, f"{self.prog}: {message}{self._near(message)}; see {self.prog}{self.command} --help\n")

    def _near(self, message: str) -> str:
        """Return the most likely one of the valid choices or options."""
        if match := re.search(r"invalid choice: '(.*?)' \(choose from (.*)\)", message):
            return did_you_mean(match[1], re.findall(r"[\w.-]+", match[2])).rstrip("?")
        if match := re.search(r"unrecognized arguments: (--[\w-]+)", message):
            return did_you_mean(match[1], self.options).rstrip("?")
        return ""


def make_parser(chosen: str | None = None) -> OneLineParser:
    """Return the parser with every subcommand.

    :param chosen: the one whose arguments are declared too. The others stay names with a line of help: their modules
        bring HTTP, gRPC and the benchmarks along, and ``a2a-bench --help`` should not wait for those.
    """
    parser = OneLineParser(
        prog="a2a-bench",
        usage="a2a-bench COMMAND ... (a2a-bench COMMAND --help)",
        description="Benchmark A2A agents with pytest.",
        epilog="\n\n".join(
            "\n".join([f"{title}:", *(f"  {name:<12}{line}" for name, line in commands.items())])
            for title, commands in GROUPS.items()
        ),
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"pytest-a2a-bench {__version__}")
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True, help=SUPPRESS, prog="a2a-bench")
    for name in COMMANDS:
        subparser = subparsers.add_parser(name)
        if name == chosen:
            command = load_command(name)
            # A terminal knows no markup.
            subparser.description = (command.__doc__ or "").replace("``", "")
            command.configure(subparser)
            subparser.formatter_class = partial(HelpFormatter, max_help_position=32)
            operands = [action for action in subparser._actions if not action.option_strings]
            subparser.usage = " ".join(["%(prog)s [OPTION ...]", *map(_operand, operands)])
            # What a command does not know is reported by this parser.
            parser.command = f" {name}"
            parser.operands = next((action for action in operands if action.nargs in ("*", "+")), None)
            parser.options = tuple(option for action in subparser._actions for option in action.option_strings)
            subparser.set_defaults(run=command.run, options=parser.options)
    return parser


def _operand(action: Action) -> str:
    name = action.metavar or action.dest
    name = name if isinstance(name, str) else " ".join(name)
    name += " ..." if action.nargs in ("*", "+") else ""
    return f"[{name}]" if action.nargs in ("?", "*") else name


def load_command(name: str) -> Command:
    """Import the module of a subcommand."""
    return cast(Command, import_module(f"{__package__}.{name}"))


_COLOUR = re.compile(r"(\x1b\[[0-9;]*m)")


@contextlib.contextmanager
def harmless() -> Iterator[None]:
    """Hide secrets in printed text, and make it harmless (:func:`~pytest_a2a_bench.text.sanitise`)."""
    out, err = Outlet(sys.stdout), Outlet(sys.stderr)
    with contextlib.redirect_stdout(cast(TextIO, out)), contextlib.redirect_stderr(cast(TextIO, err)):
        try:
            yield
        finally:
            out.finish()
            err.finish()


class Outlet:
    """A text stream that passes text on line by line: two harmless pieces may be a terminal's command together.

    A terminal gets colours; no CI reads its text.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._begun = ""

    def write(self, text: str) -> int:
        """Write the lines that are complete."""
        lines, end, self._begun = (self._begun + text).rpartition("\n")
        if end:
            self._stream.write(self._clean(lines) + end)
        return len(text)

    def flush(self) -> None:
        """Write a line that is not complete, too."""
        self.finish()
        self._stream.flush()

    def finish(self) -> None:
        """Pass on the unfinished line."""
        begun, self._begun = self._begun, ""
        if begun and not self._stream.closed:
            self._stream.write(self._clean(begun))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _clean(self, text: str) -> str:
        text = KNOWN.hide(text)
        if not self._stream.isatty():
            return sanitise(text)
        return "".join(part if _COLOUR.fullmatch(part) else sanitise(part) for part in _COLOUR.split(text))
