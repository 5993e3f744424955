"""History-based control: what all answers together would tell about one person."""

from discretion.online.audit.linear import SQUARES, SUM, AnsweredSum, AuditVerdict, Band, IntervalAudit, LinearAudit

__all__ = ["SQUARES", "SUM", "AnsweredSum", "AuditVerdict", "Band", "IntervalAudit", "LinearAudit"]
