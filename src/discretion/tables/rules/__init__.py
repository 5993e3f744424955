"""Rules that tell which cells of a table are sensitive."""
