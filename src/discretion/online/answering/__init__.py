"""The three ways to answer: truly under an audit, with noise from a budget, changed a little."""
