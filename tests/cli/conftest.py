from cli_runs import ana, run

__all__ = ["ana", "run"]  # fixtures
