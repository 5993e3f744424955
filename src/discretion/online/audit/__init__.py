"""History-based control: what all answers together would tell about one person."""

from discretion.online.audit.interval import Band, IntervalAudit, Response
from discretion.online.audit.linear import SQUARES, SUM, LinearAudit, Verdict

__all__ = ["SQUARES", "SUM", "Band", "IntervalAudit", "LinearAudit", "Response", "Verdict"]
