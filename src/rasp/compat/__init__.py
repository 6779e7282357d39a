"""The older tools' own names over this engine, one tool a file: `from rasp.compat import thoplw`."""
