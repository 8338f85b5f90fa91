"""Files that the user is asked about one by one: with secrets, or from which programs run code by themselves.

Names are compared without case and without invisible letters, as some file systems do. A Makefile, the
scripts of a package.json and test code are not listed: they are the project's code like any other, and
running them is a command, which is asked about.
"""

import re
from fnmatch import translate
from typing import Final

from everturn.session.memory_files.confined import SECRET_FILE_PATTERNS

# Further names and folders that hold keys and tokens, beside those that are never sent again.
_SECRET_NAMES: Final = (
    ".envrc", "*.keystore", "*.jks", "*.ppk", "*.gpg", "*.asc", "*_rsa", "*_ed25519", "*_ecdsa", "*_dsa",
    "credentials", "*.credentials", "secrets.*", "*.secret", "*.secrets", ".htpasswd", ".my.cnf",
    ".vault-token", ".dockercfg", "*service-account*.json", "*.ovpn", "wallet.dat", ".*_history",
)  # fmt: skip
_SECRET_FOLDERS: Final = frozenset(
    (".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".password-store")
)
_SECRET: Final = re.compile(
    "|".join(translate(pattern) for pattern in (*SECRET_FILE_PATTERNS, *_SECRET_NAMES))
)

# Folders whose files git, an editor, a build service, a hook manager or an agent runs or obeys by itself.
_CODE_FOLDERS: Final = frozenset(
    (".git", ".hg", ".svn", ".githooks", ".husky", ".lefthook", ".claude", ".cursor", ".codex", ".gemini",
     ".vscode", ".idea", ".zed", ".nvim", ".devcontainer", ".circleci", ".buildkite", ".gitlab", ".github",
     ".forgejo", ".gitea", ".direnv", ".mise")
)  # fmt: skip
_CODE_NAMES: Final = (
    # A file HEAD makes a folder a repository, whose configuration can run programs.
    "head", ".gitmodules", ".gitattributes", ".gitconfig", ".envrc", ".pre-commit-config.yaml",
    "lefthook.y*ml", ".lefthook.y*ml", ".gitlab-ci.y*ml", ".travis.y*ml", "jenkinsfile",
    "azure-pipelines.y*ml",
    "bitbucket-pipelines.y*ml", ".drone.y*ml", ".woodpecker.y*ml", ".mcp.json", "claude.md",
    "claude.local.md", "agents.md", "gemini.md", "everturn.toml", ".bashrc", ".bash_profile",
    ".bash_login", ".bash_logout",
    ".bash_aliases", ".profile", ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".inputrc", ".vimrc", ".nvimrc",
    ".exrc", ".nvim.lua", ".emacs", ".dir-locals.el", ".npmrc", ".yarnrc", ".yarnrc.yml", ".pnpmfile.cjs",
    "sitecustomize.py", "usercustomize.py", "*.pth", ".tool-versions", "mise.toml", ".mise.toml",
    "*.code-workspace",
)  # fmt: skip
_RUNS_CODE: Final = re.compile("|".join(map(translate, _CODE_NAMES)))


def is_secret(path: str) -> bool:
    """Whether the name of a file, or of a folder above it, suggests that it contains secrets."""
    *folders, name = map(_plain_name, path.split("/"))
    return not _SECRET_FOLDERS.isdisjoint((*folders, name)) or _SECRET.fullmatch(name) is not None


def runs_code(path: str) -> bool:
    """Whether some program runs or obeys a file of this name without being asked."""
    *folders, name = map(_plain_name, path.split("/"))
    return not _CODE_FOLDERS.isdisjoint((*folders, name)) or _RUNS_CODE.fullmatch(name) is not None


def is_hidden(path: str) -> bool:
    return any(part.startswith(".") and part not in (".", "..") for part in path.split("/"))


def _plain_name(name: str) -> str:
    return "".join(letter for letter in name.casefold() if letter.isprintable())
