"""The values of the `anthropic-beta` header that are known, for `unknown_betas: refuse`.

A new beta is missing here until somebody adds it; until then start the twin with `unknown_betas: accept`.
"""

from typing import Final

# SDK 2.8: `types/anthropic_beta_param.py`; a test compares the two.
SDK_BETAS: Final = """
    admin-user-sign-out-2026-10-08 advisor-tool-2026-03-01 agent-memory-2026-07-22
    analytics-usage-cost-2026-08-24 cache-diagnosis-2026-04-07 ce-plugins-2026-09-01
    ce-user-management-2026-07-13 code-execution-2025-05-22 compact-2026-01-12 compact-2026-09-04
    computer-use-2024-10-22 computer-use-2025-01-24 computer-use-2025-11-24 context-1m-2025-08-07
    context-management-2025-06-27 dev-full-thinking-2025-05-14 dreaming-2026-04-21
    experimental-claude-tag-2026-10-21 extended-cache-ttl-2025-04-11 fallback-credit-2026-06-01
    fallback-credit-2026-07-01 fast-mode-2026-02-01 files-api-2025-04-14 inline-tools-2026-09-15
    interleaved-thinking-2025-05-14 managed-agents-2026-04-01 mcp-client-2025-04-04 mcp-client-2025-11-20
    mcp-client-2026-09-15 mcp-tunnels-2026-06-22 message-batches-2024-09-24 message-threads-2026-08-12
    mid-conversation-output-config-2026-07-01 mid-conversation-system-clear-at-2026-08-21
    mid-conversation-tool-changes-2026-07-01 model-context-window-exceeded-2025-08-26 output-128k-2025-02-19
    output-300k-2026-03-24 pdfs-2024-09-25 prompt-caching-2024-07-31 server-side-fallback-2026-06-01
    server-side-fallback-2026-07-01 skills-2025-10-02 spend-limit-reads-2026-09-26
    structured-outputs-2025-11-13 task-budgets-2026-03-13 telemetry-destinations-2026-08-11
    thinking-binding-controls-2026-08-01 thinking-display-updates-2026-08-18 thinking-token-count-2026-05-13
    token-counting-2024-11-01 token-efficient-tools-2025-02-19 user-profiles-2026-03-24
    user-profiles-2026-08-18 user-profiles-2026-09-04 webhooks-2026-10-07
"""
# Sent by Claude Code 2.1.
_CLAUDE_CODE_BETAS: Final = """
    advanced-tool-use-2025-11-20 afk-mode-2026-01-31 ccr-byoc-2025-07-29 ccr-triggers-2026-01-30
    claude-code-20250219 code-execution-2025-08-25 context-hint-2026-04-09 effort-2025-11-24
    environments-2025-11-01 mcp-servers-2025-12-04 mid-conversation-system-2026-04-07 oauth-2025-04-20
    oidc-federation-2026-04-01 per-turn-control-2026-07-01 prompt-caching-scope-2026-01-05
    redact-thinking-2026-02-12 structured-outputs-2025-12-15 summarize-connector-text-2026-03-13
    tool-search-tool-2025-10-19 web-search-2025-03-05
"""
# Documented once, and generally available or gone since.
_OLDER_BETAS: Final = """
    fine-grained-tool-streaming-2025-05-14 max-tokens-3-5-sonnet-2024-07-15 messages-2023-12-15
    search-results-2025-06-09 token-efficient-tools-2026-03-28 tool-examples-2025-10-29 tools-2024-04-04
    tools-2024-05-16 web-fetch-2025-09-10
"""
KNOWN_BETAS: Final = frozenset(f"{SDK_BETAS} {_CLAUDE_CODE_BETAS} {_OLDER_BETAS}".split())
