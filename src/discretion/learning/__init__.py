"""Models fitted to data: what the attacks and the measures of utility that train a model share."""
