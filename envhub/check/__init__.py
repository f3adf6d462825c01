"""The checks of `envhub check`: the host asks workers, and judges what they answer."""

from envhub.check.checks import CHECKS, Check
from envhub.check.report import Report, Result
from envhub.check.run import check_benchmark

__all__ = ["CHECKS", "Check", "Report", "Result", "check_benchmark"]
