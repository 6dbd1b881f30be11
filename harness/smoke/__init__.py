"""A minute of everything, for a team's CI: steps, thresholds, and reports that CI systems read."""
