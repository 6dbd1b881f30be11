"""What a user typed that cannot be done."""


class UserError(Exception):
    """One line that says what to type instead."""
