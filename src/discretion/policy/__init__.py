"""Release policies: what must hold, how detailed data may be, who may waive what."""
