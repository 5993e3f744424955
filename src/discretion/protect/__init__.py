"""Protection methods for microdata, one file per family."""
