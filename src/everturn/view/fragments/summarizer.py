"""The complete system prompt of a summary call that does not share the conversation's own."""

SUMMARIZER = (
    "You write summaries of conversations between a user and a software agent, so that the work can go on."
)
