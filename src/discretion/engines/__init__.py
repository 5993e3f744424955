"""Where the data is worked on: the same few verbs on each engine."""
