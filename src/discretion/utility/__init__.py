"""Information loss and utility: what the release still says."""
