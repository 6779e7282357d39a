"""The rules against torch's own counter, closed forms, and one another."""
