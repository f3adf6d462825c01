"""The checks of `envhub check`: the host asks workers, and judges what they answer."""

from envhub.testing.conformance.checks import CHECKS, Check
from envhub.testing.conformance.report import Report, Result
from envhub.testing.conformance.run import check_benchmark

__all__ = ["CHECKS", "Check", "Report", "Result", "check_benchmark"]
