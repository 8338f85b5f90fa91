"""Nothing in the repository knows the machine it was written on, nor where packages are fetched from."""

import re

import pytest

MACHINE_PATH = re.compile(r"(?:^|[^\w.-])/(?:work|root)/")
REGISTRY = re.compile(
    r"https?://\S+(?:/simple\b|\.whl\b|\.tar\.gz\b|\.tgz\b|\.deb\b)"
    r"|https?://(?:files\.pythonhosted|registry\.npmjs|pypi\.python)\."
    r"|^\s*--?(?:extra-)?index-url|^\s*--find-links",
    re.MULTILINE,
)


def offences(text: str) -> list[str]:
    return [found.group() for pattern in (MACHINE_PATH, REGISTRY) for found in pattern.finditer(text)]


def test_no_tracked_file_holds_a_machine_path_or_a_registry_address(root, tracked):
    texts = {str(path.relative_to(root)): path.read_bytes().decode(errors="replace") for path in tracked}
    assert {name: found for name, text in texts.items() if (found := offences(text))} == {}


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("cd {}/main".format("/" + "work"), 1),
        ('"{}/.cache"'.format("/" + "root"), 1),
        ("https:" + "//example.org/simple/click", 1),
        ("https:" + "//files.pythonhosted.org/x", 1),
        ("--" + "index-url https:" + "//example.org", 1),
        ("src/work/notes.md, home/root/x, https://example.org/simpler", 0),
    ],
)
def test_an_offence_is_recognised(text, count):
    assert len(offences(text)) == count
