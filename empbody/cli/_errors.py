"""Errors that a command reports in one sentence."""

BAD_INPUT = 2
FAILURE = 1


class CommandError(Exception):
    """What a user is told instead of a traceback; `code` is the exit status."""

    code: int

    def __init__(self, sentence: str, code: int = BAD_INPUT):
        super().__init__(sentence)
        self.code = code


def one_sentence(error: BaseException) -> str:
    """An exception's message without the frames and hints that some libraries append."""
    text = str(error).strip()
    for end in ("\n--------------------", "\nThe above exception", "\nAn error occurred"):
        text = text.split(end)[0]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " ".join(lines) if lines else type(error).__name__
