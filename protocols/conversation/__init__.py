"""The driver of dialogues, the only part of `protocols` that performs I/O."""
