"""How commands ended, as the harnesses of several agents record it."""

import pytest

from everturn.decide.extractive.reading import commands as c
from everturn.decide.extractive.reading.answers import find_question
from everturn.decide.extractive.reading.merges import MergeState
from everturn.history.blocks import result_block


@pytest.mark.parametrize(
    "output",
    [
        "Exit code 1\nsomething",
        "<returncode>2</returncode>\n<output>\n</output>",
        "some output\n[The command completed with exit code 1.]",
        '{"output":"","metadata":{"exit_code":1}}',
        "Process exited with code 3\nOutput:\n",
        "Command: make\nOutput: x\nExit Code: 2\nSignal: (none)",
        "ok  a\nFAIL\nFAIL\tpkg\t0.2s",
        "FAILED tests/test_a.py::test_b - assert 1 == 2\n1 failed, 3 passed in 0.1s",
        "Tests:       2 failed, 5 passed, 7 total",
        "src/a.c:3:1: error: expected ';'",
        "src/a.ts(1,2): error TS2345: bad",
        "CMake Error at CMakeLists.txt:3 (find_package):",
        "E: Unable to locate package llvm-dev",
        "Command timed out after 2m 0s",
        "error[E0308]: mismatched types",
        "Traceback (most recent call last):\n  File x\nValueError: no",
        "[lint:go] ERROR task failed",
        "make: *** [Makefile:3: all] Error 2",
        "CONFLICT (content): Merge conflict in a.py",
        "fatal: not a git repository",
        "bash: foo: command not found",
    ],
)
def test_these_outputs_report_a_failure(output):
    assert c.has_failed("make test", result_block("c", output))


@pytest.mark.parametrize(
    "output",
    [
        "",
        "Exit code: 0\nfine",
        "<returncode>0</returncode>\n<output>\nok\n</output>",
        "[The command completed with exit code 0.]",
        "0 failed, 12 passed",
        "ok  	pkg	0.2s\nPASS",
        "this prints FAILED in the middle of a line and no error",
        "Traceback (most recent call last):\n  logged and handled\n12 passed in 0.3s",
        "test result: ok. 3 passed; 0 failed",
    ],
)
def test_these_outputs_report_none(output):
    assert not c.has_failed("make test", result_block("c", output))


@pytest.mark.parametrize(
    ("command", "output"),
    [
        (
            "mise run lint | head -5",
            "[lint] $ golangci-lint run ./...\na.go:55:60: result 0 is always false\n1 issues:",
        ),
        ("golangci-lint run --out-format=x | head", "Error: unknown flag: --out-format"),
        ("go build ./... | tail -3", "# example.com/p/cli\n./a.go:5:2: undefined: x"),
        ("go vet ./... | head", "# example.com/p [example.com/p.test]\nvet: p/a_test.go:5:2: undefined: x"),
        ("ruff check . | tail -1", "Found 3 errors."),
        ("ruff check --fix . | tail -1", "Found 3 errors (2 fixed, 1 remaining)."),
        ("npx eslint src | tail -2", "✖ 3 problems (2 errors, 1 warning)"),
        ("uv run pyright | tail -1", "17 errors, 0 warnings, 0 informations"),
        ("npm run check | tail -3", "npm error path /p\nnpm error command failed"),
        ("mise run test", "mise ERROR no tasks defined in ~/p"),
        ("go test ./... -v | tail -3", "PASS\nok  \tp/a\t3.0s\nFAIL"),
    ],
)
def test_a_check_behind_a_pipe_has_failed_if_it_tells_what_it_found(command, output):
    assert c.has_failed(command, result_block("c", output))


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("golangci-lint run", "0 issues."),
        ("npx eslint src", "✖ 3 problems (0 errors, 3 warnings)"),
        ("ruff check --fix .", "Found 3 errors (3 fixed, 0 remaining)."),
        ("uv run pyright", "0 errors, 4 warnings, 0 informations"),
        ("pytest -q", "Found 3 errors in the log, as expected\n4 passed in 0.1s"),
        ("./report.sh", "Found 3 errors in last week's tickets"),
        ("run_shell_command make", "Output: (empty)\nError: (none)\nExit Code: 0"),
        ("go test ./... -v | tail", "Error: unknown command x\n--- PASS: TestX (0.1s)\nok  \tp/a\t3.0s"),
        ("gh pr diff 2", "+\t// should name 2 failures"),
    ],
)
def test_nothing_found_and_what_others_found_is_no_failure(command, output):
    assert not c.has_failed(command, result_block("c", output))


