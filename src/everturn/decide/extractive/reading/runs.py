"""Commands that ran: which checks failed when they last ran, what was changed since, what was committed."""

from collections.abc import Sequence

from everturn.decide.extractive.reading import commands
from everturn.decide.extractive.reading.merges import MergeState
from everturn.history.blocks import Block, text_of


class CommandRuns:
    """A failure stays open until what failed ran again without one. A run of only some tests closes
    only failures of such runs.
    """

    def __init__(self) -> None:
        self.merges = MergeState()
        self.programs: set[str] = set()
        self.commits: list[str] = []
        self.pushes: list[str] = []
        self.requests: list[str] = []
        # The last check, and what was changed after it; what was changed after the last commit.
        self.last_check = ""
        self._unchecked: dict[str, None] = {}
        self._has_tests = False
        self._uncommitted: dict[str, None] = {}
        self._open: dict[int, tuple[set[str], bool]] = {}
        self._passed_since: dict[int, str] = {}
        # Runs that would not have shown a failure.
        self._hidden_since: dict[int, str] = {}
        self._commands: dict[int, str] = {}

    def edited(self, path: str) -> None:
        self._uncommitted[path] = self._unchecked[path] = None

    def ended(self, command: str, result: Block, *, failed: bool, was_refused: bool = False) -> list[int]:
        """The failures that this run settles."""
        ran = commands.programs(command)
        self.programs.update(ran)
        if not was_refused and not commands.runs_in_background(result):
            self._note_check(command, ran)
        if "git " in command or "gh " in command:
            self._note_git(command, text_of(result), failed=failed)
        return [] if failed or not self._open else self._settled(command, set(ran), result)

    def failed(self, at: int, command: str) -> None:
        """The failure number `at` is from this command. An older failure of the same programs is replaced."""
        ran = set(commands.programs(command))
        self._open = {index: known for index, known in self._open.items() if not known[0] <= ran}
        if ran and (commands.is_check(command) or commands.is_delivery(command)):
            self._open[at] = ran, commands.is_narrowed(command)
            self._commands[at] = command

    def still_failing(self) -> dict[int, tuple[str, str]]:
        """Open failures, each with a related check that passed later, and with a later run of the same
        that did not show how it ended; "" for none.
        """
        return {at: (self._passed_since.get(at, ""), self._hidden_since.get(at, "")) for at in self._open}

    def uncommitted(self) -> tuple[str, ...]:
        return tuple(self._uncommitted)

    def unchecked(self) -> tuple[str, ...]:
        return tuple(self._unchecked)

    def _note_check(self, command: str, ran: Sequence[str]) -> None:
        """Once tests have run, only tests count as a check: a linter passes on code that does not work."""
        is_test = any(commands.tests_only((program,)) for program in ran)
        if is_test or (commands.is_check(command) and not self._has_tests):
            self._has_tests = self._has_tests or is_test
            self.last_check = command
            self._unchecked.clear()

    def _settled(self, command: str, ran: set[str], result: Block) -> list[int]:
        is_narrowed = commands.is_narrowed(command)
        is_shown = commands.shows_how_it_ended(command, result)
        settled: list[int] = []
        for at, (left, was_narrowed) in list(self._open.items()):
            if is_narrowed and not was_narrowed:
                continue
            # What let the failure through would do so again.
            if not is_shown and (self._commands[at] != command or commands.runs_in_background(result)):
                if left & ran:
                    self._hidden_since[at] = command
                continue
            if not is_narrowed and (commands.tests_only((*left, *ran)) or _is_related(command, left, ran)):
                self._passed_since[at] = command
            left -= ran
            if not left:
                del self._open[at]
                settled.append(at)
        return settled

    def _note_git(self, command: str, output: str, *, failed: bool) -> None:
        self.merges.note(command, output, failed=failed)
        if made := commands.commits_in(output):
            self.commits += made
            self._uncommitted.clear()
        self.pushes += commands.pushes_in(output)
        if "pr create" in command:
            self.requests += commands.requests_in(output)


def _is_related(command: str, failed: set[str], ran: set[str]) -> bool:
    """Whether a check of the same toolchain ran: `go vet` compiles what `go build` could not."""
    return commands.is_check(command) and not _tools(failed).isdisjoint(_tools(ran))


def _tools(programs: set[str]) -> set[str]:
    return {program.partition(" ")[0] for program in programs}
