"""Hooks: code of the user's that runs at fixed moments, and may never cost the session."""
