"""What a user got wrong about a hunt, said in one line."""


class ScenarioError(ValueError):
    """A scenario file that cannot be used: which file, and what is wrong."""
