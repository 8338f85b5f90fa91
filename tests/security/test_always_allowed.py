"""What "always" covers, and what is asked about although edits are accepted."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everturn.chat.permission import PermissionRequest, Permissions
from everturn.chat.tools.command_scope import FAMILIES, always_scope, find_family
from everturn.chat.tools.files.edit import write_tool
from everturn.chat.tools.files.guarded import is_secret, runs_code
from everturn.chat.tools.files.read import read_tool
from everturn.chat.tools.files.workspace import Workspace
from everturn.chat.tools.search.grep import grep_tool
from everturn.chat.tools.toolbox import build_tools

FAMILY = {
    "git status -s": "git status …",
    "git log --oneline -5": "git log …",
    "git diff --stat src/a.py": "git diff …",
    "git show HEAD:src/a.py": "git show …",
    "pytest -q tests/test_a.py::test_b": "pytest …",
    "pytest -x -k name": "pytest …",
    "ls -la src": "ls …",
    "go test ./...": "go test …",
    "cargo test --release": "cargo test …",
    "npm test": "npm test …",
    "echo hello": "echo …",
}
# Each was covered by "always" for something harmless, or is a way to run, write or read something else.
ALONE = (
    "git\u00a0status", "git status\u00a0;reboot", "ls\u2003-l", "echo\u2028reboot", "git status\u3000x",
    "ls\x0breboot",
    "git grep -O touch x", "git grep -Oless x", "git grep x", "git diff --output=x", "git diff --ext-diff",
    "git log --output=x", "git log --ext-diff -p", "git log --textconv", "git show --textconv",
    "git -c a=b status",
    "git -C /tmp status", "git --exec-path=/tmp status", "git push", "git checkout x", "git apply x",
    "git config a b",
    "git fetch --upload-pack=x", "git ls-remote ext::x", "git bisect run x", "git rebase -x true",
    "git blame x",
    "git show HEAD:.env", "git diff .env", "git diff ../other", "git log -- /etc/passwd", "git diff x=y",
    "sed 1e x", "sed -n 1p x", "sed -i s/a/b/ x", "awk x", "find . -delete", "find . -exec x", "grep -r x /",
    "python x.py", "python3 x.py", "python3.11 x.py", "python3.12 -c x", "pypy x", "node x", "node20 x",
    "ruby x",
    "perl5.36 x", "php x", "lua x", "nice rm x", "ionice x", "busybox rm x", "toybox rm x", "stdbuf -o0 x",
    "setsid x",
    "env x", "sudo x", "doas x", "xargs x", "time x", "timeout 1 x", "nohup x", "watch x", "chroot x",
    "unshare x",
    "strace x", "gdb x", "script x", "expect x", "ssh x", "scp x y", "rsync x y", "curl x", "wget x",
    "nc x", "tar xf x",
    "zip x", "vim x", "less x", "man x", "make", "make test", "make SHELL=x", "npm run x", "npx x",
    "pip install x",
    "uv run x", "docker run x", "cat x", "cat .env", "head x", "tail x", "cp x y", "mv x y", "rm x",
    "tee x", "dd x",
    "pytest -p evil", "pytest -c evil.ini", "pytest --rootdir=/tmp", "pytest -o a=b", "pytest /tmp/x.py",
    "pytest ../x",
    "pytest --pyargs x", "pytest --pdbcls=x:y", "cargo test --config x", "cargo test --manifest-path x",
    "go test -exec x", "go build -toolexec=x", "go test -o x", "go vet -vettool=x", "npm test --prefix=x",
    "npm test --script-shell=x", "ruff check --fix", "ruff check --config x=y", "mypy --config-file x",
    "ls ~", "ls /",
    "ls ..", "ls .ssh", "ls *", "ls $HOME", "ls; x", "ls && x", "ls | x", "ls > x", "ls `x`", "ls $(x)",
    "ls\nreboot",
    "ls \\x", "ls #x", "ls !x", "ls {a,b}", "ls [a]", "ls 'a'", 'ls "a"', "A=1 ls", "./ls", "/bin/ls",
    "LS", "", " ",
    "exec ls", "command ls", "builtin echo x", "eval ls", ". x", "source x", "alias ls=x", "function",
    "which -a", "date -s x",
)  # fmt: skip


@pytest.mark.parametrize("command", FAMILY)
def test_always_covers_a_listed_family_of_commands(command: str):
    assert always_scope(command) == FAMILY[command]


@pytest.mark.parametrize("command", ALONE)
def test_every_other_command_is_covered_word_for_word(command: str):
    assert always_scope(command) == f"exactly: {command}"


@given(st.text(max_size=30), st.sampled_from([*FAMILY]), st.text(max_size=30))
def test_no_text_around_a_command_is_covered_unless_it_is_plain(before: str, command: str, after: str):
    around = before + command + after
    if not (around.isascii() and around.replace(" ", "").isalnum()) and find_family(around):
        assert set(around) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:,@%+= -")
        assert find_family(around) in FAMILIES


def test_two_commands_that_look_alike_are_two_commands():
    assert always_scope("x \x1b") != always_scope("x \\x1b")
    assert always_scope("git status …") != always_scope("git status")


class Person:
    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, request: PermissionRequest) -> str:
        self.asked.append(request.key)
        return "always"


@pytest.fixture
def person() -> Person:
    return Person()


# ── secrets ──────────────────────────────────────────────────────────────────────────────────────


def test_always_for_a_file_with_secrets_covers_that_file(tmp_path: Path, person: Person):
    work, outside = tmp_path / "work", tmp_path / "home"
    for folder in (work / ".ssh", outside / ".ssh"):
        folder.mkdir(parents=True)
    paths = [
        *(work / name for name in (".env", ".env.local", "server.pem", ".ssh/config", "secrets.yaml")),
        *(
            outside / name
            for name in (".bashrc", ".netrc", ".zsh_history", ".ssh/config", ".ssh/known_hosts")
        ),
    ]
    read = read_tool(Workspace(work), Permissions(person))  # type: ignore[arg-type]
    for path in paths:
        path.write_text("x\n")
        for _ in range(2):
            read.run({"file_path": str(path)})  # type: ignore[misc]
    assert person.asked == [
        f"reading {path.relative_to(work) if path.is_relative_to(work) else path}" for path in paths
    ]


def test_always_for_a_folder_outside_covers_no_hidden_file_in_it(tmp_path: Path, person: Person):
    work, outside = tmp_path / "work", tmp_path / "home"
    (outside / ".config").mkdir(parents=True)
    work.mkdir()
    for name in ("plain.txt", ".bashrc", ".config/x", "id_rsa"):
        (outside / name).write_text("CANARY\n")
    permissions = Permissions(person)  # type: ignore[arg-type]
    found = grep_tool(Workspace(work), permissions).run({"pattern": "CANARY", "path": str(outside)})  # type: ignore[misc]
    assert found.splitlines() == [str(outside / "plain.txt")]
    assert person.asked == [f"looking into {outside}"]
    read_tool(Workspace(work), permissions).run({"file_path": str(outside / "plain.txt")})  # type: ignore[misc]
    assert person.asked == [f"looking into {outside}"]
    read_tool(Workspace(work), permissions).run({"file_path": str(outside / ".bashrc")})  # type: ignore[misc]
    assert person.asked == [f"looking into {outside}", f"reading {outside / '.bashrc'}"]


# ── accepted edits ───────────────────────────────────────────────────────────────────────────────

RUN_CODE = (
    ".claude/settings.json", ".claude/hooks/x.sh", ".CLAUDE/settings.json",
    "sub/.claude/settings.local.json", ".envrc",
    ".husky/pre-commit", ".git/config", ".GIT/hooks/pre-commit", ".git\u200c/config", ".githooks/x",
    ".github/workflows/x.yml", ".gitlab-ci.yml", ".circleci/config.yml", "Jenkinsfile", ".vscode/tasks.json",
    ".idea/x.xml", ".devcontainer/devcontainer.json", ".pre-commit-config.yaml", "lefthook.yml", ".bashrc",
    ".zshrc",
    ".profile", ".vimrc", ".exrc", ".dir-locals.el", ".mcp.json", "CLAUDE.md", "docs/AGENTS.md",
    "everturn.toml", ".npmrc",
    "sitecustomize.py", "lib/x.pth", ".gitattributes", ".gitmodules", "inner/HEAD", ".env", "key.pem",
    ".mise.toml",
)  # fmt: skip


@pytest.mark.parametrize("name", RUN_CODE)
def test_accepted_edits_still_ask_for_files_that_run_code(tmp_path: Path, name: str, person: Person):
    permissions = Permissions(person, mode="accept edits")  # type: ignore[arg-type]
    write = write_tool(Workspace(tmp_path), permissions)
    write.run({"file_path": "src/plain.py", "content": "x"})  # type: ignore[misc]
    assert person.asked == []
    write.run({"file_path": name, "content": "x"})  # type: ignore[misc]
    assert person.asked == [f"writing {name}"]


@pytest.mark.parametrize(
    "name", ["Makefile", "package.json", "src/app.py", "tests/conftest.py", "README.md", "header.h"]
)
def test_the_projects_own_code_is_edited_without_a_question(tmp_path: Path, name: str, person: Person):
    permissions = Permissions(person, mode="accept edits")  # type: ignore[arg-type]
    write_tool(Workspace(tmp_path), permissions).run({"file_path": name, "content": "x"})  # type: ignore[misc]
    assert person.asked == []


def test_read_only_changes_nothing_with_any_tool(tmp_path: Path, person: Person):
    permissions = Permissions(person, mode="read only")  # type: ignore[arg-type]
    tools = {tool.name: tool for tool in build_tools(Workspace(tmp_path), permissions)}
    for name, fields in {
        "Write": {"file_path": "x", "content": "x"},
        "Edit": {"file_path": "x", "old_string": "", "new_string": "x"},
        "Bash": {"command": "touch x"},
    }.items():
        with pytest.raises(Exception, match="read only"):
            tools[name].run(fields)  # type: ignore[misc]
    assert (list(tmp_path.iterdir()), person.asked) == ([], [])


@pytest.mark.parametrize(
    "path",
    [
        ".gdbinit",
        ".pylintrc",
        ".cargo/config.toml",
        ".devcontainer.json",
        ".cursorrules",
        ".yarn/releases/yarn.cjs",
        ".venv/bin/python",
        "node_modules/.bin/eslint",
        "node_modules/left-pad/index.js",
        "lib/site-packages/a.py",
        "cloudbuild.yaml",
        "opencode.json",
        ".a-tool-of-next-year/run.sh",
        "src/.hidden/x.py",
    ],
)
def test_every_hidden_file_belongs_to_a_program_that_may_run_it(path: str):
    assert runs_code(path)


@pytest.mark.parametrize(
    "path", [".gitignore", "src/.gitkeep", "./src/a.py", "src/a.b.py", ".editorconfig", "../x.py"]
)
def test_files_that_nothing_runs_are_no_reason_to_ask(path: str):
    assert not runs_code(path)


@pytest.mark.parametrize(
    "path",
    [
        "prod.env",
        "infra/terraform.tfstate.backup",
        "serviceAccountKey.json",
        "auth.json",
        "kubeconfig",
        ".boto",
    ],
)
def test_more_names_hold_secrets(path: str):
    assert is_secret(path)
