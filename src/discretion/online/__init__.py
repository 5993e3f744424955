"""On-line releases: questions about people are answered with statistics only, and every answer is remembered."""
