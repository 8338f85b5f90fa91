"""The fields of a request other than its messages, and their shapes.

Taken from the parameter types of the official SDK 2.8 for `messages` and `count_tokens`. `model_rules.py`
checks what each model allows, `combinations.py` which fields go together.
"""

from everturn.twin.validate.blocks import CACHE_CONTROL_FIELD, add_blocks
from everturn.twin.validate.grammar import Grammar, fraction, integer, text
from everturn.twin.validate.tools import add_tools

MIN_COMPACTION_TRIGGER = 50_000  # api-facts 2.4
MAX_INSTRUCTIONS_CHARS = 16_384  # api-facts 2.5
MIN_THINKING_BUDGET = 1_024
MAX_USER_ID_CHARS = 512

_SHARED = (
    f"model! str, {CACHE_CONTROL_FIELD}, output_config output_config?, speed 'standard'/'fast'?, "
    "thinking thinking?, tool_choice tool_choice?, user_profile_id str?, workspace_id str?, "
    "compaction compaction?, context_management context_management?, mcp_servers [mcp_server]?, "
    "output_format output_format?"
)
MESSAGES = (
    f"{_SHARED}, max_tokens! natural, diagnostics diagnostics?, container container/str?, "
    "fallback_credit_token credit_token/str?, fallbacks [fallback]/'default'?, inference_geo str?, "
    "metadata metadata?, service_tier 'auto'/'standard_only'?, stop_sequences [str]?, stream bool?, "
    "thread thread?, temperature fraction?, top_p fraction?, top_k natural?"
)
COUNT_TOKENS = _SHARED

_SHAPES = {
    "diagnostics": "previous_message_id str?",
    "metadata": "user_id user_id?",
    "container": "id str?, skills [skill]?",
    "skill": "skill_id! str, type! 'anthropic'/'custom', version str",
    "output_config": "effort effort?, format output_format?, task_budget task_budget?",
    "output_format": "schema! object, type! 'json_schema'",
    "task_budget": "total! positive, type! 'tokens', remaining natural?",
    "compaction": "type! 'summarize', instructions instructions?",
    "credit_token": "token! str, mode 'strict'/'best_effort'",
    "fallback": "model! str, max_tokens positive?, output_config output_config?, speed 'standard'/'fast'?, "
    "thinking thinking?",
    "mcp_server": "name! str, type! 'url', url! str, authorization_token str?, "
    "tool_configuration mcp_configuration?",
    "mcp_configuration": "allowed_tools [str]?, enabled bool?",
    "block_binding": "prefix_mismatch_behavior 'error'/'drop_block'?",
    "context_management": "edits [edit]?",
    "tool_uses_kept": "type! 'tool_uses', value! natural",
    "tokens_cleared": "type! 'input_tokens', value! natural",
    "compaction_trigger": "type! 'input_tokens', value! compaction_tokens",
    "message_output_config": "effort effort?",
}
_THOUGHT = "display 'summarized'/'omitted'/'updates'?, block_binding block_binding?"
_FAMILIES = {
    "thinking": {
        "enabled": f"budget_tokens! thinking_budget, {_THOUGHT}",
        "adaptive": _THOUGHT,
        "disabled": "",
        "between_tools": "",
    },
    "tool_choice": {
        "auto": "disable_parallel_tool_use bool",
        "any": "disable_parallel_tool_use bool",
        "tool": "name! str, disable_parallel_tool_use bool",
        "none": "",
    },
    "thread": {"create": "", "continue": "previous_message_id! str"},
    "trigger": {"input_tokens": "value! natural", "tool_uses": "value! natural"},
    "thinking_kept": {"thinking_turns": "value! positive", "all": ""},
    "edit": {
        "clear_tool_uses_20250919": "trigger trigger, keep tool_uses_kept, clear_at_least tokens_cleared?, "
        "exclude_tools [str]?, clear_tool_inputs bool/[str]?",
        "clear_thinking_20251015": "keep 'all'/thinking_kept",
        "compact_20260112": "trigger compaction_trigger?, pause_after_compaction bool, instructions str?",
    },
}


def build_grammar() -> Grammar:
    """The grammar with the shapes of all fields, blocks and tools."""
    grammar = Grammar()
    grammar.define("natural", integer(at_least=0))
    grammar.define("positive", integer(at_least=1))
    grammar.define("fraction", fraction)
    grammar.define("thinking_budget", integer(at_least=MIN_THINKING_BUDGET))
    grammar.define("compaction_tokens", integer(at_least=MIN_COMPACTION_TRIGGER))
    grammar.define("instructions", text(at_most=MAX_INSTRUCTIONS_CHARS))
    grammar.define("user_id", text(at_most=MAX_USER_ID_CHARS))
    grammar.define("effort", grammar.kind("'low'/'medium'/'high'/'xhigh'/'max'"))
    add_blocks(grammar)
    add_tools(grammar)
    grammar.shapes(_SHAPES)
    for name, members in _FAMILIES.items():
        grammar.family(name, members)
    return grammar
