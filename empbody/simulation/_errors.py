"""What a failed simulation raises."""


class SimulationError(RuntimeError):
    """A simulation could not start or could not go on; the message is one sentence."""
