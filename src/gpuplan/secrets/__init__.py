"""Secret references and keyed digests, and what keeps secrets out of all output."""
