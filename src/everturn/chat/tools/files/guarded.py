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
    ".vault-token", ".dockercfg", "*service-account*.json", "*serviceaccount*.json", "*.ovpn", "wallet.dat",
    ".*_history", "*.env", "*.tfstate.*", ".terraformrc", "auth.json", "token.txt", ".s3cfg", ".boto",
    "kubeconfig", "cookies.sqlite", "login data",
)  # fmt: skip
_SECRET_FOLDERS: Final = frozenset(
    (".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".password-store", "gcloud")
)
_SECRET: Final = re.compile(
    "|".join(translate(pattern) for pattern in (*SECRET_FILE_PATTERNS, *_SECRET_NAMES))
)

# Hidden files and folders belong to programs: git, shells, editors, debuggers, build services, hook managers
# and agents run or obey what is in them by themselves. There are too many to name, so these are those that
# nothing runs.
_HARMLESS_HIDDEN: Final = frozenset(
    (".gitignore", ".gitkeep", ".keep", ".dockerignore", ".npmignore", ".prettierignore", ".eslintignore",
     ".helmignore", ".editorconfig", ".nojekyll", ".mailmap", ".python-version", ".nvmrc", ".node-version",
     ".env.example", ".", "..")
)  # fmt: skip
# The same without a dot: folders, and names of files.
_CODE_FOLDERS: Final = frozenset(("node_modules", "site-packages"))
_CODE_NAMES: Final = (
    # A file HEAD makes a folder a repository, whose configuration can run programs.
    "head", "lefthook.y*ml", "jenkinsfile*", "azure-pipelines.y*ml", "bitbucket-pipelines.y*ml",
    "cloudbuild.y*ml", "appveyor.y*ml", "claude.md", "claude.local.md", "agents.md", "gemini.md", "qwen.md",
    "opencode.json*", "everturn.toml", "sitecustomize.py", "usercustomize.py", "*.pth", "pip.conf",
    "pyvenv.cfg", "mise.toml", "*.code-workspace",
)  # fmt: skip
_RUNS_CODE: Final = re.compile("|".join(map(translate, _CODE_NAMES)))


def is_secret(path: str) -> bool:
    """Whether the name of a file, or of a folder above it, suggests that it contains secrets."""
    *folders, name = map(_plain_name, path.split("/"))
    return not _SECRET_FOLDERS.isdisjoint((*folders, name)) or _SECRET.fullmatch(name) is not None


def runs_code(path: str) -> bool:
    """Whether some program runs or obeys a file of this name without being asked."""
    parts = [*map(_plain_name, path.split("/"))]
    if any(part.startswith(".") and part not in _HARMLESS_HIDDEN for part in parts):
        return True
    return not _CODE_FOLDERS.isdisjoint(parts) or _RUNS_CODE.fullmatch(parts[-1]) is not None


def is_hidden(path: str) -> bool:
    return any(part.startswith(".") and part not in (".", "..") for part in path.split("/"))


def _plain_name(name: str) -> str:
    return "".join(letter for letter in name.casefold() if letter.isprintable())
