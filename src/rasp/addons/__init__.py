"""Addons: what a user switches on by importing it (`import rasp.addons.energy`)."""
