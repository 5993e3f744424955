"""Privacy models: conditions a release satisfies or not."""
