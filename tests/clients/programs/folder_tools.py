"""Tools over the current folder, for the agents that are built with each library."""

from pathlib import Path

MAX_LINES = 2_000


def read_file(file_path: str) -> str:
    """Read a file and return its lines with their numbers.

    Args:
        file_path: The file.
    """
    lines = Path(file_path).read_text("utf-8").splitlines()[:MAX_LINES]
    return "\n".join(f"{at:6}\t{line}" for at, line in enumerate(lines, 1))


def find_files(pattern: str) -> str:
    """Find files by a glob pattern and return their paths.

    Args:
        pattern: The pattern, such as **/*.py.
    """
    found = sorted(str(path) for path in Path().glob(pattern.removeprefix("./")) if path.is_file())
    return "\n".join(found) or "No files found"


def search_files(pattern: str) -> str:
    """Find the files that contain a text and return their paths.

    Args:
        pattern: The text. A backslash before a character is ignored.
    """
    text = pattern.replace("\\", "").lower()
    files = sorted(path for path in Path().rglob("*") if path.is_file())
    return "\n".join(str(path) for path in files if text in path.read_text("utf-8").lower()) or "No matches"


def edit_file(file_path: str, old_string: str, new_string: str, replace_all: bool = False) -> str:
    """Replace text in a file.

    Args:
        file_path: The file.
        old_string: The text to replace.
        new_string: What to put there.
        replace_all: Replace every occurrence, not only the first one.
    """
    path = Path(file_path)
    text = path.read_text("utf-8")
    path.write_text(text.replace(old_string, new_string, -1 if replace_all else 1), "utf-8")
    return f"The file {file_path} has been updated."


def write_file(file_path: str, content: str) -> str:
    """Write a file.

    Args:
        file_path: The file.
        content: What to write.
    """
    Path(file_path).write_text(content, "utf-8")
    return f"The file {file_path} has been written."


# By the names that coding agents use.
TOOLS = {"Read": read_file, "Glob": find_files, "Grep": search_files, "Edit": edit_file, "Write": write_file}
