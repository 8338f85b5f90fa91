import pytest

from everturn.chat.permission import Permissions
from everturn.chat.tools.files.workspace import Workspace
from everturn.chat.tools.toolbox import build_tools


class Hands:
    """A toolbox over a folder, and what was asked for on the way. `says` is what the person answers."""

    def __init__(self, root, **more):
        self.root = root
        self.requests = []
        self.says = "once"
        self.permissions = Permissions(self._ask)
        self.workspace = Workspace(root)
        self.tools = {tool.name: tool for tool in build_tools(self.workspace, self.permissions, **more)}

    def _ask(self, request):
        self.requests.append(request)
        return self.says(request) if callable(self.says) else self.says

    def do(self, tool, **fields):
        return self.tools[tool].run(fields)

    def fails(self, tool, **fields):
        """The words of a call that is not done."""
        with pytest.raises(Exception) as problem:  # noqa: PT011
            self.do(tool, **fields)
        assert type(problem.value).__name__ in ("ToolError", "PermissionDenied", "RefusedFile"), repr(
            problem.value
        )
        return str(problem.value)

    def write(self, path, content):
        """A file that the tools know nothing of."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return file


@pytest.fixture
def hands(tmp_path):
    (tmp_path / "work").mkdir()
    return Hands(tmp_path / "work")


@pytest.fixture
def elsewhere(tmp_path):
    """A folder beside the workspace."""
    (tmp_path / "elsewhere").mkdir()
    return tmp_path / "elsewhere"
