"""From a plan to a checked release: plan, study, gate, journal, report."""
