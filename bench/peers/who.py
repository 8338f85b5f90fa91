"""Who takes part: which packages each peer needs, in an environment of its own, and who drives them."""

import os
import sys
from pathlib import Path

import msgspec

# From the root of the repository, where `make` runs.
HOME = Path("build/peers")


class Peer(msgspec.Struct, frozen=True):
    """`module` has its KINDS and PACKAGES. Without packages it is driven where everturn itself runs."""

    name: str
    module: str
    packages: tuple[str, ...] = ()
    # Installed last and without asking for what it requires.
    alone: tuple[str, ...] = ()
    python: tuple[int, int] = (3, 11)

    @property
    def folder(self) -> Path:
        return HOME / self.name

    @property
    def interpreter(self) -> Path:
        return self.folder / "bin" / "python" if self.packages else Path(sys.executable)

    @property
    def problem(self) -> Path:
        """Where the installer leaves the reason why it could not."""
        return HOME / f"{self.name}.problem"


# openhands-sdk asks for a certifi (2026.10.19) that the package index did not have, so it is installed
# without asking, beside everything else that it requires.
_OPENHANDS = (
    "agent-client-protocol>=0.12.1,<0.13.0", "certifi", "deprecation", "fakeredis[lua]", "fastmcp>=3.2.0,<4",
    "filelock", "httpx[socks]", "jsonschema", "joserfc", "litellm", "pillow", "pydantic",
    "python-frontmatter", "python-json-logger", "tenacity", "websockets", "lmnr>=0.7.60,<0.8.0",
    "tree-sitter", "tree-sitter-bash",
)  # fmt: skip

EVERTURN = Peer("everturn", "")
PEERS = (
    EVERTURN,
    Peer("anthropic", "with_anthropic"),
    Peer("langchain", "with_langchain", ("langchain", "langchain-anthropic")),
    Peer("pydantic-ai", "with_pydantic_ai", ("pydantic-ai-slim[anthropic]", "pydantic-ai-harness")),
    Peer("strands", "with_strands", ("strands-agents", "anthropic")),
    Peer("openhands", "with_openhands", _OPENHANDS, ("openhands-sdk",), (3, 12)),
    Peer("headroom", "with_headroom", ("headroom-ai",)),
    Peer("litellm", "with_litellm", ("litellm",)),
)
BY_NAME = {peer.name: peer for peer in PEERS}


def environment() -> dict[str, str]:
    """What a peer's process is started with: this folder in sight, and nobody asks the network."""
    quiet = {
        "HEADROOM_OFFLINE": "1",
        "OPENHANDS_SUPPRESS_BANNER": "1",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    }
    return {**os.environ, **quiet, "PYTHONPATH": str(Path(__file__).parent.parent)}
