"""everturn inside Claude Code: its status line, its hooks, and the settings file that calls them.

`statusline`, `hooks`, `tail` and `quick_json` are started by Claude Code again and again: they import nothing
but `os`, `sys` and `time` before they have something to do. What takes longer is imported where it is needed.
"""
