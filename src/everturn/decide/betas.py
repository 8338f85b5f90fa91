"""Which `anthropic-beta` values a request needs, in addition to the requested ones (api-facts 2.1)."""

from everturn.decide.compact.provider import BETA as COMPACTION
from everturn.decide.compact.provider import KIND
from everturn.decide.micro.declarative import BETA as CONTEXT_MANAGEMENT
from everturn.view.forks import CapturedRequest


def required_betas(safe: CapturedRequest) -> tuple[str, ...]:
    needed = list(safe.parameters.betas)
    if "context_management" in safe.settings:
        needed.append(CONTEXT_MANAGEMENT)
    if safe.messages and any(block.kind == KIND for block in safe.messages[0].blocks):
        needed.append(COMPACTION)
    return tuple(dict.fromkeys(needed))
