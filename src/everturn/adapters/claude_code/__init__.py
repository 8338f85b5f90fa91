"""Claude Code integration: status line, hooks, and the settings file that calls them.

Claude Code starts `statusline` and `hooks` very often. They, `transcript_tail` and `quick_json` import only
`os`, `sys` and `time` at start; slower imports happen where they are needed.
"""
