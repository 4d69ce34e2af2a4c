"""Evidence becomes an answer, by a model or by rules."""
