"""The dashboard in the browser: sessions, what fills their context, and what they cost."""
