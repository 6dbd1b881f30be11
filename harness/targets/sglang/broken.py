"""What an oracle over a release raises."""


class Broken(Exception):
    """A promise that does not hold; `signature` names promise and place, never a number."""

    def __init__(self, oracle: str, signature: str, expected: object, seen: object) -> None:
        self.oracle = oracle
        self.signature = signature
        self.expected = str(expected)
        self.seen = str(seen)
        super().__init__(f"{oracle}.{signature}: expected {expected}, saw {seen}")
