"""Turns a run directory into plots and one page that says what happened."""
