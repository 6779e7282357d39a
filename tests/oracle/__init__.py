"""Hundreds of models, and counts of them that owe nothing to rasp."""
