"""Disclosure risk, measured by attacking the release."""