@pytest.mark.parametrize(
    "command",
    ["cat log.txt", "cd src && grep -rn FAIL .", "git log --oneline | head", "sed -n 1,9p a; head b"],
)
def test_what_a_command_only_prints_is_not_its_own_failure(command):
    assert c.only_prints(command)
    assert not c.has_failed(command, result_block("c", "FAILED tests/test_a.py\nfatal: x"))
    assert c.has_failed(command, result_block("c", "Exit code 1\nno such thing"))


@pytest.mark.parametrize(
    ("command", "ran"),
    [
        ("cd /p && go test ./... -run X -v 2>&1 | tail", ("go test",)),
        ("CI=1 npm run build -- --prod", ("npm run build",)),
        ("python -m pytest tests -q", ("python -m pytest",)),
        ("pytest tests/a.py", ("pytest",)),
        ("mise run fmt && mise run lint", ("mise run fmt", "mise run lint")),
        ("git commit -m \"$(cat <<'EOF'\nfix tests && make\nEOF\n)\" && git push", ("git commit",)),
        ('git commit -m "run make && test it"', ("git commit",)),
    ],
)
def test_the_programs_of_a_command(command, ran):
    assert c.programs(command) == ran


def test_checks_deliveries_and_runs_of_some_tests():
    checked = [c.is_check(each) for each in ("make", "ruff check .", "git checkout x", "ls")]
    assert checked == [True, True, False, False]
    assert [c.is_delivery(each) for each in ("git commit -am x", "git status")] == [True, False]
    narrowed = [c.is_narrowed(each) for each in ("pytest -k x", "go test -run X", "pytest a.py::b", "pytest")]
    assert narrowed == [True, True, True, False]


def test_unmerged_paths_of_a_short_status_are_conflicts():
    state = MergeState()
    state.note("git status --short", "UU src/a.py\n M src/b.py", failed=False)
    assert list(state.open) == ["src/a.py"]
    state.note("git add -A", "", failed=False)
    assert list(state.open) == []


def test_a_merge_is_over_when_the_user_says_so_and_only_then():
    state = MergeState()
    state.note(
        "git merge x", "CONFLICT (content): Merge conflict in a.py\nAutomatic merge failed", failed=True
    )
    conflict = (list(state.open), bool(state.under_way))
    state.heard("The parser is done.")
    assert (list(state.open), bool(state.under_way)) == conflict == (["a.py"], True)
    state.heard("I resolved the conflict.")
    assert (list(state.open), state.under_way) == ([], "")


def test_a_longer_message_gets_only_the_item_that_it_names():
    statement = "Two ways:\n\n**Option A:** rewrite\n**Option B:** repair\n\nWhich?"
    said = "I think B is right, because the rewrite would take two weeks and nobody has asked for it so far."
    assert find_question(said, statement) == "**Option B:** repair\nWhich?"
    assert find_question(said.replace("B is", "it is"), statement) == ""
    assert find_question("x" * 500, statement) == ""


def test_a_program_is_told_with_its_command_where_it_has_one():
    alone = ["pytest", "tox", "jest", "vitest", "rspec", "phpunit", "mypy", "pyright", "tsc", "eslint"]
    runners = ["npm", "yarn", "pnpm", "mise", "uv", "poetry", "bun", "deno", "just", "docker"]
    assert [c.programs(f"{each} one two three") for each in alone] == [(each,) for each in alone]
    assert [c.programs(f"{each} one two three") for each in runners] == [
        (f"{each} one two",) for each in runners
    ]
    assert c.programs("cargo one two three") == ("cargo one",)


def test_these_programs_only_print():
    plain = [
        "cat",
        "head",
        "tail",
        "sed",
        "grep",
        "rg",
        "ag",
        "less",
        "more",
        "ls",
        "find",
        "fd",
        "awk",
        "wc",
        "echo",
        "printf",
        "nl",
        "jq",
        "tree",
        "stat",
        "file",
        "which",
        "pwd",
        "diff",
        "sort",
        "xxd",
    ]
    of_git = [
        f"git {each}" for each in ["log", "show", "diff", "blame", "grep", "reflog", "cat-file", "ls-files"]
    ]
    assert [each for each in (*plain, *of_git) if not c.only_prints(f"{each} a")] == []
    assert not c.only_prints("git commit a")
